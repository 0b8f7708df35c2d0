package app

import (
	"encoding/json"

	"weir/internal/config"
	"weir/internal/plan"
	"weir/internal/plugins/opentelemetry"
	"weir/internal/snapshot"
)

// trace has requests to products traced, as OPENTELEMETRY asks for.
func trace(p *snapshot.Products, t *config.Tracing) error {
	var conf opentelemetry.Config
	name := samplers[t.Sampler]
	conf.Sampler.Name, conf.Sampler.Options.Fraction = name, t.Ratio
	root := &conf.Sampler.Options.Root
	root.Name, root.Options.Fraction = name, t.Ratio
	if t.ParentBased {
		conf.Sampler.Name = "parent_base"
	}
	var meta traceMetadata
	meta.Resource.Name = t.Service
	meta.Collector.Address, meta.Collector.Protocol = t.Collector, "grpc"
	meta.Batch.Queue, meta.Batch.Size, meta.Batch.Timeout = t.QueueSize, t.BatchSize, t.Delay.Seconds()
	rawConf, err := json.Marshal(struct {
		Sampler opentelemetry.Sampler `json:"sampler"`
	}{conf.Sampler})
	if err != nil {
		return err
	}
	rawMeta, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	p.Policies = append(p.Policies, opentelemetry.Plugin)
	p.Ahead = []plan.Conf{{Plugin: opentelemetry.Plugin.Name, Raw: rawConf}}
	p.Metadata = map[string]json.RawMessage{opentelemetry.Plugin.Name: rawMeta}
	return nil
}

// samplers are the plugin's names of OpenTelemetry's.
var samplers = map[string]string{"AlwaysOn": "always_on", "AlwaysOff": "always_off", "TraceIdRatioBased": "trace_id_ratio"}

// traceMetadata is the plugin's metadata.
type traceMetadata struct {
	Resource struct {
		Name string `json:"service.name"`
	} `json:"resource"`
	Collector struct {
		Address  string `json:"address"`
		Protocol string `json:"protocol"`
	} `json:"collector"`
	Batch struct {
		Queue   int     `json:"max_queue_size"`
		Size    int     `json:"max_export_batch_size"`
		Timeout float64 `json:"batch_timeout"`
	} `json:"batch_span_processor"`
}

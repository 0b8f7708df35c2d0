package opentelemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"weir/internal/plugin"
	"weir/internal/schema"
)

// Metadata is what all configurations have in common. Without it nothing is traced.
type Metadata struct {
	TraceIDSource string     `json:"trace_id_source"      schema:"default=random,enum=x-request-id|random" doc:"Where the id of a trace that begins here comes from."`
	Resource      Attributes `json:"resource"             doc:"Attributes of the gateway."`
	Collector     Collector  `json:"collector"            schema:"default={}" doc:"Where spans are sent."`
	Batch         Batch      `json:"batch_span_processor" schema:"default={}" doc:"How spans are collected before they are sent."`
	SetVariables  bool       `json:"set_ngx_var"          schema:"default=false" doc:"Give the variables opentelemetry_context_traceparent, opentelemetry_trace_id and opentelemetry_span_id values."`
}

// Collector is the server that takes spans.
type Collector struct {
	Address  string            `json:"address"         schema:"default=127.0.0.1:4318"        doc:"Its host and port, or URL; /v1/traces is added to that."`
	Protocol string            `json:"protocol"        schema:"default=http,enum=http|grpc"   doc:"OTLP over HTTP (path /v1/traces), or over gRPC. Weir's own; APISIX has HTTP."`
	Timeout  int               `json:"request_timeout" schema:"default=3"                     doc:"Seconds that a request to it may take."`
	Headers  map[string]string `json:"request_headers"                                        doc:"Headers of requests to it."`
}

// Batch bounds what is collected.
type Batch struct {
	DropOnQueueFull bool    `json:"drop_on_queue_full"    doc:"Spans are dropped where the queue is full; they always are."`
	MaxQueueSize    int     `json:"max_queue_size"        schema:"default=2048" doc:"Spans that wait."`
	Timeout         float64 `json:"batch_timeout"         schema:"default=5"    doc:"Seconds until a batch is sent that is not full."`
	InactiveTimeout float64 `json:"inactive_timeout"      schema:"default=2"    doc:"Not needed; batches are sent after batch_timeout."`
	MaxExportSize   int     `json:"max_export_batch_size" schema:"default=256"  doc:"Spans of a batch."`
}

// Attributes are names with strings, numbers and booleans.
type Attributes []attribute.KeyValue

// JSONSchema implements schema.Describer.
func (*Attributes) JSONSchema() []byte {
	return []byte(`{"type":"object","additionalProperties":{"type":["boolean","number","string"]}}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attributes) UnmarshalJSON(b []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(b, &given); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		var s string
		var n float64
		var is bool
		switch raw := given[key]; {
		case json.Unmarshal(raw, &s) == nil:
			*a = append(*a, attribute.String(key, s))
		case json.Unmarshal(raw, &n) == nil:
			*a = append(*a, attribute.Float64(key, n))
		case json.Unmarshal(raw, &is) == nil:
			*a = append(*a, attribute.Bool(key, is))
		}
	}
	return nil
}

func (m *Metadata) resource() *resource.Resource {
	return resource.NewSchemaless(append(Attributes{attribute.String("service.name", "Weir")}, m.Resource...)...)
}

// A sink sends spans. Configurations with the same metadata share it.
type sink struct {
	sdk.SpanProcessor
	timeout time.Duration
}

// Close sends what waits.
func (s sink) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	_ = s.SpanProcessor.Shutdown(ctx) // what cannot be sent now is lost with the process
}

// Shutdown is the provider's, of which several share the sink: nothing.
func (s sink) Shutdown(context.Context) error { return nil }

func connect(m *Metadata, env plugin.Env) (sink, error) {
	var err error
	s := plugin.Keep(env, name+"/"+string(env.Metadata), func() sink {
		var e sdk.SpanExporter
		if e, err = m.exporter(env.Context); err != nil {
			return sink{}
		}
		return sink{
			sdk.NewBatchSpanProcessor(reporting{e, env.Log},
				sdk.WithMaxQueueSize(m.Batch.MaxQueueSize), sdk.WithMaxExportBatchSize(m.Batch.MaxExportSize),
				sdk.WithBatchTimeout(schema.Seconds(m.Batch.Timeout))),
			schema.Seconds(m.Collector.Timeout),
		}
	})
	if err != nil {
		return s, fmt.Errorf("metadata: collector: %w", err)
	}
	return s, nil
}

// exporter opens the way to the collector, which need not be there yet.
func (m *Metadata) exporter(ctx context.Context) (sdk.SpanExporter, error) {
	c := &m.Collector
	timeout := schema.Seconds(c.Timeout)
	host, path, secure := placeOf(c.Address)
	if c.Protocol == "grpc" {
		o := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(host), otlptracegrpc.WithTimeout(timeout), otlptracegrpc.WithHeaders(c.Headers)}
		if !secure {
			o = append(o, otlptracegrpc.WithInsecure())
		}
		return otlptracegrpc.New(ctx, o...)
	}
	o := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(host), otlptracehttp.WithURLPath(path + "/v1/traces"),
		otlptracehttp.WithTimeout(timeout), otlptracehttp.WithHeaders(c.Headers), otlptracehttp.WithProxy(nil),
	}
	if !secure {
		o = append(o, otlptracehttp.WithInsecure())
	}
	return otlptracehttp.New(ctx, o...)
}

// A reporting exporter logs what fails: the library would print it.
type reporting struct {
	sdk.SpanExporter
	log *slog.Logger
}

// ExportSpans implements sdk.SpanExporter. Spans that could not be sent are gone.
func (r reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil && r.log != nil {
		r.log.Warn("spans could not be sent", "plugin", name, "spans", len(spans), "err", err)
	}
	return nil
}

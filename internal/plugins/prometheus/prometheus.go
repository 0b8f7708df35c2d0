// Package prometheus counts requests for Prometheus.
package prometheus

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/internal/plugin"
)

const name = "prometheus"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{
		Name: name, Priority: 500, Version: 0.2, PreferRoute: true,
		Doc: "Counts requests, their latency and their size, for Prometheus.",
	},
	compile,
	plugin.Metadata[Metadata](),
	plugin.Endpoints(endpoints),
)

// Config is the configuration on a route.
type Config struct {
	PreferName bool `json:"prefer_name" schema:"default=false" doc:"Label with the names of route and service instead of their ids, where they have one."`
}

// Metadata is the metadata of the plugin.
type Metadata struct {
	DisabledLabels *Disabled `json:"disabled_labels" doc:"Labels that are left empty, by metric."`
}

// Disabled lists labels by metric. What makes a metric what it is, as the code of
// http_status, cannot be disabled.
type Disabled struct {
	_            struct{} `schema:"closed"`
	Status       []string `json:"http_status" schema:"each.enum=route|matched_uri|matched_host|service|consumer|node|request_type|request_llm_model|llm_model|response_source"`
	Latency      []string `json:"http_latency" schema:"each.enum=route|service|consumer|node|request_type|request_llm_model|llm_model"`
	Bandwidth    []string `json:"bandwidth" schema:"each.enum=route|service|consumer|node|request_type|request_llm_model|llm_model"`
	LLMLatency   []string `json:"llm_latency" schema:"each.enum=route_id|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Prompt       []string `json:"llm_prompt_tokens" schema:"each.enum=route_id|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Completion   []string `json:"llm_completion_tokens" schema:"each.enum=route_id|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Active       []string `json:"llm_active_connections" schema:"each.enum=route|route_id|matched_uri|matched_host|service|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	PromptDist   []string `json:"llm_prompt_tokens_dist" schema:"each.enum=route_id|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	CompleteDist []string `json:"llm_completion_tokens_dist" schema:"each.enum=route_id|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Hits         []string `json:"ai_cache_hits_total" schema:"each.enum=route|route_id|service|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Misses       []string `json:"ai_cache_misses_total" schema:"each.enum=route|route_id|service|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Bypasses     []string `json:"ai_cache_bypasses_total" schema:"each.enum=route|route_id|service|service_id|consumer|node|request_type|request_llm_model|llm_model"`
	Embedding    []string `json:"ai_cache_embedding_latency" schema:"each.enum=route|route_id|service|service_id|consumer|node|request_type|request_llm_model|llm_model"`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	meta, err := plugin.DecodeMetadata[Metadata](env)
	if err != nil {
		return plugin.Phases{}, err
	}
	attr, err := readAttr(env.Attr)
	if err != nil {
		return plugin.Phases{}, err
	}
	rec := recorderOf(env, attr)
	disabled := Disabled{}
	if meta.DisabledLabels != nil {
		disabled = *meta.DisabledLabels
	}
	id, err := json.Marshal(disabled)
	if err != nil {
		return plugin.Phases{}, err
	}
	v := plugin.Keep(env, fmt.Sprintf("%s/%v/%s", name, c.PreferName, id), func() *view {
		return &view{recorder: rec, names: c.PreferName, disabled: disabled}
	})
	return plugin.Phases{Log: v.log}, nil
}

// A view is how a configuration labels requests. Those that label them alike share
// it.
type view struct {
	*recorder
	names    bool
	disabled Disabled
}

// Close forgets what the view has labelled. The series stay: others may have them,
// too, and Prometheus wants to see them.
func (v *view) Close() { v.sets.Delete(func(k key, _ set) bool { return k.view == v }) }

// log counts a request.
func (v *view) log(c *plugin.Ctx) {
	k := v.keyOf(c)
	if v.attr.extra {
		b := buffers.Get().(*[]byte)
		*b = v.attr.appendExtra((*b)[:0], c)
		k.extra = text(*b)
		v.count(c, k)
		buffers.Put(b)
		return
	}
	v.count(c, k)
}

func (v *view) count(c *plugin.Ctx, k key) {
	s, ok := v.sets.Get(k)
	if !ok {
		s = v.resolve(k.clone())
	}
	latency := c.Sent.End.Sub(c.Start)
	var upstream time.Duration
	for i := range c.Sent.Tries {
		upstream += c.Sent.Tries[i].Total
	}
	add(s.status, 1)
	observe(s.latency[whole], int64(latency))
	if k.node != "" {
		observe(s.latency[inUpstream], int64(upstream))
	}
	observe(s.latency[inGateway], int64(max(latency-upstream, 0)))
	add(s.bandwidth[ingress], c.Sent.Received)
	add(s.bandwidth[egress], c.Sent.Bytes)
	if s.llm != nil {
		s.llm.count(c)
	}
}

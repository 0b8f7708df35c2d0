package prometheus

import (
	"slices"
	"strconv"
	"time"

	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// llmLabels are the labels of metrics about models.
var llmLabels = []string{"route_id", "service_id", "consumer", "node", "request_type", "request_llm_model", "llm_model"}

// stream is the type of requests whose answer has a first token.
const stream = "ai_stream"

// llmVecs are the metrics about models.
type llmVecs struct {
	latency, prompt, completion, promptDist, completionDist *meter.Vec
}

// llmSet are their series.
type llmSet struct {
	total, first, prompt, completion, promptDist, completionDist *meter.Series
}

func newLLMVecs(m *meter.Registry, a *Attr) llmVecs {
	vec := func(name, help string, kind meter.Kind, buckets []float64, unit time.Duration, first ...string) *meter.Vec {
		return m.Vec(meter.Desc{
			Name: name, Help: help, Kind: kind, Labels: a.names(name, slices.Concat(first, llmLabels)),
			Buckets: buckets, Unit: float64(unit), Expire: a.expire(name),
		})
	}
	return llmVecs{
		latency:        vec("llm_latency", "LLM request latency in milliseconds", meter.Histogram, a.LLMBuckets, time.Millisecond, "type"),
		prompt:         vec("llm_prompt_tokens", "LLM service consumed prompt tokens", meter.Counter, nil, 0),
		completion:     vec("llm_completion_tokens", "LLM service consumed completion tokens", meter.Counter, nil, 0),
		promptDist:     vec("llm_prompt_tokens_dist", "LLM prompt tokens distribution per request", meter.Histogram, a.PromptBuckets, 0),
		completionDist: vec("llm_completion_tokens_dist", "LLM completion tokens distribution per request", meter.Histogram, a.CompletionBuckets, 0),
	}
}

func (l *llmVecs) resolve(r *resolution, d *Disabled) *llmSet {
	s := &llmSet{
		total:          r.series(l.latency, "llm_latency", llmLabels, d.LLMLatency, "total"),
		prompt:         r.series(l.prompt, "llm_prompt_tokens", llmLabels, d.Prompt),
		completion:     r.series(l.completion, "llm_completion_tokens", llmLabels, d.Completion),
		promptDist:     r.series(l.promptDist, "llm_prompt_tokens_dist", llmLabels, d.PromptDist),
		completionDist: r.series(l.completionDist, "llm_completion_tokens_dist", llmLabels, d.CompleteDist),
	}
	if r.key.requestType == stream {
		s.first = r.series(l.latency, "llm_latency", llmLabels, d.LLMLatency, "ttft")
	}
	return s
}

func (s *llmSet) any(is func(*meter.Series) bool) bool {
	return slices.ContainsFunc([]*meter.Series{s.total, s.first, s.prompt, s.completion, s.promptDist, s.completionDist}, is)
}

// countLLM counts a request to a model. Its times are those of answers that were
// served, since the metric does not tell errors apart.
func (s *llmSet) count(c *plugin.Ctx) {
	number := func(variable string) (n float64) {
		text, _ := c.Var(variable)
		n, _ = strconv.ParseFloat(text, 64) // what is none counts nothing
		return n
	}
	if first := number("llm_time_to_first_token"); first != 0 && c.Sent.Status < 400 {
		observe(s.total, int64(schema.Milliseconds(number("apisix_upstream_response_time"))))
		observe(s.first, int64(schema.Milliseconds(first)))
	}
	prompt, completion := int64(number("llm_prompt_tokens")), int64(number("llm_completion_tokens"))
	add(s.prompt, prompt)
	observe(s.promptDist, prompt)
	add(s.completion, completion)
	observe(s.completionDist, completion)
}

// Package opentelemetry sends a trace of every sampled request to a collector, by
// OTLP over HTTP or gRPC.
package opentelemetry

import (
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"weir/internal/expr"
	"weir/internal/plugin"
)

const name = "opentelemetry"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 12009, Doc: "Trace requests, with spans for the tries of their upstreams, to an OpenTelemetry collector."},
	compile,
	plugin.Metadata[Metadata](),
)

// Config is the configuration on a route.
type Config struct {
	Sampler Sampler `json:"sampler" doc:"Which requests are traced."`
	// The minimum of the original for the lists is one element.
	Attributes []string `json:"additional_attributes"               schema:"minItems=1" doc:"Variables that become attributes of the span."`
	Headers    []string `json:"additional_header_prefix_attributes" schema:"minItems=1" doc:"Request headers that become attributes of the span; with a \"*\" at its end the beginning of their names."`
}

// Sampler chooses requests.
type Sampler struct {
	Name    string  `json:"name"    schema:"default=always_off,enum=always_on|always_off|trace_id_ratio|parent_base" doc:"parent_base does as the caller did, and as root says where there is none."`
	Options Options `json:"options" doc:"Of trace_id_ratio and parent_base."`
}

// Options are those of a sampler.
type Options struct {
	Fraction float64 `json:"fraction" schema:"default=0" doc:"Share of traces that trace_id_ratio takes."`
	Root     Root    `json:"root"     doc:"For requests that are not part of a trace."`
}

// Root is the sampler of requests that are not part of a trace.
type Root struct {
	Name    string `json:"name" schema:"default=always_off,enum=always_on|always_off|trace_id_ratio" doc:"How they are chosen."`
	Options struct {
		Fraction float64 `json:"fraction" schema:"default=0" doc:"Share of traces that trace_id_ratio takes."`
	} `json:"options" doc:"Of trace_id_ratio."`
}

func (s *Sampler) sampler() sdk.Sampler {
	if s.Name == "parent_base" {
		return sdk.ParentBased(samplerOf(s.Options.Root.Name, s.Options.Root.Options.Fraction))
	}
	return samplerOf(s.Name, s.Options.Fraction)
}

func samplerOf(name string, fraction float64) sdk.Sampler {
	switch name {
	case "always_on":
		return sdk.AlwaysSample()
	case "trace_id_ratio":
		return sdk.TraceIDRatioBased(fraction)
	}
	return sdk.NeverSample()
}

// errMetadata has the meaning of APISIX's: without metadata nothing is traced.
var errMetadata = errors.New("plugin_metadata is required for opentelemetry plugin to work")

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	t := &tracing{env: env}
	for _, a := range c.Attributes {
		v, err := expr.Variable(a)
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("additional_attributes: %w", err)
		}
		t.variables = append(t.variables, variable{a, v})
	}
	for _, h := range c.Headers {
		prefix, begins := strings.CutSuffix(strings.ToLower(h), "*")
		t.headers = append(t.headers, header{prefix, begins})
	}
	meta, err := plugin.DecodeMetadata[Metadata](env)
	switch {
	case err != nil:
		return plugin.Phases{}, err
	case env.Metadata == nil:
		if env.Log != nil {
			env.Log.Warn("requests are not traced", "plugin", name, "owner", env.Owner, "err", errMetadata)
		}
		return plugin.Phases{}, nil
	}
	out, err := connect(meta, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	t.fromRequestID, t.setVariables = meta.TraceIDSource == "x-request-id", meta.SetVariables
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(out), sdk.WithResource(meta.resource()), sdk.WithSampler(c.Sampler.sampler()), sdk.WithIDGenerator(ids{}),
	)
	t.tracer = provider.Tracer("weir")
	return plugin.Phases{Rewrite: t.begin, BeforeProxy: t.proxied, Header: t.answered, Log: t.end}, nil
}

// A tracing is the compiled configuration.
type tracing struct {
	env           plugin.Env
	tracer        trace.Tracer
	fromRequestID bool
	setVariables  bool
	variables     []variable
	headers       []header
}

type variable struct {
	name  string
	value expr.Var
}

type header struct {
	name   string // lower case
	begins bool   // names may go on
}

// propagator is W3C Trace Context.
var propagator = propagation.TraceContext{}

// carrier reads and writes the headers of a request.
type carrier struct{ c *plugin.Ctx }

func (h carrier) Get(key string) string {
	v, _ := h.c.Header(key)
	return v
}

// Set implements propagation.TextMapCarrier.
func (h carrier) Set(key, value string) { h.c.SetHeader(key, h.c.Keep([]byte(value))) }

// Keys implements propagation.TextMapCarrier; the propagator does not ask.
func (h carrier) Keys() []string { return nil }

var _ propagation.TextMapCarrier = carrier{}

func text(key, value string) attribute.KeyValue {
	return attribute.String(key, strings.Clone(value))
}

// Package responserewrite changes responses: status, headers and body.
package responserewrite

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "response-rewrite", Priority: 899, Doc: "Rewrites status, headers and body of responses."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	MaxSize int64      `json:"max_resp_body_size" schema:"min=1,default=67108864" doc:"How many bytes of a body filters take; what follows is cut off."`
	Headers *Headers   `json:"headers"            doc:"Changes of response headers: add, set and remove; or just the headers to set. Variables are filled in."`
	Body    *string    `json:"body"               doc:"New body."`
	Base64  bool       `json:"body_base64"        schema:"default=false" doc:"body is encoded in Base64."`
	Status  int        `json:"status_code"        schema:"min=200,max=598" doc:"New status."`
	Vars    Expression `json:"vars"               doc:"Expression that must hold for the response to be rewritten."`
	Filters []Filter   `json:"filters"            schema:"minItems=1" doc:"Replacements in the body, in turn. A body in gzip or Brotli is decompressed."`
}

// An Expression is a match expression.
type Expression json.RawMessage

// JSONSchema implements schema.Describer.
func (*Expression) JSONSchema() []byte { return []byte(`{"type":"array"}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (e *Expression) UnmarshalJSON(b []byte) error {
	*e = append((*e)[:0], b...)
	return nil
}

// A Filter replaces text.
type Filter struct {
	Regex   string `json:"regex"   schema:"required,minLen=1" doc:"Regular expression."`
	Scope   string `json:"scope"   schema:"enum=once|global,default=once" doc:"The first match or all of them."`
	Replace string `json:"replace" schema:"required" doc:"What takes the place of a match; $1 is its first group."`
	Options string `json:"options" schema:"default=jo" doc:"Options of the regular expression: i, m, s, x and others of ngx.re."`
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Excludes("body", "filters"), schema.Excludes("filters", "body")}
}

// A rewriter is a compiled configuration.
type rewriter struct {
	vars    *expr.Expr // nil: always
	status  int
	headers *operations // nil: none
	body    []byte      // nil: the upstream's
	filters []filter
	maxSize int64
	env     plugin.Env
}

// A filter is a compiled Filter.
type filter struct {
	source  string
	pattern *expr.Pattern
	with    *expr.Replacement
	all     bool
}

var errBase64 = errors.New("invalid base64 content")

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	r := &rewriter{status: c.Status, maxSize: c.MaxSize, env: env}
	var err error
	if c.Headers != nil {
		if r.headers, err = c.Headers.compile(env); err != nil {
			return plugin.Phases{}, err
		}
	}
	switch {
	case c.Base64:
		if r.body, err = decode(c.Body); err != nil {
			return plugin.Phases{}, err
		}
	case c.Body != nil:
		r.body = append([]byte{}, *c.Body...)
	}
	if c.Vars != nil {
		if r.vars, err = expr.Compile(json.RawMessage(c.Vars)); err != nil {
			return plugin.Phases{}, fmt.Errorf("failed to validate the 'vars' expression: %w", err)
		}
	}
	for _, f := range c.Filters {
		p, err := expr.CompileOptions(f.Regex, f.Options)
		var with *expr.Replacement
		if err == nil {
			with, err = expr.CompileReplacement(f.Replace)
		}
		if err != nil {
			return plugin.Phases{}, fmt.Errorf(`regex "%s" validation failed: %w`, f.Regex, err)
		}
		r.filters = append(r.filters, filter{f.Regex, p, with, f.Scope == "global"})
	}
	p := plugin.Phases{Header: r.header}
	if r.body != nil || r.filters != nil {
		p.Body = r.open
	}
	return p, nil
}

// decode reads Base64, the padding may be missing.
func decode(body *string) ([]byte, error) {
	if body == nil || *body == "" {
		return nil, errBase64
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(*body, "="))
	if err != nil || strings.ContainsAny(*body, "\r\n") {
		return nil, errBase64
	}
	return b, nil
}

func (r *rewriter) header(c *plugin.Ctx) {
	if r.vars != nil {
		ok, err := r.vars.Match(c)
		if err != nil {
			r.env.Log.Error("response-rewrite: vars have no value", "owner", r.env.Owner, "err", err)
		}
		if !ok || err != nil {
			return
		}
	}
	if r.status != 0 {
		c.Response.Status, c.Response.Reason = r.status, ""
	}
	switch {
	case r.filters != nil:
		coding, _ := c.Response.Header.Get("Content-Encoding")
		c.SetState(r, &replacing{rewriter: r, coding: coding})
		c.BodyChanged()
	case r.body != nil:
		c.SetState(r, true)
		c.BodyChanged()
	}
	if r.headers != nil {
		r.headers.apply(c)
	}
}

// open is asked after header, which knows whether this response is rewritten.
func (r *rewriter) open(c *plugin.Ctx) plugin.BodyFilter {
	switch s := c.State(r).(type) {
	case *replacing:
		return s
	case bool:
		return newFixed(r.body)
	}
	return nil
}

// Package echo puts text before, after or in place of a response's body. It is
// for trying things out.
package echo

import (
	"encoding/json"
	"maps"
	"slices"

	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "echo", Priority: 412, Doc: "Puts text before, after or in place of the response's body; for trials."},
	compile,
	plugin.Shared(),
)

// Config is the configuration on a route.
type Config struct {
	_       struct{}                   `schema:"minProps=1"`
	Before  *string                    `json:"before_body" doc:"Text before the body."`
	Body    *string                    `json:"body"        doc:"Text in place of the body."`
	After   *string                    `json:"after_body"  doc:"Text after the body."`
	Headers map[string]json.RawMessage `json:"headers"     schema:"minProps=1" doc:"Response headers to set; values are strings or numbers."`
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.AtLeastOne([]string{"before_body"}, []string{"body"}, []string{"after_body"})}
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	var headers [][2]string
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		var value schema.Scalar
		if value.UnmarshalJSON(c.Headers[name]) == nil { // APISIX passes over other values
			headers = append(headers, [2]string{name, string(value)})
		}
	}
	text := texts{before: bytesOf(c.Before), after: bytesOf(c.After)}
	if c.Body != nil {
		text.whole = true
		text.before = append(append(text.before, *c.Body...), text.after...)
		text.after = nil
	}
	return plugin.Phases{
		Header: func(r *plugin.Ctx) {
			r.BodyChanged()
			for _, h := range headers {
				r.Response.Header.Del(h[0])
				if h[1] != "" { // ngx.header removes what is empty
					r.Response.Header.Add(h[0], h[1])
				}
			}
		},
		Body: func(*plugin.Ctx) plugin.BodyFilter { return &filter{texts: &text} },
	}, nil
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

// texts are what stands around a body, or in its place.
type texts struct {
	before, after []byte
	whole         bool
}

// A filter is texts around one body.
type filter struct {
	*texts
	begun bool
	out   []byte
}

// Write implements plugin.BodyFilter.
func (f *filter) Write(chunk []byte, last bool) []byte {
	f.out = f.out[:0]
	if !f.begun {
		f.begun = true
		f.out = append(f.out, f.before...)
	}
	if !f.whole {
		f.out = append(f.out, chunk...)
	}
	if last {
		f.out = append(f.out, f.after...)
	}
	return f.out
}

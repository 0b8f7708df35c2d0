// Package requestvalidation refuses requests whose headers or body do not match a
// JSON schema.
package requestvalidation

import (
	"encoding/json"
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{
		Name: "request-validation", Priority: 2800, Guard: true,
		Doc: "Refuses requests whose headers or body do not match a JSON schema.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Header       Document `json:"header_schema"     doc:"JSON schema (draft 7) of the headers: an object with names in lower case; a repeated header is an array."`
	Body         Document `json:"body_schema"       doc:"JSON schema (draft 7) of the body: JSON, or the fields of a form."`
	MaxSize      int64    `json:"max_req_body_size" schema:"min=1,default=67108864" doc:"Longest body in bytes; a longer one is refused."`
	RejectedCode int      `json:"rejected_code"     schema:"min=200,max=599,default=400" doc:"Status of a refusal."`
	RejectedMsg  *string  `json:"rejected_msg"      schema:"minLen=1,maxLen=256" doc:"Body of a refusal; without it what does not match is said."`
}

// Document is a JSON object.
type Document json.RawMessage

// JSONSchema implements schema.Describer.
func (*Document) JSONSchema() []byte { return []byte(`{"type":"object"}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Document) UnmarshalJSON(b []byte) error {
	*d = append((*d)[:0], b...)
	return nil
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.AtLeastOne([]string{"header_schema"}, []string{"body_schema"})}
}

// A validator is a compiled configuration.
type validator struct {
	header, body *schema.Schema // nil: not looked at
	maxSize      int64
	refusal      *plugin.Reply // with rejected_msg, or with the page of the status
	explain      bool          // a refusal says what does not match
	env          plugin.Env
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	v := &validator{maxSize: c.MaxSize, refusal: &plugin.Reply{Status: c.RejectedCode}, explain: c.RejectedMsg == nil, env: env}
	if c.RejectedMsg != nil {
		v.refusal = plugin.Text(c.RejectedCode, *c.RejectedMsg)
	}
	var err error
	if c.Body != nil {
		if v.body, err = schema.Foreign(c.Body); err != nil {
			return plugin.Phases{}, err
		}
	}
	if c.Header != nil {
		if v.header, err = schema.Foreign(c.Header); err != nil {
			return plugin.Phases{}, err
		}
	}
	return plugin.Phases{Rewrite: v.rewrite}, nil
}

func (v *validator) rewrite(c *plugin.Ctx) *plugin.Reply {
	if v.header != nil {
		doc, err := json.Marshal(headers(&c.Request.Header))
		if err == nil {
			_, err = v.header.Conform(doc)
		}
		if err != nil {
			return v.refuse(err)
		}
	}
	if v.body == nil {
		return nil
	}
	return v.checkBody(c)
}

func (v *validator) checkBody(c *plugin.Ctx) *plugin.Reply {
	body, err := c.Buffer.Body(v.maxSize)
	switch {
	case err != nil:
		v.env.Log.Warn("request-validation: cannot read the body", "owner", v.env.Owner, "err", err)
		return v.refusal
	case len(body) == 0:
		return v.refusal
	}
	media, n := contentType(&c.Request.Header)
	if n > 1 {
		// What we would read the body as need not be what the upstream does.
		v.env.Log.Warn("request-validation: duplicated Content-Type header", "owner", v.env.Owner)
		return v.refusal
	}
	const form = "application/x-www-form-urlencoded"
	if len(media) >= len(form) && wire.EqualFold(media[:len(form)], form) {
		doc, err := json.Marshal(fields(c, string(body)))
		if err == nil {
			_, err = v.body.Conform(doc)
		}
		if err != nil {
			return v.refuse(err)
		}
		return nil
	}
	checked, err := v.body.Conform(body)
	if err != nil {
		return v.refuse(err)
	}
	// The upstream gets what was checked: parsers differ in what they make of
	// properties of the same name.
	c.To.Body = checked
	return nil
}

func (v *validator) refuse(err error) *plugin.Reply {
	if !v.explain {
		return v.refusal
	}
	return plugin.Text(v.refusal.Status, err.Error())
}

// headers are the fields by name in lower case.
func headers(h *wire.Header) map[string]any {
	all := map[string]any{}
	for _, f := range h.Fields() {
		if !f.Dropped {
			add(all, strings.ToLower(f.Name), f.Value)
		}
	}
	return all
}

// add adds a value; of several under one name it makes an array.
func add(all map[string]any, name string, value any) {
	switch have := all[name].(type) {
	case nil:
		all[name] = value
	case []any:
		all[name] = append(have, value)
	default:
		all[name] = []any{have, value}
	}
}

// contentType is the first Content-Type, and how many there are.
func contentType(h *wire.Header) (value string, n int) {
	for _, f := range h.Fields() {
		if f.Dropped || !wire.EqualFold(f.Name, "Content-Type") {
			continue
		}
		if n == 0 {
			value = f.Value
		}
		n++
	}
	return value, n
}

// fields are those of a form; one without "=" is true.
func fields(c *plugin.Ctx, form string) map[string]any {
	all := map[string]any{}
	for pair := range strings.SplitSeq(form, "&") {
		name, value, has := strings.Cut(pair, "=")
		switch name = c.Unescape(name); {
		case name == "":
		case has:
			add(all, name, c.Unescape(value))
		default:
			add(all, name, true)
		}
	}
	return all
}

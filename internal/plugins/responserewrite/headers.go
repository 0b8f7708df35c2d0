package responserewrite

import (
	"encoding/json"
	"errors"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Headers are changes of headers, in either of two forms.
type Headers struct {
	Add    []string       `json:"add"`
	Set    schema.Headers `json:"set"`
	Remove []string       `json:"remove"`

	err error // what is wrong with the flat form, which the schema does not say
}

// JSONSchema implements schema.Describer.
func (*Headers) JSONSchema() []byte {
	return []byte(`{"anyOf":[` + schema.HeadersSchema + `,{"properties":{` +
		`"add":{"type":"array","minItems":1,"items":{"type":"string","pattern":"^[^:]+:[^:]*[^/]$"}},` +
		`"set":` + schema.HeadersSchema + `,` +
		`"remove":{"type":"array","minItems":1,"items":{"type":"string","pattern":"^[^:]+$"}}}}]}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Headers) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for _, form := range [...]string{"add", "set", "remove"} {
		if m := members[form]; m != nil && (m[0] == '{' || m[0] == '[') {
			type plain Headers
			return json.Unmarshal(b, (*plain)(h))
		}
	}
	h.Set = schema.Headers{}
	for name, raw := range members {
		var value schema.Scalar
		switch {
		case value.UnmarshalJSON(raw) != nil:
			h.err = errors.New("invalid type as header value")
		case name == "":
			h.err = errors.New("invalid field length in header")
		}
		h.Set[name] = value
	}
	return nil
}

// operations are compiled Headers.
type operations struct {
	add, set []field
	remove   []string
}

type field struct {
	name  string
	value *expr.Template
}

func (h *Headers) compile(env plugin.Env) (*operations, error) {
	if h.err != nil {
		return nil, h.err
	}
	o := &operations{remove: h.Remove}
	for _, line := range h.Add {
		name, value, ok := split(line)
		if !ok {
			// APISIX takes it and then changes no header at all.
			env.Log.Error("response-rewrite: not a header", "owner", env.Owner, "add", line)
			return &operations{}, nil
		}
		t, err := expr.Parse(value)
		if err != nil {
			return nil, err
		}
		o.add = append(o.add, field{name, t})
	}
	for _, f := range h.Set.Sorted() {
		t, err := expr.Parse(f[1])
		if err != nil {
			return nil, err
		}
		o.set = append(o.set, field{f[0], t})
	}
	return o, nil
}

// split splits a header line, as ^([^:\s]+)\s*:\s*([^:]+)$ does.
func split(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	name = strings.TrimRight(name, " \t\r\n\v\f")
	trimmed := strings.TrimLeft(value, " \t\r\n\v\f")
	if trimmed == "" && value != "" {
		trimmed = value[len(value)-1:]
	}
	ok = ok && name != "" && !strings.ContainsAny(name, " \t\r\n\v\f") && trimmed != "" && !strings.Contains(trimmed, ":")
	return name, trimmed, ok
}

// apply adds, then sets, then removes.
func (o *operations) apply(c *plugin.Ctx) {
	h := &c.Response.Header
	for i := range o.add {
		h.Add(o.add[i].name, o.add[i].value.Value(c))
	}
	for i := range o.set {
		// An empty value removes the header, as ngx.header does.
		if v := o.set[i].value.Value(c); v != "" {
			h.Set(o.set[i].name, v)
		} else {
			h.Del(o.set[i].name)
		}
	}
	for _, name := range o.remove {
		h.Del(name)
	}
}

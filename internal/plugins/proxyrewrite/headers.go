package proxyrewrite

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"unsafe"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// Headers are changes of headers, in either of two forms.
type Headers struct {
	Add    map[string]Values `json:"add"`
	Set    map[string]Values `json:"set"`
	Remove []string          `json:"remove"`
	flat   bool
}

// Values are one value or several.
type Values []schema.Scalar

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]schema.Scalar)(v))
	}
	*v = make(Values, 1)
	return json.Unmarshal(b, &(*v)[0])
}

// JSONSchema implements schema.Describer. The two forms exclude each other.
func (*Headers) JSONSchema() []byte {
	const scalar = `{"type":"string"},{"type":"number"}`
	const values = `{"type":"object","minProperties":1,"patternProperties":{"^[^:]+$":{"oneOf":[` + scalar +
		`,{"type":"array","minItems":1,"items":{"oneOf":[` + scalar + `]}}]}}}`
	return []byte(`{"oneOf":[{"type":"object","minProperties":1,"additionalProperties":false,"properties":{"add":` + values +
		`,"set":` + values + `,"remove":{"type":"array","minItems":1,"items":{"type":"string","pattern":"^[^:]+$"}}}},` +
		schema.HeadersSchema + `]}`)
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
	h.flat = true
	return json.Unmarshal(b, &h.Set)
}

// A header is one name and its values.
type header struct {
	name   string
	values []value
}

// A value is a template that may also refer to the groups of regex_uri.
type value struct {
	pieces []piece
	fixed  bool
}

type piece struct {
	before *expr.Template
	group  int // -1: none
}

func (r *rewriter) compileHeaders(h *Headers) error {
	if h.flat {
		if err := checkFlat(h.Set); err != nil {
			return err
		}
	}
	r.remove = h.Remove
	var err error
	if r.add, err = compileHeaders(h.Add); err != nil {
		return err
	}
	r.set, err = compileHeaders(h.Set)
	return err
}

// checkFlat refuses bytes that a header cannot have, as APISIX does in this form
// only.
func checkFlat(set map[string]Values) error {
	for field, values := range set {
		for i := range len(field) {
			if b := field[i]; b <= ' ' || b >= 0x7f || b == ':' {
				return errors.New("invalid field character in header")
			}
		}
		for _, v := range values {
			for i := range len(v) {
				if b := v[i]; b < ' ' || b >= 0x7f {
					return errors.New("invalid value character in header")
				}
			}
		}
	}
	return nil
}

func compileHeaders(m map[string]Values) ([]header, error) {
	var list []header
	for _, field := range slices.Sorted(maps.Keys(m)) {
		h := header{name: field}
		for _, text := range m[field] {
			v, err := compileValue(string(text))
			if err != nil {
				return nil, err
			}
			h.values = append(h.values, v)
		}
		list = append(list, h)
	}
	return list, nil
}

// compileValue cuts a text at its references to groups: $1, ${1}, "$1}".
func compileValue(text string) (value, error) {
	v := value{fixed: true}
	from := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i > 0 && text[i-1] == '\\' {
			continue
		}
		digits := i + 1
		if digits < len(text) && text[digits] == '{' {
			digits++
		}
		end := digits
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		group, err := strconv.Atoi(text[digits:end])
		if err != nil {
			continue
		}
		if end < len(text) && text[end] == '}' {
			end++
		}
		if err := v.add(text[from:i], group); err != nil {
			return v, err
		}
		from, i = end, end-1
	}
	return v, v.add(text[from:], -1)
}

func (v *value) add(before string, group int) error {
	t, err := expr.Parse(before)
	if err != nil {
		return err
	}
	v.pieces = append(v.pieces, piece{t, group})
	v.fixed = v.fixed && t.Fixed() && group < 0
	return nil
}

// of is the value for one request.
func (v *value) of(c *plugin.Ctx, b *buffer, found captures) string {
	if v.fixed {
		return v.pieces[0].before.Value(c)
	}
	b.plain = b.plain[:0]
	for i := range v.pieces {
		p := &v.pieces[i]
		b.plain = p.before.Append(b.plain, c)
		if p.group >= 0 {
			b.plain = append(b.plain, found.match.Group(found.text, p.group)...)
		}
	}
	return c.Keep(b.plain)
}

// rewriteHeaders adds, then sets, then removes. A header cannot be empty: it is
// not there, as with ngx.req.set_header.
func (r *rewriter) rewriteHeaders(c *plugin.Ctx, b *buffer, found captures) {
	for i := range r.add {
		r.add[i].append(c, b, found)
	}
	for i := range r.set {
		h := &r.set[i]
		before := len(c.Request.Header.Fields())
		h.append(c, b, found)
		// Only now, since the values may refer to the header itself.
		old := c.Request.Header.Fields()[:before]
		for j := range old {
			old[j].Dropped = old[j].Dropped || wire.EqualFold(old[j].Name, h.name)
		}
	}
	for _, field := range r.remove {
		c.DelHeader(field)
	}
}

func (h *header) append(c *plugin.Ctx, b *buffer, found captures) {
	for i := range h.values {
		if v := h.values[i].of(c, b, found); v != "" {
			c.Request.Header.Add(h.name, v)
		}
	}
}

// text is b as a string, for as long as b is not written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

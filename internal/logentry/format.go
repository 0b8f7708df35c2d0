package logentry

import (
	"fmt"
	"slices"

	"weir/internal/document"
	"weir/internal/expr"
	"weir/internal/plugin"
)

// maxDepth is how deep a format may be nested; what lies deeper is empty.
const maxDepth = 5

// An object is a compiled format or a part of it: an object or an array.
type object struct {
	list    bool
	members []member
}

// A member has one of raw, variable, body and object.
type member struct {
	name     string // of an object's member
	key      []byte // the name as JSON, with the colon; nil in an array
	raw      []byte
	variable *expr.Var
	body     body
	object   *object
}

// A body is one of the bodies, for variables that the loggers themselves know.
type body uint8

const (
	noBody body = iota
	requestBody
	responseBody
)

// format compiles the format in the named attribute.
func (e *Entry) format(attribute string, f Format, env plugin.Env) (*object, error) {
	doc, err := document.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", attribute, err)
	}
	o, cut, err := e.object(doc, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", attribute, err)
	}
	if cut {
		env.Log.Warn("a log format is nested too deep, what lies deeper is left out", "owner", env.Owner, "attribute", attribute, "depth", maxDepth)
	}
	return o, nil
}

func (e *Entry) object(doc *document.Value, depth int) (o *object, cut bool, err error) {
	o = &object{list: doc.Kind == document.Array}
	add := func(m member, v *document.Value) {
		if err != nil {
			return
		}
		var deeper bool
		deeper, err = e.member(&m, v, depth)
		cut = cut || deeper
		o.members = append(o.members, m)
	}
	for _, item := range doc.Items {
		add(member{}, item)
	}
	for _, x := range doc.Members {
		add(member{name: x.Name, key: append(document.AppendText(nil, x.Name), ':')}, x.Value)
	}
	return o, cut, err
}

func (e *Entry) member(m *member, v *document.Value, depth int) (cut bool, err error) {
	switch {
	case v.Kind == document.Object || v.Kind == document.Array:
		if depth >= maxDepth {
			m.raw = []byte("{}")
			return true, nil
		}
		m.object, cut, err = e.object(v, depth+1)
		return cut, err
	case v.Kind != document.String || v.Text == "" || v.Text[0] != '$':
		m.raw = v.Append(nil)
		return false, nil
	case v.Text == "$request_body":
		m.body, e.reqBodyInFormat = requestBody, true
		return false, nil
	case v.Text == "$resp_body":
		m.body = responseBody
		return false, nil
	}
	variable, err := expr.Variable(v.Text[1:])
	if err != nil {
		return false, err
	}
	if variable.ReadsBody() {
		e.fromBody = append(e.fromBody, variable)
	}
	m.variable = &variable
	return false, nil
}

// appendCustom appends an entry in the plugin's own format, with the ids of the
// route and its service.
func (e *Entry) appendCustom(dst []byte, c *plugin.Ctx, s *seen) []byte {
	dst = append(dst, '{')
	known := func(name string) bool {
		return c.Route != nil && (name == "route_id" || name == "service_id" && c.Route.ServiceID != "")
	}
	dst = e.custom.appendMembers(dst, c, s, known)
	if c.Route == nil && e.NoRoute != "" && !e.custom.has("route_id") {
		dst = appendText(next(dst), "route_id", e.NoRoute)
	}
	if c.Route != nil {
		dst = appendText(next(dst), "route_id", c.Route.ID)
		if c.Route.ServiceID != "" {
			dst = appendText(next(dst), "service_id", c.Route.ServiceID)
		}
	}
	return append(dst, '}')
}

func (o *object) has(name string) bool {
	return slices.ContainsFunc(o.members, func(m member) bool { return m.name == name })
}

// appendMembers appends the members that have a value and that skip does not
// name, each with a comma before it unless it is the first.
func (o *object) appendMembers(dst []byte, c *plugin.Ctx, s *seen, skip func(name string) bool) []byte {
	for i := range o.members {
		m := &o.members[i]
		if skip != nil && skip(m.name) {
			continue
		}
		before := len(dst)
		dst = append(next(dst), m.key...)
		var ok bool
		if dst, ok = m.append(dst, c, s); ok {
			continue
		}
		if !o.list {
			dst = dst[:before]
			continue
		}
		dst = append(dst, "null"...)
	}
	return dst
}

// append appends the value, if there is one.
func (m *member) append(dst []byte, c *plugin.Ctx, s *seen) ([]byte, bool) {
	switch {
	case m.raw != nil:
		return append(dst, m.raw...), true
	case m.variable != nil:
		return m.variable.AppendJSON(dst, c)
	case m.body == requestBody:
		if !s.hasReq {
			return dst, false
		}
		return document.AppendText(dst, view(s.req)), true
	case m.body == responseBody:
		return document.AppendText(dst, view(s.response())), true
	}
	open, end := byte('{'), byte('}')
	if m.object.list {
		open, end = '[', ']'
	}
	return append(m.object.appendMembers(append(dst, open), c, s, nil), end), true
}

// next appends a comma unless a list or object has just begun.
func next(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		return dst
	}
	return append(dst, ',')
}

// appendText appends a member that is a text.
func appendText(dst []byte, name, value string) []byte {
	return document.AppendText(appendName(dst, name), value)
}

// appendName appends the name of a member; it needs no escaping.
func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '"'), name...), `":`...)
}

package expr

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"weir/internal/plugin"
)

// A Var is one variable. The zero Var is always absent. One of its functions is
// set at most.
type Var struct {
	// text returns a value that exists as a string already.
	text func(c *plugin.Ctx) (string, bool)
	// format appends a value that has to be made.
	format func(dst []byte, c *plugin.Ctx) ([]byte, bool)
	// typed returns a value that need not be a text; it may use buf, which is
	// empty, and the value then lasts as long as buf.
	typed func(c *plugin.Ctx, buf *[]byte) value

	body   bool // the request's body is read
	number bool // APISIX makes a number of the text
}

// Lookup returns the variable of that name, written without "$", if it is one
// of the gateway's own (nginx's, APISIX's and the families arg_NAME,
// cookie_NAME, http_NAME, sent_http_NAME, upstream_http_NAME, post_arg_NAME,
// post_arg.PATH, uri_param_NAME). Another name is an error.
func Lookup(name string) (Var, error) {
	v, known, err := lookup(name)
	if err == nil && !known {
		err = fmt.Errorf("unknown variable %q", name)
	}
	return v, err
}

// Variable is Lookup for where plugins have their say: a name that is not the
// gateway's own is what a plugin sets by Ctx.SetVar, and absent until then. Only
// a post_arg path can be wrong.
func Variable(name string) (Var, error) {
	v, known, err := lookup(name)
	if err == nil && !known {
		v = set(name)
	}
	return v, err
}

func lookup(name string) (v Var, known bool, err error) {
	if v, ok := vars[name]; ok {
		return v, true, nil
	}
	if v, ok := replaceable[name]; ok {
		return replaced(name, v), true, nil
	}
	if rest, ok := strings.CutPrefix(name, "post_arg."); ok {
		v, err := postPath(rest)
		return v, true, err
	}
	if name == "hostname" {
		return hostname(), true, nil
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok && rest != "" {
			return f.of(rest), true, nil
		}
	}
	return Var{}, false, nil
}

// Set is the variable that Ctx.SetVar has set, whatever the gateway's own of that
// name is.
func Set(name string) Var { return set(name) }

// set is a variable that only plugins set.
func set(name string) Var {
	return Var{text: func(c *plugin.Ctx) (string, bool) { return c.Var(name) }}
}

// replaced is v unless a plugin has set another value.
func replaced(name string, v Var) Var {
	return Var{text: func(c *plugin.Ctx) (string, bool) {
		if s, ok := c.Var(name); ok {
			return s, true
		}
		return v.Value(c)
	}, body: v.body}
}

// ReadsBody says that the value comes from the request's body. It is absent
// unless it is asked for before the request goes upstream; afterwards it has
// the value it had then.
func (v Var) ReadsBody() bool { return v.body }

// Append appends the value to dst. When the variable is absent, which is not
// the same as empty, it returns dst as it was and false.
func (v Var) Append(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	switch {
	case v.text != nil:
		s, ok := v.text(c)
		return append(dst, s...), ok
	case v.format != nil:
		return v.format(dst, c)
	case v.typed != nil:
		b := getBuffer()
		defer putBuffer(b)
		return v.typed(c, b).append(dst)
	}
	return dst, false
}

// Value returns the value as a string that lives as long as the request.
func (v Var) Value(c *plugin.Ctx) (value string, ok bool) {
	if v.text != nil {
		return v.text(c)
	}
	b := getBuffer()
	defer putBuffer(b)
	switch {
	case v.format != nil:
		*b, ok = v.format(*b, c)
	case v.typed != nil:
		got := v.typed(c, b)
		if got.kind == text && len(*b) == 0 {
			return got.text, true
		}
		if got.kind != text {
			*b, ok = got.append((*b)[:0])
			break
		}
		ok = true
	}
	return c.Keep(*b), ok
}

// value returns the value for a comparison; it lasts as long as buf.
func (v *Var) value(c *plugin.Ctx, buf *[]byte) value {
	switch {
	case v.format != nil:
		var ok bool
		if *buf, ok = v.format(*buf, c); !ok {
			return value{}
		}
		return textOf(view(*buf))
	case v.typed != nil:
		return v.typed(c, buf)
	}
	return value{}
}

// buffers hold values while they are made. They cannot be made in the Ctx's
// own scratch space, because reading a part may append to that.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// putBuffer keeps b for the next value, unless an unusual one made it large.
func putBuffer(b *[]byte) {
	const kept = 64 << 10
	if cap(*b) <= kept {
		buffers.Put(b)
	}
}

// view is b as a string, for as long as b is not written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

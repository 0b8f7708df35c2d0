package expr

import (
	"fmt"
	"strings"
	"sync"

	"weir/internal/plugin"
)

// A Var is one variable. The zero Var is always absent.
type Var struct {
	// text returns a value that exists as a string already.
	text func(c *plugin.Ctx) (string, bool)
	// format appends a value that has to be made; used where text is nil.
	format func(dst []byte, c *plugin.Ctx) ([]byte, bool)
}

// Lookup returns the variable of that name, written without "$": every
// variable of APISIX's default access log format and the families arg_NAME,
// cookie_NAME, http_NAME and sent_http_NAME. Another name is an error.
func Lookup(name string) (Var, error) {
	if v, ok := vars[name]; ok {
		return v, nil
	}
	if name == "hostname" {
		return hostname(), nil
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok && rest != "" {
			return f.of(rest), nil
		}
	}
	return Var{}, fmt.Errorf("unknown variable %q", name)
}

// Append appends the value to dst. When the variable is absent, which is not
// the same as empty, it returns dst as it was and false.
func (v Var) Append(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	switch {
	case v.text != nil:
		s, ok := v.text(c)
		return append(dst, s...), ok
	case v.format != nil:
		return v.format(dst, c)
	}
	return dst, false
}

// Value returns the value as a string that lives as long as the request.
func (v Var) Value(c *plugin.Ctx) (value string, ok bool) {
	if v.text != nil {
		return v.text(c)
	}
	if v.format == nil {
		return "", false
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b, ok = v.format((*b)[:0], c)
	return c.Keep(*b), ok
}

// buffers hold values while they are made. They cannot be made in the Ctx's
// own scratch space, because reading a part may append to that.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

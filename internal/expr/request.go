package expr

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"unsafe"

	"weir/internal/plugin"
	"weir/internal/wire"
)

func method(c *plugin.Ctx) (string, bool) { return c.Request.Method, true }

func args(c *plugin.Ctx) (string, bool) {
	q := c.RawQuery()
	return q, q != ""
}

func isArgs(c *plugin.Ctx) (string, bool) {
	if c.RawQuery() == "" {
		return "", true
	}
	return "?", true
}

func https(c *plugin.Ctx) (string, bool) {
	if c.Scheme == "https" {
		return "on", true
	}
	return "", true
}

// host is nginx's $host: in lower case and without a port.
func host(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	h := c.Request.Host
	if i := strings.LastIndexByte(h, ':'); i > strings.LastIndexByte(h, ']') {
		h = h[:i]
	}
	for i := range len(h) {
		b := h[i]
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		dst = append(dst, b)
	}
	return dst, h != ""
}

// httpHost is the Host header; HTTP/2 clients send :authority in its place.
func httpHost(c *plugin.Ctx) (string, bool) {
	if h, ok := c.Header("host"); ok {
		return h, true
	}
	return c.Request.Host, c.Request.Host != ""
}

func requestURI(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	dst = append(dst, c.Path...)
	if q := c.RawQuery(); q != "" {
		dst = append(append(dst, '?'), q...)
	}
	return dst, true
}

func requestLine(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	r := c.Request
	if r.Method == "" {
		return dst, false
	}
	dst = append(append(dst, r.Method...), ' ')
	dst = append(append(dst, r.Target...), ' ')
	return append(dst, r.Proto.String()...), true
}

func status(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	s := c.Sent.Status
	if s == 0 && c.Response != nil {
		s = c.Response.Status
	}
	if s == 0 {
		return append(dst, "000"...), true
	}
	return strconv.AppendInt(dst, int64(s), 10), true
}

// remoteUser is the user of the Basic scheme (RFC 7617).
func remoteUser(dst []byte, c *plugin.Ctx) ([]byte, bool) {
	const scheme = "basic "
	a, _ := c.Header("authorization")
	if len(a) <= len(scheme) || !wire.EqualFold(a[:len(scheme)], scheme) {
		return dst, false
	}
	encoded := strings.Trim(a[len(scheme):], " ")
	from := len(dst)
	out, err := base64.StdEncoding.AppendDecode(dst, unsafe.Slice(unsafe.StringData(encoded), len(encoded)))
	if err != nil {
		return dst[:from], false
	}
	user, _, ok := bytes.Cut(out[from:], []byte(":"))
	if !ok {
		return out[:from], false
	}
	return out[:from+len(user)], true
}

func header(name string) func(*plugin.Ctx) (string, bool) {
	return func(c *plugin.Ctx) (string, bool) { return c.Header(name) }
}

func requestHeader(c *plugin.Ctx) *wire.Header { return &c.Request.Header }

func responseHeader(c *plugin.Ctx) *wire.Header {
	if c.Response == nil {
		return nil
	}
	return &c.Response.Header
}

// field is the header whose name, in lower case and with "_" for "-", is name.
// Fields that repeat are joined with ", ", Cookie with "; ", as nginx does.
func field(name string, of func(*plugin.Ctx) *wire.Header) Var {
	name = strings.ToLower(name)
	sep := ", "
	if name == "cookie" {
		sep = "; "
	}
	return Var{text: func(c *plugin.Ctx) (string, bool) {
		h := of(c)
		if h == nil {
			return "", false
		}
		first, n := find(h, name)
		if n < 2 {
			return first, n > 0
		}
		return join(c, h, name, sep), true
	}}
}

func find(h *wire.Header, name string) (first string, n int) {
	fields := h.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped && named(f.Name, name) {
			if n == 0 {
				first = f.Value
			}
			n++
		}
	}
	return first, n
}

func join(c *plugin.Ctx, h *wire.Header, name, sep string) string {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b = (*b)[:0]
	for i, n := 0, 0; i < len(h.Fields()); i++ {
		f := &h.Fields()[i]
		if f.Dropped || !named(f.Name, name) {
			continue
		}
		if n++; n > 1 {
			*b = append(*b, sep...)
		}
		*b = append(*b, f.Value...)
	}
	return c.Keep(*b)
}

// named reports that the field's name is written as variable in variables.
func named(field, variable string) bool {
	if len(field) != len(variable) {
		return false
	}
	for i := range len(field) {
		b := field[i]
		switch {
		case 'A' <= b && b <= 'Z':
			b |= 0x20
		case b == '-':
			b = '_'
		}
		if b != variable[i] {
			return false
		}
	}
	return true
}

// cookie returns the first cookie of that name (RFC 6265 §4.2.1); the name is
// compared exactly.
func cookie(c *plugin.Ctx, name string) (string, bool) {
	fields := c.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; f.Dropped || !wire.EqualFold(f.Name, "cookie") {
			continue
		}
		for rest := fields[i].Value; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			k, v, ok := strings.Cut(strings.TrimLeft(pair, " \t"), "=")
			if ok && k == name {
				return strings.TrimRight(v, " \t"), true
			}
		}
	}
	return "", false
}

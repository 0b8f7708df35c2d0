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
func host(c *plugin.Ctx) (string, bool) {
	h := c.Request.Host
	if i := strings.LastIndexByte(h, ':'); i > strings.LastIndexByte(h, ']') {
		h = h[:i]
	}
	for i := range len(h) {
		if 'A' <= h[i] && h[i] <= 'Z' {
			return lowerHost(c, h), true
		}
	}
	return h, h != ""
}

func lowerHost(c *plugin.Ctx, h string) string {
	b := getBuffer()
	defer putBuffer(b)
	for i := range len(h) {
		ch := h[i]
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		*b = append(*b, ch)
	}
	return c.Keep(*b)
}

// httpHost is the Host header; HTTP/2 clients send :authority in its place.
func httpHost(c *plugin.Ctx) (string, bool) {
	if h, ok := c.Header("host"); ok {
		return h, true
	}
	return c.Request.Host, c.Request.Host != ""
}

// requestURI is the path and the arguments, as APISIX sets it: normalised.
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

// argument is the first value of a query argument; one without "=" is true.
func argument(c *plugin.Ctx, name string, buf *[]byte) value {
	for rest := c.RawQuery(); rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		k, v, assigned := strings.Cut(pair, "=")
		switch {
		case !decodesTo(k, name):
			continue
		case !assigned:
			return booleanOf(true)
		case !strings.ContainsAny(v, "%+"):
			return textOf(v)
		}
		*buf = appendUnescaped(*buf, v)
		return textOf(view(*buf))
	}
	return value{}
}

// decodesTo is Unescape(s) == want.
func decodesTo(s, want string) bool {
	if !strings.ContainsAny(s, "%+") {
		return s == want
	}
	n := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			c = byte(hexDigit(s[i+1])<<4 | hexDigit(s[i+2]))
			i += 2
		}
		if n == len(want) || want[n] != c {
			return false
		}
		n++
	}
	return n == len(want)
}

// uriParam is a piece of the path that the route's pattern names. There is none
// before the route is found.
func uriParam(name string) Var {
	return Var{text: func(c *plugin.Ctx) (string, bool) { return c.Param(name) }}
}

// cookie returns the last cookie of that name (RFC 6265 §4.2.1), as
// lua-resty-cookie does; the name is compared exactly, and a value ends where
// space begins.
func cookie(c *plugin.Ctx, name string) (found string, ok bool) {
	fields := c.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; f.Dropped || !wire.EqualFold(f.Name, "cookie") {
			continue
		}
		for rest := fields[i].Value; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			k, v, has := strings.Cut(strings.TrimLeft(pair, " \t"), "=")
			if !has || k != name {
				continue
			}
			if end := strings.IndexAny(v, " \t"); end >= 0 {
				v = v[:end]
			}
			found, ok = v, true
		}
	}
	return found, ok
}

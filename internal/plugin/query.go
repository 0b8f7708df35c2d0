package plugin

import (
	"errors"
	"strings"
	"unsafe"
)

// ErrBodyTooLarge: the request's body exceeds the limit given to Body.
var ErrBodyTooLarge = errors.New("request body too large")

// ErrBodySent: the request's body is on its way upstream and was not kept.
var ErrBodySent = errors.New("request body has been sent")

// Query returns the decoded first value of a query argument. An argument
// without "=" has the empty value.
func (c *Ctx) Query(name string) (value string, ok bool) {
	for rest := c.RawQuery(); rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		k, v, _ := strings.Cut(pair, "=")
		if c.Unescape(k) == name {
			return c.Unescape(v), true
		}
	}
	return "", false
}

// DelQuery removes every argument of that name from the target.
func (c *Ctx) DelQuery(name string) {
	target := c.target()
	path, rest, has := strings.Cut(target, "?")
	if !has {
		return
	}
	from := len(c.scratch)
	c.scratch = append(c.scratch, path...)
	sep := byte('?')
	for more := true; more; {
		var pair string
		pair, rest, more = strings.Cut(rest, "&")
		k, _, _ := strings.Cut(pair, "=")
		if pair == "" || c.Unescape(k) == name {
			continue
		}
		c.scratch = append(append(c.scratch, sep), pair...)
		sep = '&'
	}
	c.To.Target = view(c.scratch[from:])
}

// Unescape decodes %XX and "+". What is not a valid escape stays as it is. A
// text without escapes is returned itself; another lives as long as the request.
func (c *Ctx) Unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	from := len(c.scratch)
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			c.scratch = append(c.scratch, ' ')
		case s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			c.scratch = append(c.scratch, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
		default:
			c.scratch = append(c.scratch, s[i])
		}
	}
	return view(c.scratch[from:])
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// view is b as a string. The memory is never written again before the request
// ends: appending to the scratch space writes behind it or moves on to new memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

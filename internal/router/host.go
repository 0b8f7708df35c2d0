package router

import (
	"strings"
	"unsafe"
)

// hostSize is the longest host that is folded and reversed without allocating:
// a domain name and a port (RFC 1035 section 2.3.4).
const hostSize = 256

// A hostPattern is one of a route's hosts, lower-cased.
type hostPattern struct {
	pattern string
	text    string // the pattern without the asterisk
	wild    bool   // text is a suffix
	port    bool   // text is compared with the host and port as received
}

func parseHost(s string) hostPattern {
	s = strings.ToLower(s)
	text, wild := strings.CutPrefix(s, "*")
	return hostPattern{pattern: s, text: text, wild: wild, port: withoutPort(text) != text}
}

// A hostName is the host of a request, lower-cased: as received, and bare.
type hostName struct{ port, bare string }

func (p hostPattern) matches(h *hostName) bool {
	host := h.bare
	if p.port {
		host = h.port
	}
	if p.wild {
		return strings.HasSuffix(host, p.text)
	}
	return host == p.text
}

// withoutPort cuts the port off a host. The colons inside the brackets of an
// IPv6 address are none (RFC 3986 section 3.2.2).
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// bareHost is the host that patterns without a port are compared with: without
// the port, and without the final dot of a fully qualified name, as nginx's $host.
func bareHost(host string) string { return strings.TrimSuffix(withoutPort(host), ".") }

func hasUpper(s string) bool {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

// lower is strings.ToLower into buf, if it fits. The result is a view of buf.
func lower(s string, buf []byte) string {
	if len(s) > len(buf) {
		return strings.ToLower(s)
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return unsafe.String(unsafe.SliceData(buf), len(s))
}

// reverse turns s round into buf, or into new memory if it does not fit.
func reverse(s string, buf []byte) string {
	if len(s) > len(buf) {
		buf = make([]byte, len(s))
	}
	for i := range len(s) {
		buf[len(s)-1-i] = s[i]
	}
	return unsafe.String(unsafe.SliceData(buf), len(s))
}

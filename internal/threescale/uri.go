package threescale

import (
	"net/url"
	"strings"
)

// SetPath gives the request another path, decoded; it lives as long as the
// request. One that does not begin with a slash gets one.
func (r *Request) SetPath(path string) {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	r.Path, r.Rewritten = path, true
}

// SetQuery gives the request another query string, as it is sent.
func (r *Request) SetQuery(query string) { r.Query, r.Rewritten = query, true }

// EscapedPath is Path with what a path may not hold percent-encoded: what mapping
// rules are compared with.
func (r *Request) EscapedPath() string { return EscapePath(r.Path) }

// LastArgument is the decoded value of the last argument of that name in a query
// string or a form; one without a value has an empty one.
func LastArgument(query, name string) (value string, found bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, v, _ := strings.Cut(pair, "=")
		if unescape(key) == name && pair != "" {
			value, found = v, true
		}
	}
	return unescape(value), found
}

// unescape decodes percent-encoding and "+"; what is malformed stays.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	return s
}

// EscapePath encodes what nginx's ngx.escape_uri would not leave in a path.
func EscapePath(path string) string {
	n := 0
	for i := range len(path) {
		if !inPath(path[i]) {
			n++
		}
	}
	if n == 0 {
		return path
	}
	var b strings.Builder
	b.Grow(len(path) + 2*n)
	for i := range len(path) {
		c := path[i]
		if inPath(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

const hex = "0123456789ABCDEF"

func inPath(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0
}

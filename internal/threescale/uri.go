package threescale

import (
	"strings"

	"weir/internal/expr"
	"weir/internal/wire"
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
		if expr.Unescape(key) == name && pair != "" {
			value, found = v, true
		}
	}
	return expr.Unescape(value), found
}

// EscapePath encodes what nginx encodes in a path (ngx.escape_uri).
func EscapePath(path string) string {
	for i := range len(path) {
		if !inPath[path[i]] {
			return string(wire.EscapePath(make([]byte, 0, len(path)+32), path))
		}
	}
	return path
}

// inPath are the bytes that stand for themselves in an escaped path. It is
// immutable.
var inPath = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = len(wire.EscapePath(nil, string([]byte{byte(c)}))) == 1
	}
	return plain
}()

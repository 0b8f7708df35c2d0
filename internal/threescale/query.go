package threescale

import (
	"strings"

	"weir/internal/expr"
)

// A Query is a query string taken apart, to be changed; what is sent afterwards is
// written anew, in the same order (lua-nginx-module: ngx.req.get_uri_args and
// set_uri_args).
type Query struct{ list []argument }

// argument is one of a query string, decoded.
type argument struct {
	name, value string
	bare        bool // without "="
}

// ParseQuery takes a query string apart.
func ParseQuery(query string) *Query {
	q := new(Query)
	EachArgument(query, func(name, value string, bare bool) {
		q.list = append(q.list, argument{name, value, bare})
	})
	return q
}

// String is the query string.
func (q *Query) String() string {
	var b strings.Builder
	for i := range q.list {
		if i > 0 {
			b.WriteByte('&')
		}
		escapeArgument(&b, q.list[i].name)
		if !q.list[i].bare {
			b.WriteByte('=')
			escapeArgument(&b, q.list[i].value)
		}
	}
	return b.String()
}

// Has says that there is an argument of that name.
func (q *Query) Has(name string) bool {
	for i := range q.list {
		if q.list[i].name == name {
			return true
		}
	}
	return false
}

// Push adds a value, whether there is one or not.
func (q *Query) Push(name, value string) {
	after := len(q.list)
	for i := range q.list {
		if q.list[i].name == name {
			after = i + 1
		}
	}
	q.list = append(q.list, argument{})
	copy(q.list[after+1:], q.list[after:])
	q.list[after] = argument{name: name, value: value}
}

// Add adds a value where there is one.
func (q *Query) Add(name, value string) {
	if q.Has(name) {
		q.Push(name, value)
	}
}

// Set has the argument have this value alone.
func (q *Query) Set(name, value string) {
	kept, done := q.list[:0], false
	for _, a := range q.list {
		if a.name != name {
			kept = append(kept, a)
		} else if !done {
			kept, done = append(kept, argument{name: name, value: value}), true
		}
	}
	if q.list = kept; !done {
		q.list = append(q.list, argument{name: name, value: value})
	}
}

// Delete removes the argument.
func (q *Query) Delete(name string) {
	kept := q.list[:0]
	for _, a := range q.list {
		if a.name != name {
			kept = append(kept, a)
		}
	}
	q.list = kept
}

func escapeArgument(b *strings.Builder, s string) {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
}

// EachArgument calls f with the decoded arguments of a query string, in order; bare
// ones have no "=".
func EachArgument(query string, f func(name, value string, bare bool)) {
	for pair := range strings.SplitSeq(query, "&") {
		name, value, valued := strings.Cut(pair, "=")
		if name != "" {
			f(expr.Unescape(name), expr.Unescape(value), !valued)
		}
	}
}

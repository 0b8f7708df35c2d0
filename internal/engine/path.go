package engine

import (
	"strings"

	"weir/internal/wire"
)

// Paths are ways to change a path before routes are matched (apisix.* in
// config.yaml). What is forwarded stays as it is without them.
type Paths struct {
	DeleteTailSlash   bool // one slash at the end does not count
	LikeServlet       bool // ";" and what follows in a segment does not count
	MatchEncodedSlash bool // %2F is no slash for path patterns, only a part of a segment
}

// readPath normalises the target's path once, for matching and for variables,
// and settles what is forwarded: the target as received if normalising changed
// nothing but percent-encoding, else the normalised path. There are never two
// views of one path (DECISIONS, Path).
func (x *exchange) readPath() bool {
	raw, query, _ := strings.Cut(x.request.Target, "?")
	if raw == "*" {
		x.ctx.Path = raw
		return true
	}
	path, change, ok := wire.NormalizePath(x.path[:0], raw, wire.PathOptions{KeepSlashes: x.engine.KeepSlashes})
	if !ok {
		return false
	}
	x.ctx.Path = path
	if change&wire.ChangedSegments != 0 {
		x.target = wire.EscapePath(x.target[:0], path)
		if len(raw) < len(x.request.Target) {
			x.target = append(append(x.target, '?'), query...)
		}
		x.ctx.To.Target = view(x.target)
	}
	return x.changePath(raw, change)
}

// changePath applies Paths to the normalised path of raw; false: it is refused.
// Parameters of segments and the slash at the end exclude each other, as in
// APISIX.
func (x *exchange) changePath(raw string, change wire.Change) (ok bool) {
	o, path := &x.engine.Paths, x.ctx.Path
	x.match = x.match[:0]
	switch {
	case o.LikeServlet && strings.IndexByte(path, ';') >= 0:
		if x.match, ok = appendServletPath(x.match, path); !ok {
			return false
		}
		x.ctx.Path = view(x.match)
	case o.LikeServlet:
	case o.DeleteTailSlash && len(path) > 1:
		x.ctx.Path = strings.TrimSuffix(path, "/")
	}
	// Only where decoding is all that was done, the one path is surely the other.
	if o.MatchEncodedSlash && change == wire.ChangedEncoding && x.ctx.Path == path {
		x.keepEncodedSlashes(raw)
	}
	return true
}

// appendServletPath appends a path without the parameters of its segments. ok is
// false where they could hide something: behind a dot segment, an encoded one
// or, but for the last, an empty one.
func appendServletPath(dst []byte, path string) (_ []byte, ok bool) {
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		name, _, has := strings.Cut(segment, ";")
		if has && (name == "" && more || isDots(name)) {
			return dst, false
		}
		dst = append(dst, name...)
		if more {
			dst = append(dst, '/')
		}
	}
	return dst, true
}

func isDots(segment string) bool {
	return segment == "." || segment == ".." || wire.EqualFold(segment, "%2e") || wire.EqualFold(segment, "%2e%2e")
}

// keepEncodedSlashes makes the path that routes are matched against from the
// raw one, whose escapes are known to be valid.
func (x *exchange) keepEncodedSlashes(raw string) {
	from := len(x.match)
	kept := false
	for {
		plain, escape, found := strings.Cut(raw, "%")
		x.match = append(x.match, plain...)
		if !found {
			break
		}
		if wire.EqualFold(escape[:2], "2f") {
			x.match = append(x.match, "%2F"...)
			kept = true
		} else {
			x.match = append(x.match, unhex(escape[0])<<4|unhex(escape[1]))
		}
		raw = escape[2:]
	}
	if kept {
		x.ctx.RoutePath = view(x.match[from:])
	}
}

// unhex is the value of a hexadecimal digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

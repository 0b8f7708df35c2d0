package wire

import "strings"

// A Change says how a normalised path differs from the one it came from.
type Change uint8

// The changes. A target whose encoding alone changed can be forwarded as it was
// received.
const (
	ChangedEncoding Change = 1 << iota // escapes were decoded
	ChangedSegments                    // dot segments or repeated slashes were resolved
)

// PathOptions choose how a path is normalised. The zero value is the default.
type PathOptions struct {
	KeepSlashes bool // do not merge repeated slashes
}

// NormalizePath returns the path of a target in the form that routes are
// matched against, by nginx's rules: the query is cut off, escapes are decoded
// once, %2F too, then dot segments are resolved and repeated slashes merged.
//
// ok is false for what nginx answers with 400: a path that does not start with
// a slash, climbs above the root, or has a broken escape or an escaped NUL. The
// target "*" is returned as it is.
//
// An unchanged path is a view of target; another one is built in the free
// capacity of dst, or allocated if that does not suffice.
func NormalizePath(dst []byte, target string, opts PathOptions) (path string, changed Change, ok bool) {
	path = target
	if q := strings.IndexByte(target, '?'); q >= 0 {
		path = target[:q]
	}
	if path == "" || path[0] != '/' {
		return path, 0, target == "*"
	}
	if isNormal(path, opts) {
		return path, 0, true
	}
	n := normalizer{dst: dst, start: len(dst), keepSlashes: opts.KeepSlashes}
	if !n.run(path) {
		return "", n.changed, false
	}
	if n.changed == 0 {
		return path, 0, true
	}
	return view(n.dst[len(dst):]), n.changed, true
}

// isNormal reports whether path surely needs no change.
func isNormal(path string, opts PathOptions) bool {
	return strings.IndexByte(path, '%') < 0 && !strings.Contains(path, "/.") &&
		(opts.KeepSlashes || !strings.Contains(path, "//"))
}

type normalizer struct {
	dst         []byte
	start       int // of the path in dst
	segment     int // of the current segment in dst
	keepSlashes bool
	changed     Change
}

func (n *normalizer) run(path string) bool {
	n.dst = append(n.dst, '/')
	n.segment = n.start + 1
	for i := 1; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			var ok bool
			if c, ok = unescape(path[i:]); !ok {
				return false
			}
			i += 2
			n.changed |= ChangedEncoding
		}
		if c != '/' {
			n.dst = append(n.dst, c)
			continue
		}
		if !n.endSegment() {
			return false
		}
	}
	return n.resolveDots() >= 0
}

// endSegment ends the current segment with a slash.
func (n *normalizer) endSegment() bool {
	switch n.resolveDots() {
	case -1:
		return false
	case 1:
		return true
	}
	if n.segment == len(n.dst) && !n.keepSlashes {
		n.changed |= ChangedSegments
		return true
	}
	n.dst = append(n.dst, '/')
	n.segment = len(n.dst)
	return true
}

// resolveDots removes the current segment if it is "." or "..", with the one
// before in the latter case. It returns 1 if it did, 0 if the segment is
// another one, and -1 if there is none before.
func (n *normalizer) resolveDots() int {
	switch string(n.dst[n.segment:]) {
	case ".":
	case "..":
		if n.segment == n.start+1 {
			return -1
		}
		s := n.segment - 1
		for n.dst[s-1] != '/' {
			s--
		}
		n.segment = s
	default:
		return 0
	}
	n.dst = n.dst[:n.segment]
	n.changed |= ChangedSegments
	return 1
}

// unescape decodes the escape that s starts with; not NUL.
func unescape(s string) (c byte, ok bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, lo := hexValue(s[1]), hexValue(s[2])
	c = hi<<4 | lo
	return c, hi != 0xff && lo != 0xff && c != 0
}

// EscapePath appends a normalised path as it is sent upstream. It escapes what
// nginx escapes in a changed URI: controls, space, bytes above 0x7E, and
// " # % < > ? \ ^ ` { | }.
func EscapePath(dst []byte, path string) []byte {
	for i := range len(path) {
		if c := path[i]; pathByte[c] {
			dst = append(dst, c)
		} else {
			dst = appendEscape(dst, c)
		}
	}
	return dst
}

// EscapeControls appends text with the bytes escaped that cannot stand in a
// request's target whatever they are for: controls, space and DEL.
func EscapeControls(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c > ' ' && c != 0x7f {
			dst = append(dst, c)
		} else {
			dst = appendEscape(dst, c)
		}
	}
	return dst
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(dst, '%', hex[c>>4], hex[c&15])
}

var pathByte = table("!$&'()*+,-./:;=@[]_~" + digits + letters)

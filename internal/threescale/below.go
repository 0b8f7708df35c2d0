package threescale

import "strings"

// Below is the upstream with a path, and perhaps a query string, joined to its own:
// what the request asks for is then "/". A query string is dropped, and the
// upstream's own stays; without one the request's stays, instead of the upstream's
// own (APIcast: append_path of its upstreams).
func (u *Upstream) Below(path string) *Upstream {
	path, query, _ := strings.Cut(path, "?")
	below := *u
	if query == "" {
		below.Query = ""
	}
	if path != "" {
		below.Root = slashes.ReplaceAllString(u.Root+"/"+escapeOnce(path), "/")
	}
	return &below
}

// escapeOnce is EscapePath but for what is percent-encoded already.
func escapeOnce(path string) string {
	var b strings.Builder
	for path != "" {
		i := strings.IndexByte(path, '%')
		if i < 0 {
			break
		}
		b.WriteString(EscapePath(path[:i]))
		if path = path[i:]; len(path) > 2 && isHex(path[1]) && isHex(path[2]) {
			b.WriteString(path[:3])
			path = path[3:]
			continue
		}
		b.WriteString("%25")
		path = path[1:]
	}
	b.WriteString(EscapePath(path))
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

package router

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"

	"weir/internal/plugin"
)

// A matcher is the reference. It finds a route by looking at every path and host
// of every route: all that match are collected and the best by rank is taken.
type matcher map[string]luaPattern // by pattern

// A luaPattern is a pattern translated to an expression whose submatches have
// the names; there may be none.
type luaPattern struct {
	re    *regexp.Regexp
	names []string
}

func (m matcher) match(kind Kind, routes []*Route[int], q Request, c *plugin.Ctx) (best Found[int], ok bool) {
	var bestRank rank
	for _, route := range routes {
		hosts := hostRanks(kind, route, q.Host)
		if len(hosts) == 0 || !methodAllowed(route.Methods, q.Method) || route.Match != nil && !route.Match(c) {
			continue
		}
		for order, path := range route.Paths {
			exact, prefix, matches := m.pathMatches(path, q.Path, kind == URIWithParameter)
			if !matches {
				continue
			}
			for _, h := range hosts {
				r := rank{h, exact, prefix, route, path, order}
				if !ok || r.less(bestRank) {
					ok, bestRank = true, r
					best = Found[int]{Route: route, Path: path, Host: h.pattern}
				}
			}
		}
	}
	return best, ok
}

type rank struct {
	host   hostRank
	exact  bool
	prefix int
	route  *Route[int]
	path   string
	order  int
}

type hostRank struct {
	pattern string
	rank    int // lower is better
}

func (a rank) less(b rank) bool {
	number := map[bool]int{true: 1}
	return cmp.Or(
		cmp.Compare(a.host.rank, b.host.rank),
		cmp.Compare(number[b.exact], number[a.exact]),
		cmp.Compare(b.prefix, a.prefix),
		cmp.Compare(b.route.Priority, a.route.Priority),
		cmp.Compare(len(b.path), len(a.path)),
		cmp.Compare(a.route.Created, b.route.Created),
		cmp.Compare(a.route.ID, b.route.ID),
		cmp.Compare(a.order, b.order),
	) < 0
}

var portSuffix = regexp.MustCompile(`^(\[[^\]]*\]|[^:\[]*):(.*)$`)

// hostRanks returns the host patterns of the route that match; where hosts are
// only a predicate, the first of them.
func hostRanks(kind Kind, route *Route[int], host string) (ranks []hostRank) {
	if len(route.Hosts) == 0 {
		if kind == HostURI {
			return []hostRank{{"", math.MaxInt}}
		}
		return []hostRank{{"", 0}}
	}
	raw := strings.ToLower(host)
	bare := raw
	if m := portSuffix.FindStringSubmatch(raw); m != nil {
		bare = m[1]
	}
	bare = strings.TrimSuffix(bare, ".")
	for _, p := range route.Hosts {
		p = strings.ToLower(p)
		text := strings.TrimPrefix(p, "*")
		name, level := bare, 1
		if portSuffix.MatchString(text) {
			name, level = raw, 0
		}
		switch {
		case p == text && text == name:
		case p != text && strings.HasSuffix(name, text):
			level = (level+2)*1000 - len(text)
		default:
			continue
		}
		if kind != HostURI {
			return []hostRank{{p, 0}}
		}
		ranks = append(ranks, hostRank{p, level})
	}
	return ranks
}

func methodAllowed(methods []string, method string) bool {
	known := []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"}
	return len(methods) == 0 || slices.Contains(methods, method) && slices.Contains(known, method)
}

// pathMatches follows radixtree.lua 2.9.2 (common_route_data, fetch_pat,
// compare_param) step by step, but for patterns that end at their first "*",
// which are prefixes and nothing else.
func (m matcher) pathMatches(pattern, path string, params bool) (exact bool, prefix int, ok bool) {
	cut := strings.Index(pattern, ":")
	if !params || cut < 0 {
		cut = strings.Index(pattern, "*")
	}
	if cut < 0 {
		return true, len(pattern), pattern == path
	}
	if !strings.HasPrefix(path, pattern[:cut]) {
		return false, 0, false
	}
	if pattern[cut:] == "*" {
		return false, cut, true
	}
	p := m.pattern(pattern)
	return false, cut, len(p.names) == 0 || p.re != nil && p.re.MatchString(path)
}

func (m matcher) pattern(pattern string) luaPattern {
	p, ok := m[pattern]
	if !ok {
		p = translate(pattern)
		m[pattern] = p
	}
	return p
}

func translate(pattern string) luaPattern {
	var p luaPattern
	items := strings.Split(strings.TrimRight(pattern, "/"), "/")
	for i, s := range items {
		switch {
		case strings.HasPrefix(s, ":"):
			p.names = append(p.names, s[1:])
			items[i] = `([^\/]+)`
		case strings.HasPrefix(s, "*"):
			p.names = append(p.names, cmp.Or(s[1:], ":ext"))
			items[i] = `((?s:.*))`
		}
	}
	text := strings.Join(items, `\/`)
	if strings.HasSuffix(pattern, "/") {
		text += `\/`
	}
	p.re, _ = regexp.Compile(`^(?:` + text + `)$`)
	return p
}

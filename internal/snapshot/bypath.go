package snapshot

import (
	"slices"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// A pathIndex finds the mapping rules of a host's products that may cover a path,
// so that a path that none of them covers does not cost a look at every rule.
type pathIndex struct {
	lengths []int // of the prefixes, increasing
	rules   map[string][]placedRule
}

// A placedRule is a mapping rule of a product.
type placedRule struct {
	*threescale.Rule
	product int // its place in the host
}

// byPath is the first product with a mapping rule for the request. One that does
// not run has no rules that could be asked.
func (h host) byPath(c *plugin.Ctx) *productEntry {
	path, query := threescale.EscapePath(c.Path), c.RawQuery()
	argument := func(name string) (string, bool) { return threescale.LastArgument(query, name) }
	found := len(h.all)
	for _, n := range h.paths.lengths {
		if n > len(path) {
			break
		}
		for _, r := range h.paths.rules[path[:n]] {
			if r.product >= found {
				break
			}
			if r.Matches(c.Request.Method, path, argument) {
				found = r.product
			}
		}
	}
	if found == len(h.all) {
		return nil
	}
	return h.all[found]
}

// indexPaths makes the indices of the hosts whose products have changed, each once in
// a step.
func (n *next) indexPaths() {
	for name := range n.touchedHosts {
		if at, ok := n.hosts.Get(name); ok {
			at.paths = newPathIndex(at.all)
			n.hosts.Set(name, at)
		}
	}
}

func newPathIndex(all []*productEntry) *pathIndex {
	x := &pathIndex{rules: map[string][]placedRule{}}
	for i, e := range all {
		if e.running == nil || e.running.Product == nil {
			continue
		}
		for _, r := range e.running.Product.Rules {
			prefix := r.Prefix()
			if x.rules[prefix] == nil {
				x.lengths = append(x.lengths, len(prefix))
			}
			x.rules[prefix] = append(x.rules[prefix], placedRule{r, i})
		}
	}
	slices.Sort(x.lengths)
	x.lengths = slices.Compact(x.lengths)
	return x
}

package profile

import (
	"cmp"
	"slices"
)

// A Spread is a function, or a plugin, that many places call: a graph shows it as
// many narrow frames.
type Spread struct {
	Name   string `json:"name"`
	Total  int64  `json:"total"`
	Widest int64  `json:"widest"` // of its frames
	Places int    `json:"places"` // how many frames it has
}

// Spreads are the plugins and functions whose cost is spread over several frames,
// those first that lose most by it in a graph.
func (a *Analysis) Spreads() []Spread {
	all := map[string]*Spread{}
	note := func(name string, v int64) {
		s := all[name]
		if s == nil {
			s = &Spread{Name: name}
			all[name] = s
		}
		s.Total += v
		s.Places++
		s.Widest = max(s.Widest, v)
	}
	a.root.spread(map[string]bool{}, note)
	var list []Spread
	for _, s := range all {
		if s.Places > 1 {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Spread) int {
		return cmp.Or(cmp.Compare(b.Total-b.Widest, a.Total-a.Widest), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// spread notes the outermost frames of every function and plugin below n.
func (n *node) spread(above map[string]bool, note func(string, int64)) {
	for _, kid := range n.kids {
		var entered []string
		for _, name := range []string{kid.name, pluginLabel(kid.plugin)} {
			if name == "" || above[name] {
				continue
			}
			note(name, kid.value)
			above[name] = true
			entered = append(entered, name)
		}
		kid.spread(above, note)
		for _, name := range entered {
			delete(above, name)
		}
	}
}

func pluginLabel(plugin string) string {
	if plugin == "" {
		return ""
	}
	return "plugin " + plugin
}

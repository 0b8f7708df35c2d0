package profile

import (
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
)

// A node is a function in a flame graph. The same functions below the same callers
// are one node.
type node struct {
	name   string
	value  int64
	plugin string // that it belongs to
	kids   map[string]*node
}

// add puts a sample into the tree. From at on it is the plugin's.
func (n *node) add(stack []string, v int64, plugin string, at int) {
	n.value += v
	for i, f := range stack {
		kid := n.kids[f]
		if kid == nil {
			if n.kids == nil {
				n.kids = map[string]*node{}
			}
			kid = &node{name: f}
			n.kids[f] = kid
		}
		if plugin != "" && i >= at {
			kid.plugin = plugin
		}
		kid.value += v
		n = kid
	}
}

// merge adds another tree to n.
func (n *node) merge(other *node) {
	n.value += other.value
	for name, kid := range other.kids {
		mine := n.kids[name]
		if mine == nil {
			if n.kids == nil {
				n.kids = map[string]*node{}
			}
			mine = &node{name: name, plugin: kid.plugin}
			n.kids[name] = mine
		}
		mine.merge(kid)
	}
}

// byPlugin is the tree with every plugin at the root, whatever the phases that its
// functions run in.
func (n *node) byPlugin() *node {
	out := &node{name: "all"}
	rest := n.take(out)
	if rest != nil {
		rest.name = "(no plugin)"
		out.kids[rest.name] = rest
		out.value += rest.value
	}
	return out
}

// take moves the functions of plugins into out and returns what is left of n.
func (n *node) take(out *node) *node {
	left := &node{name: n.name, value: n.value}
	for name, kid := range n.kids {
		if kid.plugin != "" {
			if out.kids == nil {
				out.kids = map[string]*node{}
			}
			at := out.kids[kid.plugin]
			if at == nil {
				at = &node{name: kid.plugin, plugin: kid.plugin}
				out.kids[kid.plugin] = at
			}
			at.merge(&node{value: kid.value, kids: map[string]*node{name: kid}})
			out.value += kid.value
			left.value -= kid.value
			continue
		}
		before := out.value
		sub := kid.take(out)
		left.value -= out.value - before
		if sub.value > 0 {
			if left.kids == nil {
				left.kids = map[string]*node{}
			}
			left.kids[name] = sub
		}
	}
	if out.kids == nil {
		out.kids = map[string]*node{}
	}
	return left
}

// narrow is the share below which functions are left out of the page.
const narrow = 0.0005

// flame is a node as the page reads it: name, value, plugin, kids.
type flame struct {
	Name   string   `json:"n"`
	Value  int64    `json:"v"`
	Plugin string   `json:"p,omitempty"`
	Kids   []*flame `json:"k,omitempty"`
}

func (n *node) flame(least int64) *flame {
	f := &flame{Name: n.name, Value: n.value, Plugin: n.plugin}
	for _, kid := range n.kids {
		if kid.value >= least {
			f.Kids = append(f.Kids, kid.flame(least))
		}
	}
	slices.SortFunc(f.Kids, func(a, b *flame) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return f
}

//go:embed flame.html
var page string

// WriteHTML writes a page with the flame graph. It needs nothing else.
func (a *Analysis) WriteHTML(w io.Writer, title string) error {
	t, err := template.New("flame").Parse(page)
	if err != nil {
		return err
	}
	a.root.name = "all"
	least := int64(float64(a.Total) * narrow)
	stacks, err := json.Marshal(a.root.flame(least))
	if err != nil {
		return err
	}
	plugins, err := json.Marshal(a.root.byPlugin().flame(least))
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"Title": title, "Unit": a.Unit, "Whole": fmt.Sprintf("%s, %s", a.Type, a.Show(a.Total)),
		"Stacks": template.JS(stacks), "Plugins": template.JS(plugins), //nolint:gosec // JSON that json.Marshal has escaped for HTML
	})
}

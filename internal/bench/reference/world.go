// Package reference is a model of a gateway, small enough to be seen to be right:
// what every request must be answered with, given the objects that there are. A
// soak changes it and a gateway in step and compares.
package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Object is what one stored document comes to. The zero value of a reference is
// none. What a kind does not have is zero.
type Object struct {
	Stored bool // there is a document
	Broken bool // which does not compile
	Good   *Doc // the last that did; it runs
	Shut   bool // the document names a guard that Good lacks: nothing passes
}

// A Doc is a document that compiles.
type Doc struct {
	Mark     string // what the answer's MarkHeader is set to; empty: it does not say
	Guard    bool   // key-auth is asked for
	Disabled bool   // status 0
	Node     int    // of its own upstream, from 1; 0: it has none
	APIKey   string // of a consumer or credential
	Header   string // of limit-count's metadata: what the limit is told in

	Upstream, Service, PluginConfig, Group string // keys of other objects
}

// MarkHeader is what routes, services, plugin configs, groups and consumers set.
const MarkHeader = "X-Soak-Mark"

// NodeHeader is set by the origins: the number of the node.
const NodeHeader = "X-Soak-Node"

// GlobalHeader is the header that a global rule sets to its mark.
func GlobalHeader(key string) string {
	return "X-Soak-Global-" + key[strings.LastIndexByte(key, '_')+1:]
}

// A World is all objects by key, "routes/soak_1". It is not changed once made.
type World map[string]Object

// With is the world in which one object is another. One that is not stored is not
// there, and a consumer takes its credentials along.
func (w World) With(key string, o Object) World {
	next := maps.Clone(w)
	if o.Stored {
		next[key] = o
		return next
	}
	delete(next, key)
	if strings.HasPrefix(key, "consumers/") && !strings.Contains(key, "/credentials/") {
		maps.DeleteFunc(next, func(k string, _ Object) bool { return strings.HasPrefix(k, key+"/credentials/") })
	}
	return next
}

// Good is the document of an object that runs; nil: none.
func (w World) Good(key string) *Doc { return w[key].Good }

// An Answer is what a request must get. Of an answer that is not 200 only the
// status is told.
type Answer struct {
	Status  int
	Node    int
	Mark    string
	Globals map[string]string // headers of global rules, by name
	Limit   string            // header in which limit-count tells the limit; empty: no limit is asked of the route
}

// Equal compares two answers.
func (a Answer) Equal(b Answer) bool {
	if a.Status != 200 || b.Status != 200 {
		return a.Status == b.Status
	}
	return a.Node == b.Node && a.Mark == b.Mark && a.Limit == b.Limit && maps.Equal(a.Globals, b.Globals)
}

func (a Answer) String() string {
	if a.Status != 200 {
		return fmt.Sprint(a.Status)
	}
	return fmt.Sprintf("200 node %d mark %q limit %q globals %v", a.Node, a.Mark, a.Limit, a.Globals)
}

// Ask is what a request to the path of a route, with an API key or without, must be
// answered with.
func (w World) Ask(route, key string) Answer {
	o, there := w[route]
	switch {
	case !there:
		return Answer{Status: 404}
	case o.Shut:
		return Answer{Status: 503}
	case o.Good == nil || o.Good.Disabled:
		return Answer{Status: 404}
	}
	// From what prevails least to what prevails most.
	layers := []*Doc{w.Good(o.Good.Service), w.Good(o.Good.PluginConfig), o.Good}
	guarded := false
	for _, d := range layers {
		guarded = guarded || d != nil && d.Guard
	}
	if guarded {
		consumer := w.consumer(key)
		if consumer == nil {
			return Answer{Status: 401}
		}
		layers = append(layers, w.Good(consumer.Group), consumer)
	}
	a := Answer{Status: 200, Node: w.node(o.Good), Globals: w.globals()}
	for _, d := range layers {
		if d != nil && d.Mark != "" {
			a.Mark = d.Mark
		}
	}
	if route == LimitRoute {
		a.Limit = DefaultLimitHeader
		if d := w.Good(LimitMetadata); d != nil {
			a.Limit = d.Header
		}
	}
	return a
}

// consumer is the one that holds a key, itself or by a credential.
func (w World) consumer(key string) *Doc {
	if key == "" {
		return nil
	}
	for k, o := range w {
		if o.Good == nil || o.Good.APIKey != key {
			continue
		}
		owner, _, _ := strings.Cut(k, "/credentials/")
		return w.Good(owner)
	}
	return nil
}

// node is where a route leads: its own upstream, the one it names, then its
// service's.
func (w World) node(route *Doc) int {
	for _, d := range []*Doc{route, w.Good(route.Service)} {
		if d == nil {
			continue
		}
		if d.Node != 0 {
			return d.Node
		}
		if u := w.Good(d.Upstream); u != nil {
			return u.Node
		}
	}
	return 0
}

func (w World) globals() map[string]string {
	all := map[string]string{}
	for k, o := range w {
		if strings.HasPrefix(k, "global_rules/") && o.Good != nil {
			all[GlobalHeader(k)] = o.Good.Mark
		}
	}
	return all
}

// another says that there is a global rule besides one: the Admin API takes a plugin
// in one of them only, and all have the same.
func (w World) another(key string) bool {
	for k := range w {
		if strings.HasPrefix(k, "global_rules/") && k != key {
			return true
		}
	}
	return false
}

// users are the objects that refer to another, in order.
func (w World) users(key string) []string {
	var all []string
	for k, o := range w {
		if d := o.Good; d != nil && slices.Contains([]string{d.Upstream, d.Service, d.PluginConfig, d.Group}, key) {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

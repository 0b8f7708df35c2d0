// Package reference is a model of a gateway, small enough to be seen to be right:
// what every request must be answered with, given the objects that there are. A
// soak changes it and a gateway in step and compares.
package reference

import (
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

	Certificate int    // of an ssl: which of the generator's pairs it shows, from 1
	Field       string // of a proto: what the answer's member is called
	Refuses     bool   // of a stream route: nobody may connect
	Unlimited   bool   // of the list of plugins: limit-count is not in it

	Upstream, Service, PluginConfig, Group, Proto string // keys of other objects
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
// there, and it takes along what lies below it.
func (w World) With(key string, o Object) World {
	next := maps.Clone(w)
	if o.Stored {
		next[key] = o
		return next
	}
	delete(next, key)
	maps.DeleteFunc(next, func(k string, _ Object) bool { return Owner(k) == key })
	return next
}

// Owner is the key of the object that another lies below; empty: none.
func Owner(key string) string {
	for _, below := range []string{"/credentials/", "/graphql_cost_decorations/"} {
		if owner, _, ok := strings.Cut(key, below); ok {
			return owner
		}
	}
	return ""
}

// Kind is the directory of an object: "routes", "credentials".
func Kind(key string) string {
	if owner := Owner(key); owner != "" {
		key = key[len(owner)+1:]
	}
	dir, _, _ := strings.Cut(key, "/")
	return dir
}

// Good is the document of an object that runs; nil: none.
func (w World) Good(key string) *Doc { return w[key].Good }

// consumer is the one that holds a key, itself or by a credential.
func (w World) consumer(key string) *Doc {
	if key == "" {
		return nil
	}
	for k, o := range w {
		if o.Good == nil || o.Good.APIKey != key {
			continue
		}
		if owner := Owner(k); owner != "" {
			return w.Good(owner)
		}
		return o.Good
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
		if d.Upstream != "" {
			return 0
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

// users are the objects that keep another from being deleted, in order. Stream routes
// do not keep upstreams.
func (w World) users(key string) []string {
	var all []string
	for k, o := range w {
		d := o.Good
		if d == nil || d.Upstream == key && strings.HasPrefix(k, "stream_routes/") {
			continue
		}
		if slices.Contains([]string{d.Upstream, d.Service, d.PluginConfig, d.Group, d.Proto}, key) {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

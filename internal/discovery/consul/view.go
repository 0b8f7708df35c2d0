package consul

import (
	"slices"
	"sync"

	"weir/internal/discovery"
)

// A view puts together what several servers say about one service. Those that
// answer at present come first: the servers may be members of one cluster, and
// then one that fails has nothing to add. What a failing server said last counts
// only if the others know no nodes, since they may be of another cluster.
type view struct {
	feed *discovery.Feed

	mu  sync.Mutex
	all []opinion
}

// An opinion is what one server says.
type opinion struct {
	nodes []discovery.Node // of the last answer
	err   error            // why there is no current one
	asked bool
}

func newView(f *discovery.Feed, servers int) *view {
	return &view{feed: f, all: make([]opinion, servers)}
}

func (v *view) set(i int, nodes []discovery.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[i] = opinion{nodes: nodes, asked: true}
	v.report()
}

func (v *view) fail(i int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[i].err, v.all[i].asked = err, true
	v.report()
}

// report tells the feed. v.mu is held.
func (v *view) report() {
	var current, last []discovery.Node
	var err error
	answers, silent := 0, 0
	for _, o := range v.all {
		switch {
		case !o.asked:
			silent++
		case o.err == nil:
			answers++
			current = union(current, o.nodes)
		default:
			err = o.err
			last = union(last, o.nodes)
		}
	}
	switch {
	case len(current) > 0:
		v.feed.Set(current)
	case silent > 0: // it may know nodes
	case len(last) > 0:
		v.feed.Stale(last, err)
	case err != nil && (answers == 0 || v.feed.Restored()):
		v.feed.Fail(err)
	default:
		v.feed.Set(nil)
	}
}

func union(a, b []discovery.Node) []discovery.Node {
	for _, n := range b {
		if !slices.ContainsFunc(a, func(have discovery.Node) bool { return have.Host == n.Host && have.Port == n.Port }) {
			a = append(a, n)
		}
	}
	return a
}

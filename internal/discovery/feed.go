package discovery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/model"
	"weir/internal/upstream"
)

// A Feed takes what is found out about one service and has it ready for
// requests.
type Feed struct {
	registry *Registry
	target   Target
	users    int                // guarded by registry.mu
	cancel   context.CancelFunc // guarded by registry.mu; nil: not followed
	linger   *time.Timer        // guarded by registry.mu; nil: never without users

	known atomic.Pointer[known] // nil: nothing is

	mu       sync.Mutex
	tried    chan struct{} // closed when there was an answer or a failure
	settled  bool          // tried is closed
	err      error         // why asking fails; nil: it does not
	restored bool          // known is from a dump
}

// known is what is known of a service at one time.
type known struct {
	nodes []Node // as the registry has them
	list  *upstream.NodeList
}

// Set makes nodes those of the service; none: it has no instances. Nodes that
// cannot be addressed are left out. The caller does not use nodes afterwards.
func (f *Feed) Set(nodes []Node) {
	nodes = f.usable(nodes)
	f.mu.Lock()
	was, old := f.err, f.known.Load()
	f.err, f.restored = nil, false
	changed := f.learn(old, nodes)
	f.settle()
	f.mu.Unlock()
	f.registry.answered(changed)
	if was != nil {
		f.registry.env.Log.Info("a service is known again", "discovery", f.registry.kind, "service", f.target.Key)
	}
}

// Fail says that asking failed. What is known stays.
func (f *Feed) Fail(err error) {
	f.mu.Lock()
	was := f.err
	f.err = err
	known := f.known.Load() != nil
	if !known && f.registry.fallback != nil {
		f.learn(nil, nil)
	}
	f.settle()
	f.mu.Unlock()
	f.sayFailure(was, err, known)
}

// Stale is Fail and makes nodes what is known.
func (f *Feed) Stale(nodes []Node, err error) {
	nodes = f.usable(nodes)
	f.mu.Lock()
	was := f.err
	f.err, f.restored = err, false
	changed := f.learn(f.known.Load(), nodes)
	f.settle()
	f.mu.Unlock()
	f.registry.answered(changed)
	f.sayFailure(was, err, true)
}

// sayFailure logs the first of several failures.
func (f *Feed) sayFailure(was, err error, known bool) {
	if was != nil {
		return
	}
	text := "a service cannot be discovered"
	if known {
		text = "discovery fails, the last nodes stay in use"
	}
	f.registry.env.Log.Warn(text, "discovery", f.registry.kind, "service", f.target.Key, "err", err)
}

// Restored reports whether what is known is from a dump.
func (f *Feed) Restored() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.restored
}

// restore makes nodes of a dump known, unless something is.
func (f *Feed) restore(nodes []Node) {
	nodes = f.usable(nodes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known.Load() == nil && len(nodes) > 0 {
		f.restored = true
		f.learn(nil, nodes)
		f.settle()
	}
}

// learn makes nodes known and reports whether they differ from old. f.mu is held.
func (f *Feed) learn(old *known, nodes []Node) (changed bool) {
	next := &known{nodes: nodes}
	changed = old == nil || !slices.EqualFunc(old.nodes, nodes, equal)
	if old != nil && sameNodes(old.nodes, nodes) {
		next.list = old.list
	} else {
		next.list = listOf(nodes, f.registry.fallback)
	}
	f.known.Store(next)
	return changed
}

func (f *Feed) settle() {
	if !f.settled {
		f.settled = true
		close(f.tried)
	}
}

// usable leaves out nodes that an upstream cannot have.
func (f *Feed) usable(nodes []Node) []Node {
	return slices.DeleteFunc(nodes, func(n Node) bool {
		bad := n.Host == "" || n.Port < 0 || n.Port > 65535 || n.Weight < 0 || strings.ContainsAny(n.Host, " /\r\n\t")
		if bad {
			f.registry.env.Log.Warn("a node cannot be used", "discovery", f.registry.kind, "service", f.target.Key,
				"host", n.Host, "port", n.Port, "weight", n.Weight)
		}
		return bad
	})
}

// listOf is the nodes as upstreams have them; fallback stands in for none.
func listOf(nodes []Node, fallback *Node) *upstream.NodeList {
	if len(nodes) == 0 && fallback != nil {
		nodes = []Node{*fallback}
	}
	list := &upstream.NodeList{Nodes: make([]model.Node, len(nodes))}
	for i, n := range nodes {
		list.Nodes[i] = forUpstream(n)
	}
	return list
}

func forUpstream(n Node) model.Node {
	host := strings.TrimSuffix(strings.TrimPrefix(n.Host, "["), "]")
	return model.Node{Host: host, Port: n.Port, Weight: n.Weight}
}

func equal(a, b Node) bool {
	return forUpstream(a) == forUpstream(b) && bytes.Equal(a.Metadata, b.Metadata)
}

// sameNodes reports whether a and b are the same to an upstream. The order is
// not: registries that do not keep one must not make upstreams change.
func sameNodes(a, b []Node) bool {
	if len(a) != len(b) {
		return false
	}
	return slices.EqualFunc(sorted(a), sorted(b), func(a, b Node) bool { return forUpstream(a) == forUpstream(b) })
}

func sorted(nodes []Node) []Node {
	return slices.SortedFunc(slices.Values(nodes), Compare)
}

// Compare orders nodes by host, port and weight.
func Compare(a, b Node) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Weight, b.Weight))
}

// A use is one upstream's upstream.Service.
type use struct{ *Feed }

func (u use) Known(time.Time) *upstream.NodeList {
	if k := u.known.Load(); k != nil {
		return k.list
	}
	return nil
}

// Nodes waits only for the first answer: while asking fails and nothing is
// known, it returns why.
func (u use) Nodes(ctx context.Context, _ time.Time) (*upstream.NodeList, error) {
	select {
	case <-u.tried:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k := u.known.Load(); k != nil {
		return k.list, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return nil, cmp.Or(u.err, errUnknown)
}

// errUnknown stands for a failure that has ended just now.
var errUnknown = errors.New("the service is not known yet")

func (u use) Close() { u.registry.release(u.Feed) }

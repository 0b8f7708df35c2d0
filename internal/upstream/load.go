package upstream

import (
	"sync"
	"time"
)

// leastConnections chooses the node with the fewest requests under way for its
// weight. What is chosen is counted at once.
type leastConnections struct {
	mu    sync.Mutex
	nodes []*node
	next  int // where to look first: among equals, nodes take turns
}

func (b *leastConnections) pick(f *filter) *node {
	b.mu.Lock()
	defer b.mu.Unlock()
	var best *node
	var bestActive int64
	at := 0
	for i := range b.nodes {
		n := b.nodes[(b.next+i)%len(b.nodes)]
		if !f.passes(n) {
			continue
		}
		active := n.load.active.Load() + 1
		if best == nil || active*int64(best.weight) < bestActive*int64(n.weight) {
			best, bestActive, at = n, active, b.next+i
		}
	}
	if best != nil {
		best.load.active.Add(1)
		b.next = (at + 1) % len(b.nodes)
	}
	return best
}

// fastest looks at two nodes at random and chooses the one that has answered
// faster of late (peak EWMA, as in Finagle and APISIX).
type fastest struct {
	nodes []*node
	start func(n int) int
	now   func() time.Time
}

func (b *fastest) pick(f *filter) *node {
	count := 0
	for _, n := range b.nodes {
		if f.passes(n) {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	first := b.start(count)
	chosen := b.nth(f, first)
	if count > 1 && chosen != nil {
		second := b.start(count - 1)
		if second >= first {
			second++
		}
		now := b.now()
		if other := b.nth(f, second); other != nil && chosen.load.score(now) > other.load.score(now) {
			chosen = other
		}
	}
	if chosen != nil {
		chosen.load.active.Add(1)
	}
	return chosen
}

// nth is the nth node that f lets pass. Health may change meanwhile: it is then
// the last one, and nil only if none is left.
func (b *fastest) nth(f *filter, n int) (found *node) {
	for _, node := range b.nodes {
		if f.passes(node) {
			if found = node; n == 0 {
				return found
			}
			n--
		}
	}
	return found
}

package upstream

import (
	"sync"
	"sync/atomic"
)

// maxSequence bounds the memory of one precomputed sequence.
const maxSequence = 2048

// A roundRobin chooses nodes by smooth weighted round robin: with weights
// 5, 1, 1 the order is a a b a c a a, as in nginx, not a a a a a b c. One period
// is computed beforehand when it is short; a request then only adds one to a
// counter.
type roundRobin struct {
	next  atomic.Uint64
	cycle []*node // nil: too long, use smooth

	mu     sync.Mutex
	smooth smooth
}

// newRoundRobin balances over nodes with weights above 0; start shifts the
// beginning of the sequence, so that upstreams that are replaced often do not
// send everything to their first node.
func newRoundRobin(nodes []*node, start func(int) int) *roundRobin {
	s := newSmooth(nodes)
	if s.period > maxSequence {
		r := &roundRobin{smooth: s}
		for range start(len(nodes)) {
			r.smooth.pick(&filter{})
		}
		return r
	}
	r := &roundRobin{cycle: make([]*node, s.period)}
	for i := range r.cycle {
		r.cycle[i] = s.pick(&filter{})
	}
	r.next.Store(uint64(start(len(r.cycle))))
	return r
}

func (r *roundRobin) pick(f *filter) *node {
	if r.cycle == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.smooth.pick(f)
	}
	// What is passed over counts as picked, so that the shares of the others stay
	// in proportion. Others may pick what would have been ours, hence the last look.
	n := uint64(len(r.cycle))
	for range n {
		if c := r.cycle[(r.next.Add(1)-1)%n]; f.passes(c) {
			return c
		}
	}
	for _, c := range r.cycle {
		if f.passes(c) {
			return c
		}
	}
	return nil
}

// smooth is the state of the algorithm: every node earns its weight at each
// pick, the richest is chosen and pays the sum.
type smooth struct {
	nodes   []*node
	weight  []int
	current []int
	period  int // picks until the state is as at the beginning
}

func newSmooth(nodes []*node) smooth {
	s := smooth{nodes: nodes, weight: make([]int, len(nodes)), current: make([]int, len(nodes))}
	divisor := commonDivisor(nodes)
	for i, n := range nodes {
		s.weight[i] = n.weight / divisor
		s.period += s.weight[i]
	}
	return s
}

func (s *smooth) pick(f *filter) *node {
	best, sum := -1, 0
	for i, w := range s.weight {
		if !f.passes(s.nodes[i]) {
			continue
		}
		s.current[i] += w
		sum += w
		if best < 0 || s.current[i] > s.current[best] {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	s.current[best] -= sum
	return s.nodes[best]
}

// commonDivisor is the greatest of all weights, which are above 0.
func commonDivisor(nodes []*node) int {
	divisor := 0
	for _, n := range nodes {
		divisor = gcd(divisor, n.weight)
	}
	return divisor
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

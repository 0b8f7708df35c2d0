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
	cycle []int32 // node indexes; nil: too long, use smooth

	mu     sync.Mutex
	smooth smooth
}

// newRoundRobin balances over the nodes that have a weight above 0; start shifts
// the beginning of the sequence, so that upstreams that are replaced often do
// not send everything to their first node.
func newRoundRobin(nodes []*node, start func(int) int) *roundRobin {
	s := newSmooth(nodes)
	if s.period == 0 {
		return nil
	}
	r := &roundRobin{smooth: s}
	if s.period > maxSequence {
		for range start(len(s.index)) {
			r.smooth.pick(nil)
		}
		return r
	}
	r.cycle = make([]int32, s.period)
	for i := range r.cycle {
		r.cycle[i] = s.pick(nil)
	}
	r.next.Store(uint64(start(len(r.cycle))))
	return r
}

// pick returns the index of the next node that is not in tried, or -1.
func (r *roundRobin) pick(tried []int32) int32 {
	if r.cycle == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.smooth.pick(tried)
	}
	// What is passed over counts as picked, so that the shares of the others stay
	// in proportion. Others may pick what would have been ours, hence the last look.
	n := uint64(len(r.cycle))
	for range n {
		if c := r.cycle[(r.next.Add(1)-1)%n]; !contains(tried, c) {
			return c
		}
	}
	for _, c := range r.cycle {
		if !contains(tried, c) {
			return c
		}
	}
	return -1
}

// smooth is the state of the algorithm: every node earns its weight at each
// pick, the richest is chosen and pays the sum.
type smooth struct {
	index   []int32 // of the node
	weight  []int
	current []int
	period  int // picks until the state is as at the beginning
}

func newSmooth(nodes []*node) smooth {
	var s smooth
	divisor := 0
	for _, n := range nodes {
		if n.weight <= 0 {
			continue
		}
		s.index = append(s.index, n.index)
		s.weight = append(s.weight, n.weight)
		s.period += n.weight
		divisor = gcd(divisor, n.weight)
	}
	for i := range s.weight {
		s.weight[i] /= divisor
	}
	s.current = make([]int, len(s.weight))
	if divisor > 0 {
		s.period /= divisor
	}
	return s
}

func (s *smooth) pick(tried []int32) int32 {
	best, sum := -1, 0
	for i, w := range s.weight {
		if contains(tried, s.index[i]) {
			continue
		}
		s.current[i] += w
		sum += w
		if best < 0 || s.current[i] > s.current[best] {
			best = i
		}
	}
	if best < 0 {
		return -1
	}
	s.current[best] -= sum
	return s.index[best]
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func contains(tried []int32, n int32) bool {
	for _, t := range tried {
		if t == n {
			return true
		}
	}
	return false
}

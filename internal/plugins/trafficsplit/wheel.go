package trafficsplit

import "sync"

// A wheel hands out turns by weight, as evenly as can be (smooth weighted round
// robin).
type wheel struct {
	mu      sync.Mutex
	weights []int
	due     []int
	sum     int
}

// newWheel makes a wheel. If all weights are 0, they count as equal.
func newWheel(weights []int) *wheel {
	w := &wheel{weights: append([]int(nil), weights...), due: make([]int, len(weights))}
	for _, n := range weights {
		w.sum += n
	}
	if w.sum == 0 {
		for i := range w.weights {
			w.weights[i] = 1
		}
		w.sum = len(weights)
	}
	return w
}

// next is the index of whose turn it is.
func (w *wheel) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := -1
	for i, n := range w.weights {
		w.due[i] += n
		if n > 0 && (best < 0 || w.due[i] > w.due[best]) {
			best = i
		}
	}
	w.due[best] -= w.sum
	return best
}

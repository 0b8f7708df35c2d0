package reference

import "sync"

// kept is how many worlds a history remembers.
const kept = 4096

// A History is the worlds that there were, in order. An answer is right if it is
// that of one that there may have been between request and answer: writes that are
// under way may be in force or not.
type History struct {
	mu     sync.Mutex
	first  int // number of worlds[0]
	worlds []World
	acked  int // number of the newest that was acknowledged
}

// NewHistory begins with w.
func NewHistory(w World) *History { return &History{worlds: []World{w}} }

// Begin notes a world that may be in force from now on.
func (h *History) Begin(w World) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.worlds = append(h.worlds, w)
	if over := len(h.worlds) - kept; over > 0 {
		h.worlds, h.first = h.worlds[over:], h.first+over
	}
}

// Acknowledge notes that the newest world is in force.
func (h *History) Acknowledge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = h.first + len(h.worlds) - 1
}

// Now is the number of the world that is in force at least, and that world.
func (h *History) Now() (int, World) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked, h.worlds[h.acked-h.first]
}

// Allows says whether an answer to a question that was asked when since was in force
// is right; if not, want is what it should have been last.
func (h *History) Allows(since int, q Question, got Answer) (ok bool, want Answer) {
	h.mu.Lock()
	var worlds []World
	if since >= h.first {
		worlds = h.worlds[since-h.first:]
	}
	h.mu.Unlock()
	if worlds == nil {
		return true, got // too long ago to say
	}
	for _, w := range worlds {
		if want = w.Ask(q); want.Equal(got) {
			return true, want
		}
	}
	return false, want
}

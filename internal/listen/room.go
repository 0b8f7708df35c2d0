package listen

import "sync"

// A Room bounds the connections of clients by the descriptors of the process, so that
// those that are in find one for their upstream, and the process some for its store,
// its files and its logs. Who comes when there is no room waits. A nil Room has no
// bound. All methods may be called by many goroutines.
type Room struct {
	descriptors func() int // that the process may have; 0: unknown

	mu      sync.Mutex
	changed sync.Cond // on mu
	open    int
	waiting int
}

// NewRoom bounds connections by the limit of the process, as it is when they come.
func NewRoom() *Room { return newRoom(maxDescriptors) }

func newRoom(descriptors func() int) *Room {
	r := &Room{descriptors: descriptors}
	r.changed.L = &r.mu
	return r
}

// leastReserve and mostReserve bound what is kept for anything but connections of
// clients and their upstreams: an eighth of all.
const (
	leastReserve = 64
	mostReserve  = 1024
)

// Bound is how many connections may be open; 0: there is no bound.
func (r *Room) Bound() int {
	if r == nil {
		return 0
	}
	n := r.descriptors()
	if n <= 0 {
		return 0
	}
	reserve := min(max(n/8, leastReserve), mostReserve)
	return max((n-reserve)/2, 1)
}

// Enter counts a connection, once there is room, unless stopping says so first,
// which Wake has it asked. Leave must follow if it does.
func (r *Room) Enter(stopping func() bool) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting++
	defer func() { r.waiting-- }()
	for bound := r.Bound(); bound > 0 && r.open >= bound; bound = r.Bound() {
		if stopping() {
			return false
		}
		r.changed.Wait()
	}
	r.open++
	return true
}

// Wake has those that wait look whether they still want to.
func (r *Room) Wake() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// Leave ends what Enter has begun.
func (r *Room) Leave() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	r.changed.Broadcast()
}

// Crowded reports that somebody waits.
func (r *Room) Crowded() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0
}

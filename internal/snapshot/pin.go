package snapshot

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pin holds the state that one connection's current request sees. It belongs
// to one goroutine.
type Pin struct {
	applier *Applier
	seq     atomic.Uint64 // of the pinned state; 0: none
}

// Take pins the current state until Drop. Nothing that the state refers to is
// closed while it is pinned.
func (p *Pin) Take() *Snapshot {
	for {
		s := p.applier.current.Load()
		p.seq.Store(s.seq)
		// A state that is still current now cannot have been retired before the
		// pin was visible.
		if p.applier.current.Load() == s {
			return s
		}
	}
}

// Drop ends the pin.
func (p *Pin) Drop() { p.seq.Store(0) }

// NewPin makes a pin for one connection; FreePin must follow.
func (a *Applier) NewPin() *Pin {
	p := &Pin{applier: a}
	a.retiring.mu.Lock()
	a.retiring.pins[p] = struct{}{}
	a.retiring.mu.Unlock()
	return p
}

// FreePin ends the use of p.
func (a *Applier) FreePin(p *Pin) {
	p.Drop()
	a.retiring.mu.Lock()
	delete(a.retiring.pins, p)
	a.retiring.mu.Unlock()
}

// retiring closes what states no longer refer to, once no request can.
type retiring struct {
	mu   sync.Mutex
	pins map[*Pin]struct{}
	due  []retired
	wake chan struct{}
}

// retired is what the state seq was the last to refer to.
type retired struct {
	seq   uint64
	close []func()
}

// retirePause is how often retired objects are looked at while there are some.
const retirePause = 20 * time.Millisecond

func (r *retiring) add(seq uint64, close []func()) {
	if len(close) == 0 {
		return
	}
	r.mu.Lock()
	r.due = append(r.due, retired{seq, close})
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run closes retired objects until stop; then everything that is left.
func (r *retiring) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			r.closeBelow(^uint64(0))
			return
		case <-r.wake:
		}
		for r.closeBelow(r.oldest()) {
			select {
			case <-stop:
			case <-time.After(retirePause):
				continue
			}
			break
		}
	}
}

// oldest is the lowest pinned state, or above all if none is pinned.
func (r *retiring) oldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	low := ^uint64(0)
	for p := range r.pins {
		if seq := p.seq.Load(); seq != 0 && seq < low {
			low = seq
		}
	}
	return low
}

// closeBelow closes what only states below seq refer to and reports whether
// more is due.
func (r *retiring) closeBelow(seq uint64) bool {
	r.mu.Lock()
	var now []retired
	r.due = slices.DeleteFunc(r.due, func(x retired) bool {
		if x.seq < seq {
			now = append(now, x)
			return true
		}
		return false
	})
	more := len(r.due) > 0
	r.mu.Unlock()
	for _, x := range now {
		for _, f := range x.close {
			f()
		}
	}
	return more
}

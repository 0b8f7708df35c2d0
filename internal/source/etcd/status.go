package etcd

import (
	"maps"
	"sync"
	"time"
)

// The reasons for which the whole store is read.
const (
	ReasonStart     = "start"     // nothing was delivered yet
	ReasonCompacted = "compacted" // the store no longer has the events since the last delivery
	ReasonRestored  = "restored"  // the store's history is not the one that was delivered
	ReasonLost      = "lost"      // events are missing for another reason
)

// A Status is what an operator wants to know about the store.
type Status struct {
	Connected     bool  // the watch is established
	Delivered     int64 // revision of the last step that was applied
	StoreRevision int64 // highest revision the store has shown
	LastEvent     time.Time
	LastError     string           // of reading the configuration; without secrets
	Resyncs       map[string]int64 // full reads by reason
	Objects       int              // delivered objects
	Checked       Checked          // what comparing the running state with the store has found
}

type statusBoard struct {
	mu sync.Mutex
	s  Status
}

// Status returns the state of the delivery. It does not ask the store.
func (s *Store) Status() Status {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	out := s.status.s
	out.Resyncs = maps.Clone(out.Resyncs)
	out.Checked.Drift = maps.Clone(out.Checked.Drift)
	select {
	case <-s.cfg.Gone:
		out.Connected, out.LastError = false, errGone.Error()
	default:
	}
	return out
}

func (b *statusBoard) update(f func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.s.Resyncs == nil {
		b.s.Resyncs = map[string]int64{}
	}
	f(&b.s)
}

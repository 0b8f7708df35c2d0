package monotonic

import (
	"sync/atomic"
	"time"
)

// A Seldom keeps what may happen at every request from filling the log. The zero
// Seldom is ready. Its method may be called by many goroutines.
type Seldom struct{ last atomic.Int64 }

// Ready says, at most once a second, that it may be told again.
func (s *Seldom) Ready(now time.Time) bool {
	last, at := s.last.Load(), Of(now)
	return (last == 0 || at-last >= int64(time.Second)) && s.last.CompareAndSwap(last, at)
}

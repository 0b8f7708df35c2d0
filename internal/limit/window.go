package limit

import (
	"encoding/binary"
	"math"
	"time"
)

// A Count is the outcome of counting.
type Count struct {
	OK        bool
	Remaining int64         // of the limit, at least 0
	Reset     time.Duration // until the window is over, or until there is room again
}

// Fixed counts in windows, each of which begins with the first request after
// the one before. What is refused counts, too.
type Fixed struct{ *Table[fixed] }

type fixed struct {
	used int64
	end  time.Duration
}

// NewFixed makes empty counters; Close ends them.
func NewFixed(clock func() time.Time) Fixed { return Fixed{NewTable[fixed](clock)} }

// Take counts cost (0: only asks) for key and says whether limit is kept. A
// window that has begun keeps its length.
func (f Fixed) Take(key []byte, cost, limit int64, window time.Duration) (c Count) {
	f.Do(key, func(v *fixed, now time.Duration) time.Duration {
		if v.end == 0 {
			v.end = now + window
		}
		v.used = add(v.used, cost)
		c = Count{OK: v.used <= limit, Remaining: max(limit-v.used, 0), Reset: v.end - now}
		return c.Reset
	})
	return c
}

func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// Sliding counts in the window that ends now, of which it knows the part in the
// present aligned window and estimates the rest from the one before, as if its
// requests had come evenly. What is refused does not count.
type Sliding struct{ *Table[slide] }

// A slide is what Sliding knows of a key.
type slide struct {
	id            int64 // of the present window
	current, last int64
}

// NewSliding makes empty counters; Close ends them.
func NewSliding(clock func() time.Time) Sliding { return Sliding{NewTable[slide](clock)} }

// Spare is the capacity beyond its length that a key should have, lest Take
// allocate it.
const Spare = 8

// Take counts cost (0: only asks) for key if limit is not reached yet. Windows
// of different lengths are counted apart. It writes to the key's Spare bytes.
func (s Sliding) Take(key []byte, cost, limit int64, window time.Duration) (c Count) {
	key = binary.BigEndian.AppendUint64(key, uint64(window))
	start := s.epoch.UnixNano()
	s.Do(key, func(v *slide, now time.Duration) time.Duration {
		at := start + int64(now)
		left := window - time.Duration(at%int64(window))
		v.turn(at / int64(window))
		c = v.take(cost, limit, window, left)
		return left + window
	})
	return c
}

func (v *slide) turn(id int64) {
	switch id - v.id {
	case 0:
	case 1:
		v.id, v.last, v.current = id, v.current, 0
	default:
		v.id, v.last, v.current = id, 0, 0
	}
}

func (v *slide) take(cost, limit int64, window, left time.Duration) Count {
	accepted := below(v.current, v.last, limit, window, left)
	if accepted {
		v.current = add(v.current, cost)
	}
	return SlideCount(accepted, v.current, v.last, limit, window, left)
}

// below says whether a sliding window has room: current were counted in
// the present window, of which left is to come, and last in the one before.
func below(current, last, limit int64, window, left time.Duration) bool {
	return current < limit && estimate(last, limit, window, left)+float64(current) < float64(limit)
}

// estimate is how much of the window before counts still.
func estimate(last, limit int64, window, left time.Duration) float64 {
	return float64(min(last, limit)) * (float64(left) / float64(window))
}

// SlideCount words what was decided; current includes an accepted cost.
func SlideCount(accepted bool, current, last, limit int64, window, left time.Duration) Count {
	if accepted {
		room := math.Floor(float64(limit) - float64(current) - estimate(last, limit, window, left))
		return Count{OK: true, Remaining: max(int64(room), 0), Reset: roundUp(left)}
	}
	wait := left
	if last > 0 && current < limit {
		// The estimate falls by last per window, until it meets what is free.
		fall := float64(limit-current) / float64(min(last, limit)) * float64(window)
		wait = max(left-time.Duration(fall), 0)
	}
	return Count{Reset: max(roundUp(wait), unit)}
}

// unit is a hundredth of a second, in which times are told.
const unit = 10 * time.Millisecond

func roundUp(d time.Duration) time.Duration {
	return (d + unit - 1) / unit * unit
}

package limit

import "time"

// Concurrency counts what is under way.
type Concurrency struct{ *Table[int64] }

// NewConcurrency makes empty counters; Close ends them.
func NewConcurrency(clock func() time.Time) Concurrency {
	return Concurrency{NewTable[int64](clock)}
}

// Enter counts one more for key unless that are more than most then. n is how
// many are under way, this one included if ok.
func (c Concurrency) Enter(key []byte, most int64) (n int64, ok bool) {
	c.Do(key, func(v *int64, _ time.Duration) time.Duration {
		if ok = *v < most; ok {
			*v++
		}
		n = *v
		return kept(n)
	})
	return n, ok
}

// Leave ends what Enter has begun.
func (c Concurrency) Leave(key []byte) {
	c.Do(key, func(v *int64, _ time.Duration) time.Duration {
		*v = max(*v-1, 0)
		return kept(*v)
	})
}

// kept is how long a count matters. One that is back at 0 stays for a while:
// its key will come again.
func kept(n int64) time.Duration {
	if n > 0 {
		return Forever
	}
	return sweepPause
}

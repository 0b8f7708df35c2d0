package limit

import "time"

// Buckets are leaky buckets: each request adds one to its key's bucket, which
// leaks at a rate. What does not fit is refused and adds nothing. (The formula
// is that of nginx's limit_req.)
type Buckets struct{ *Table[bucket] }

type bucket struct {
	excess float64 // requests ahead of the rate
	last   time.Duration
	wet    bool
}

// NewBuckets makes empty buckets; Close ends them.
func NewBuckets(clock func() time.Time) Buckets { return Buckets{NewTable[bucket](clock)} }

// Add counts a request for key. rate is in requests per second and above 0;
// burst is how many may be ahead of it. wait is how long the request has to wait
// so that the rate is kept.
func (b Buckets) Add(key []byte, rate, burst float64) (wait time.Duration, ok bool) {
	b.Do(key, func(v *bucket, now time.Duration) time.Duration {
		excess := 0.0
		if v.wet {
			excess = max(v.excess-rate*(now-v.last).Seconds()+1, 0)
		}
		if ok = excess <= burst; ok {
			*v = bucket{excess, now, true}
			wait = seconds(excess / rate)
		}
		return seconds((v.excess+1)/rate) - (now - v.last)
	})
	return wait, ok
}

// seconds is s as a duration, bounded by what that can hold.
func seconds(s float64) time.Duration {
	const most = float64(Forever) / 2
	return time.Duration(min(s*float64(time.Second), most))
}

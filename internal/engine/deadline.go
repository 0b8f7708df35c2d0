package engine

import "time"

// A deadline is one direction's deadline of a connection. Setting a deadline
// costs a lock and a timer; here it is set a little later than asked, and set
// again only when what is left is less than asked.
type deadline struct {
	at  time.Time
	set func(time.Time) error
}

// slack is how much later than asked a deadline may strike.
func slack(d time.Duration) time.Duration { return min(d/10, time.Second) }

// extend makes the deadline strike after d and before d+slack(d) from now on.
func (l *deadline) extend(c *clock, d time.Duration) {
	if d <= 0 {
		l.clear()
		return
	}
	now := c.For(d)
	if d >= coarseFrom {
		d += tick // by which now may be behind
	}
	if left := l.at.Sub(now); left >= d && left <= d+slack(d) {
		return
	}
	l.at = now.Add(d + slack(d))
	l.set(l.at)
}

func (l *deadline) clear() {
	if !l.at.IsZero() {
		l.at = time.Time{}
		l.set(l.at)
	}
}

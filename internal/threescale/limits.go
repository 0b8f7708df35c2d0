package threescale

import (
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/plugin"
	"weir/internal/schema"
)

// limitsRoom is the memory of what is remembered of limits, in bytes (APIcast:
// shared memory rate_limit_headers).
const limitsRoom = 20 << 20

// A limit is how much the backend allows of what a request counts, as it last
// said.
type limit struct {
	max       int64
	remaining atomic.Int64
	until     time.Time // when it begins anew
}

// note remembers the limits of an answer, if somebody wants to show them.
func (r *Request) note(key []byte, a *Answer) {
	if r.ShowsLimits {
		r.asked.limits = r.Product.Runtime.noteLimits(key, a)
	}
}

// noteLimits returns nil where there is no limit.
func (rt *Runtime) noteLimits(key []byte, a *Answer) *limit {
	if a.LimitReset <= 0 {
		rt.limits.Delete(key)
		return nil
	}
	lasts := schema.Seconds(a.LimitReset)
	l := &limit{max: a.LimitMax, until: rt.Now().Add(lasts)}
	l.remaining.Store(a.LimitRemaining)
	rt.limits.Put(key, l, 64, lasts)
	return l
}

// ShowLimits tells the caller about the limits of what the request counts: those
// of the backend's answer, or what may be left of those that it last gave.
func (r *Request) ShowLimits(c *plugin.Ctx) {
	rt := r.Product.Runtime
	l := r.asked.limits
	if l == nil {
		if r.asked.key == "" {
			return
		}
		var stack [512]byte
		var ok bool
		if l, ok = rt.limits.Get(append(stack[:0], r.asked.key...)); !ok {
			return
		}
		l.remaining.Add(-1)
	}
	reset := int64(l.until.Sub(rt.Now()).Round(time.Second) / time.Second)
	if reset <= 0 {
		return
	}
	c.SetReplyHeader("RateLimit-Limit", number(c, l.max))
	c.SetReplyHeader("RateLimit-Remaining", number(c, l.remaining.Load()))
	c.SetReplyHeader("RateLimit-Reset", number(c, reset))
}

// number is n, or 0 if that is less.
func number(c *plugin.Ctx, n int64) string {
	var stack [20]byte
	return c.Keep(strconv.AppendInt(stack[:0], max(n, 0), 10))
}

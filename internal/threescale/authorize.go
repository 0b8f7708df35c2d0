package threescale

import (
	"encoding/binary"
	"slices"
	"strconv"

	"weir/internal/plugin"
)

// authorizationsRoom is the memory of what is remembered of authorizations, in
// bytes (APIcast: shared memory api_keys).
const authorizationsRoom = 30 << 20

// An authorization is how a request's came about.
type authorization struct {
	key     string // under which it is remembered; empty: nobody has looked
	pending bool   // it was remembered: the backend is told after the answer
	limits  *limit // of the backend's answer; nil: it was not asked, or there are none
}

// Reported says that what the request counts is told to the backend after the
// answer: what is added to Usage by then goes along.
func (r *Request) Reported() bool { return r.asked.pending }

// Allow asks for the request's authorization, the memory first and the backend
// then (apicast.md §4.3, §4.4). A Reply refuses.
func (k *Client) Allow(c *plugin.Ctx, r *Request) *plugin.Reply {
	var stack [512]byte
	key := r.appendKey(stack[:0], 'a')
	r.asked.key = c.Keep(key)
	mode := r.caching()
	if mode != CachingNone {
		if status, ok := k.rt.authorizations.Get(key); ok && status == 200 {
			r.asked.pending = true
			return nil
		}
	}
	a := k.AuthRep(r)
	r.note(key, &a)
	k.rt.remember(mode, key, a.Status)
	switch {
	case a.Status == 200:
		return nil
	case a.unavailable() && k.rt.allowed(key):
		return nil
	}
	return r.refuse(c, &a)
}

// refuse is the answer to what the backend has refused. A limit of nothing is a
// metric that is switched off, not one that is exceeded.
func (r *Request) refuse(c *plugin.Ctx, a *Answer) *plugin.Reply {
	p := r.Product
	if a.unavailable() || a.Reason != LimitsExceeded || a.nothing {
		return p.Failed
	}
	if a.LimitReset > 0 {
		c.SetReplyHeader("Retry-After", number(c, a.LimitReset))
	}
	return p.LimitsExceeded
}

// caching is how the backend's answers are kept.
func (r *Request) caching() Caching {
	if r.Caching != CachingDefault {
		return r.Caching
	}
	if r.Product.Runtime.Resilient {
		return CachingResilient
	}
	return CachingStrict
}

// remember keeps an answer of the backend in the way of mode (apicast.md §4.4).
func (rt *Runtime) remember(mode Caching, key []byte, status int) {
	answered := status > 0 && status < 500
	switch {
	case mode == CachingStrict && status != 200, mode == CachingNone:
		rt.authorizations.Delete(key)
	case answered:
		if was, ok := rt.authorizations.Get(key); !ok || int(was) != status {
			rt.authorizations.Put(key, int16(status), 0, 0)
		}
	case mode == CachingAllow:
		rt.authorizations.Add(key, 200, 0, 0)
	}
}

// allowed says that the last answer that is remembered was a yes.
func (rt *Runtime) allowed(key []byte) bool {
	status, ok := rt.authorizations.Get(key)
	return ok && status == 200
}

// appendKey appends what tells the request's authorization from others: whose
// products it is for, who asks, and for what. use tells keys of one use from
// those of another.
func (r *Request) appendKey(b []byte, use byte) []byte {
	b = appendField(append(b, use), r.Product.ID)
	if r.Token != nil && r.Product.Authentication == "oidc" {
		b = append(append(b, 't'), r.Token.sum[:]...)
	} else {
		c := &r.Credentials
		b = append(b, byte(c.has()))
		for _, v := range [...]string{c.UserKey, c.AppID, c.AppKey, c.AccessToken} {
			b = appendField(b, v)
		}
	}
	var stack [16]int
	for _, i := range r.Usage.sorted(stack[:0]) {
		b = appendField(b, r.Usage[i].Metric)
		b = binary.AppendVarint(b, r.Usage[i].Delta)
	}
	if use == 'a' {
		b = append(b, 0) // no metric is empty
		for _, e := range r.Extra {
			b = appendField(appendField(b, e.Name), e.Value)
		}
	}
	return b
}

// appendField appends a text so that it cannot run into the next.
func appendField(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// sorted appends the places of the metrics in their order.
func (u Usage) sorted(order []int) []int {
	for i := range u {
		at := len(order)
		for at > 0 && u[order[at-1]].Metric > u[i].Metric {
			at--
		}
		order = slices.Insert(order, at, i)
	}
	return order
}

// encoded is the usage as APIcast shows it in a debug header.
func (u Usage) encoded() string {
	var b []byte
	for n, i := range u.sorted(nil) {
		if n > 0 {
			b = append(b, '&')
		}
		b = appendArgument(b, "usage["+u[i].Metric+"]", "")
		b = strconv.AppendInt(b, u[i].Delta, 10)
	}
	return string(b)
}

// Package contentcaching keeps upstreams' answers and gives them again, as nginx's
// proxy_cache does in APIcast, in memory of a bounded size.
package contentcaching

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/threescale"
)

const name = "content_caching"

// Policy is content_caching. It runs after all others: what it keeps depends on
// where the request goes.
var Policy = plugin.Define(
	plugin.Meta{Name: name, Priority: -1, Doc: "Keeps answers of the upstream and gives them again while they are fresh (RFC 9111)."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Rules []Rule `json:"rules" doc:"What is kept. The first rule that keeps and whose condition holds decides; without one nothing is kept or given."`
}

// Rule is what is kept.
type Rule struct {
	Cache     bool                  `json:"cache" doc:"The rule keeps; one that does not is passed over."`
	Header    string                `json:"header" doc:"Header of answers that tells how the answer came about: HIT, MISS, EXPIRED, STALE, UPDATING."`
	Condition *threescale.Condition `json:"condition" doc:"Which requests are meant; default: all."`
}

// A rule is a compiled one.
type rule struct {
	test   threescale.Test
	header string // empty: none
}

// A policy is a compiled configuration.
type policy struct {
	rules   []rule
	rt      *threescale.Runtime
	product string
	store   *store
	counts  map[status]*meter.Series

	statuses []int
	valid    time.Duration
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	owner := threescale.ProductOf(env)
	p := &policy{rt: owner.Runtime, product: owner.ID, store: openStore(env), counts: map[status]*meter.Series{}}
	for i, r := range c.Rules {
		test, err := r.Condition.Compile()
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("rules[%d]: condition: %w", i, err)
		}
		if r.Cache && !test.Never() {
			p.rules = append(p.rules, rule{test, r.Header})
		}
	}
	if p.rules == nil {
		return plugin.Phases{}, nil
	}
	p.statuses, p.valid = p.rt.CacheStatusCodes, cmp.Or(p.rt.CacheMaxTime, time.Minute)
	if p.statuses == nil {
		p.statuses = []int{200, 302}
	}
	vec := p.rt.Meter.Vec(meter.Desc{Name: "content_caching", Help: "Content caching status", Labels: []string{"status"}})
	for _, s := range [...]status{hit, miss, expired, stale, updating} {
		if series, ok := vec.With(nil, string(s)); ok {
			p.counts[s] = series
		}
	}
	return plugin.Phases{Content: p.content, Header: p.head, Body: p.body, Log: p.end}, nil
}

// A status is how an answer came about, in nginx's words.
type status string

const (
	hit      status = "HIT"
	miss     status = "MISS"
	expired  status = "EXPIRED"
	stale    status = "STALE"
	updating status = "UPDATING"
)

// A visit is a request that may be answered out of the store.
type visit struct {
	rule    *rule
	status  status
	key     []byte    // of the store
	old     *response // what the store has, if that is not fresh; nil: nothing
	given   *response // what the client gets out of the store; nil: the upstream's
	wants   wants     // what the client asks of an answer
	record  *recorder // nil: the answer is not kept
	updates bool      // it replaces old
}

var visits = sync.Pool{New: func() any { return new(visit) }}

// content answers out of the store, or has the answer kept. It runs when it is
// known where the request goes.
func (p *policy) content(c *plugin.Ctx) *plugin.Reply {
	method := c.Request.Method
	if c.To.Upstream == nil || c.To.Websocket || method != "GET" && method != "HEAD" || c.Request.Length != 0 {
		return nil
	}
	i := slices.IndexFunc(p.rules, func(r rule) bool { return r.test.Holds(c) })
	if i < 0 {
		return nil
	}
	wants, ok := wantsOf(&c.Request.Header)
	if !ok {
		return nil
	}
	v := visits.Get().(*visit)
	*v = visit{rule: &p.rules[i], status: miss, wants: wants, key: p.appendKey(v.key[:0], c)}
	c.SetState(p, v)
	now := p.rt.Now()
	e := p.store.find(v.key, &c.Request.Header)
	switch {
	case e == nil:
	case now.Before(e.fresh):
		v.status, v.given = hit, e
	default:
		v.status, v.old, v.updates = expired, e, e.begin()
		if !v.updates && now.Before(e.whileUpdating) {
			v.status, v.given = updating, e
		}
	}
	if v.given != nil {
		return v.given.reply(&v.wants, method)
	}
	// The upstream is asked for all of it, to be kept.
	wants.clear(&c.Request.Header)
	if method == "HEAD" {
		c.To.Method = "GET"
	}
	return nil
}

// appendKey appends what tells answers apart (APIcast's proxy_cache_key).
func (p *policy) appendKey(dst []byte, c *plugin.Ctx) []byte {
	r := threescale.Of(c)
	u := cmp.Or(r.Upstream, r.Product.Upstream)
	parts := [...]string{c.Scheme, c.Request.Method, "", "", c.Request.Target, p.product}
	if u != nil {
		parts[2], parts[3] = u.Scheme, u.Header
	}
	for _, s := range parts {
		dst = append(append(dst, s...), 0)
	}
	return dst
}

// head notes the status in the answer, and decides whether the answer is kept.
func (p *policy) head(c *plugin.Ctx) {
	v, _ := c.State(p).(*visit)
	if v == nil {
		return
	}
	now := p.rt.Now()
	if v.given == nil && v.old != nil && now.Before(v.old.onError) && failing(c) {
		v.status, v.given = stale, v.old
		v.old.replace(c.Response)
	}
	if v.given != nil {
		v.given.dress(c, now)
	} else if c.Sent.Source == plugin.FromUpstream {
		v.record = p.recorder(c, v, now)
		if v.record != nil && v.wants.unchanged(v.record.made) {
			c.Response.Status, c.Response.Reason = 304, ""
		}
	}
	if v.rule.header != "" {
		c.Response.Header.Set(v.rule.header, string(v.status))
	}
	if s := p.counts[v.status]; s != nil {
		s.Add(1)
	}
}

// failing says that the upstream failed, so that something stale is better
// (RFC 5861 §4).
func failing(c *plugin.Ctx) bool {
	switch c.Sent.Source {
	case plugin.FromProxy:
		return c.Response.Status >= 502
	case plugin.FromUpstream:
		s := original(c)
		return s == 500 || 502 <= s && s <= 504
	}
	return false
}

// original is the status that the upstream has answered.
func original(c *plugin.Ctx) int {
	if n := len(c.Sent.Tries); n > 0 {
		return c.Sent.Tries[n-1].Status
	}
	return c.Response.Status
}

// body keeps the body, or replaces that of a failure.
func (p *policy) body(c *plugin.Ctx) plugin.BodyFilter {
	v, _ := c.State(p).(*visit)
	switch {
	case v == nil:
	case v.status == stale:
		return &instead{body: v.given.body}
	case v.record != nil:
		return v.record
	}
	return nil
}

// end lets others update what this request has not.
func (p *policy) end(c *plugin.Ctx) {
	v, _ := c.State(p).(*visit)
	if v == nil {
		return
	}
	if v.updates {
		v.old.ended()
	}
	c.SetState(p, nil)
	*v = visit{key: v.key}
	visits.Put(v)
}

// Package ratelimit holds requests to limits: of how many are under way, of their
// rate, and of how many there are in a window of time. A request counts on all
// limits that concern it, or, if one of them is reached, on none.
package ratelimit

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

const name = "rate_limit"

// Policy is rate_limit.
var Policy = plugin.Define(
	plugin.Meta{Name: name, Guard: true, Doc: "Limits how many requests are under way, their rate, and their number in windows of time."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Connections []Connections `json:"connection_limiters" doc:"Limits of requests that are under way at once."`
	Buckets     []Bucket      `json:"leaky_bucket_limiters" doc:"Limits of the rate."`
	Windows     []Window      `json:"fixed_window_limiters" doc:"Limits of the number in a window of time."`
	RedisURL    string        `json:"redis_url" schema:"secret" doc:"Redis to count in, as redis://[user:password@]host:port/database; empty: the process counts for itself."`
	Exceeded    OnError       `json:"limits_exceeded_error" doc:"What becomes of requests above a limit; status 429, if none is given."`
	Fault       OnError       `json:"configuration_error" doc:"What becomes of requests that cannot be counted; status 500, if none is given."`
}

// OnError is what becomes of a request.
type OnError struct {
	Status   threescale.Whole `json:"status_code" doc:"Status of the answer."`
	Handling string           `json:"error_handling" schema:"default=exit,enum=exit|log" doc:"exit: the request is answered with the status. log: it passes."`
}

// Key is what requests are told apart by.
type Key struct {
	Name  string `json:"name" schema:"required" doc:"Name of the key."`
	Type  string `json:"name_type" schema:"default=plain,enum=plain|liquid" doc:"How the name is evaluated."`
	Scope string `json:"scope" schema:"default=service,enum=service|global" doc:"service: the product's own counters. global: those of all products."`
}

// Connections limits how many requests are under way.
type Connections struct {
	Key       Key                   `json:"key" schema:"required" doc:"What requests are told apart by."`
	Condition *threescale.Condition `json:"condition" doc:"Which requests are meant; default: all."`
	Conn      threescale.Whole      `json:"conn" schema:"required" doc:"Requests that need not wait."`
	Burst     threescale.Whole      `json:"burst" doc:"Requests beyond those that are admitted after a delay."`
	Delay     threescale.Number     `json:"delay" doc:"Seconds to wait for each conn requests ahead."`
}

// Bucket limits the rate.
type Bucket struct {
	Key       Key                   `json:"key" schema:"required" doc:"What requests are told apart by."`
	Condition *threescale.Condition `json:"condition" doc:"Which requests are meant; default: all."`
	Rate      threescale.Number     `json:"rate" schema:"required" doc:"Requests per second."`
	Burst     threescale.Number     `json:"burst" doc:"Requests ahead of the rate that are admitted, so late that it is kept."`
}

// Window limits the number in a window of time.
type Window struct {
	Key       Key                   `json:"key" schema:"required" doc:"What requests are told apart by."`
	Condition *threescale.Condition `json:"condition" doc:"Which requests are meant; default: all."`
	Count     threescale.Whole      `json:"count" schema:"required" doc:"Requests in a window."`
	Window    threescale.Whole      `json:"window" doc:"Length of the window in seconds; 0, or none: 1."`
}

// limits are the compiled policy.
type limits struct {
	all         []*limiter
	connections bool // one of them counts what is under way
	store       store
	env         plugin.Env
	said        threescale.Seldom

	exceeded, fault *plugin.Reply // nil: the request passes
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	l := &limits{env: env, connections: len(c.Connections) > 0}
	var err error
	if l.exceeded, err = c.Exceeded.reply(429); err != nil {
		return plugin.Phases{}, fmt.Errorf("limits_exceeded_error: %w", err)
	}
	if l.fault, err = c.Fault.reply(500); err != nil {
		return plugin.Phases{}, fmt.Errorf("configuration_error: %w", err)
	}
	if l.all, err = c.limiters(threescale.ProductOf(env).ID); err != nil {
		return plugin.Phases{}, err
	}
	if len(l.all) == 0 {
		return plugin.Phases{}, nil
	}
	if c.RedisURL == "" {
		l.store = openLocal(env)
	} else if l.store, err = openRedis(env, c.RedisURL); err != nil {
		env.Log.Error("rate_limit cannot count", "owner", env.Owner, "err", err)
		l.store = broken{err}
	}
	p := plugin.Phases{Access: l.enter}
	if l.connections {
		p.Log = l.leave
	}
	return p, nil
}

// reply is the answer; nil: there is none.
func (o *OnError) reply(status int) (*plugin.Reply, error) {
	if o.Status != 0 {
		status = int(o.Status)
	}
	if status < 200 || status > 599 {
		return nil, fmt.Errorf("status_code %d is none of an answer", status)
	}
	if o.Handling == "log" {
		return nil, nil
	}
	return &plugin.Reply{Status: status}, nil
}

// enter counts a request.
func (l *limits) enter(c *plugin.Ctx) *plugin.Reply {
	v := visits.Get().(*visit)
	v.begin(l, c)
	if len(v.limiters) == 0 {
		v.end()
		return nil
	}
	wait, ok, err := l.store.enter(v)
	if err != nil || !ok || !l.connections {
		v.end()
	} else {
		c.SetState(l, v)
	}
	switch {
	case err != nil:
		if l.said.Ready(l.env.Now()) {
			l.env.Log.Error("failed to limit traffic", "owner", l.env.Owner, "err", err)
		}
		return l.fault
	case !ok:
		if l.said.Ready(l.env.Now()) {
			l.env.Log.Warn("Requests over the limit.", "owner", l.env.Owner)
		}
		return l.exceeded
	case wait >= time.Millisecond && !c.Pause(wait):
		return gone
	}
	return nil
}

// gone is the answer that nobody waits for.
var gone = &plugin.Reply{Status: 499}

// leave ends what enter has begun.
func (l *limits) leave(c *plugin.Ctx) {
	v, _ := c.State(l).(*visit)
	if v == nil {
		return
	}
	c.SetState(l, nil)
	for i, m := range v.limiters {
		if m.kind != connections {
			continue
		}
		if err := l.store.leave(v.key(i)); err != nil && l.said.Ready(l.env.Now()) {
			l.env.Log.Error("failed to record the connection leaving request", "owner", l.env.Owner, "err", err)
		}
	}
	v.end()
}

// A visit is a request with the limiters that concern it and its keys.
type visit struct {
	limiters []*limiter
	ends     []int // of the keys
	keys     []byte
}

var visits = sync.Pool{New: func() any { return new(visit) }}

func (v *visit) begin(l *limits, c *plugin.Ctx) {
	for _, m := range l.all {
		if !m.test.Holds(c) {
			continue
		}
		v.keys = m.appendKey(v.keys, c, l.env.Now)
		v.ends = append(v.ends, len(v.keys))
		v.limiters = append(v.limiters, m)
	}
}

func (v *visit) key(i int) []byte {
	from := 0
	if i > 0 {
		from = v.ends[i-1]
	}
	return v.keys[from:v.ends[i]:v.ends[i]]
}

func (v *visit) end() {
	v.limiters, v.ends, v.keys = v.limiters[:0], v.ends[:0], v.keys[:0]
	visits.Put(v)
}

// A store counts.
type store interface {
	// enter counts a request on all of its limiters, or, if ok is false, on none.
	// wait is how long it has to be delayed.
	enter(v *visit) (wait time.Duration, ok bool, err error)
	// leave ends what a limiter of connections has counted. It does not block.
	leave(key []byte) error
}

// broken is a store that cannot count.
type broken struct{ err error }

func (b broken) enter(*visit) (time.Duration, bool, error) { return 0, false, b.err }

func (broken) leave([]byte) error { return nil }

var errBusy = errors.New("too much waits to be told to Redis")

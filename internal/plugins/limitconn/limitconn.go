// Package limitconn bounds how many requests of a key are under way at once.
package limitconn

import (
	"fmt"
	"time"

	"weir/internal/plugin"
	"weir/internal/quota"
	"weir/internal/redisclient"
	"weir/internal/schema"
)

const name = "limit-conn"

// Plugin is limit-conn as in APISIX.
var Plugin = plugin.Define(meta, compile)

// meta is immutable.
var meta = plugin.Meta{
	Name:     name,
	Priority: 1003,
	Guard:    true,
	Doc:      "Bounds how many requests per key are under way at once: some more wait, the others are refused.",
}

// Config is the configuration on a route.
type Config struct {
	Conn                *quota.Positive `json:"conn" doc:"Requests under way that need not wait; a number or a template that gives one."`
	Burst               *quota.Natural  `json:"burst" doc:"Requests beyond conn that are admitted after waiting; a number or a template that gives one."`
	DefaultConnDelay    float64         `json:"default_conn_delay" schema:"exclusiveMin=0" doc:"Seconds that a request usually takes: so long waits a request for every conn ahead of it. Adapts to what requests really take."`
	OnlyUseDefaultDelay bool            `json:"only_use_default_delay" schema:"default=false" doc:"default_conn_delay does not adapt."`
	Key                 string          `json:"key" doc:"What tells callers apart, read as key_type says. The client's address stands in for an absent value."`
	KeyType             string          `json:"key_type" schema:"default=var,enum=var|var_combination" doc:"var: key is a variable's name. var_combination: a template."`
	Policy              string          `json:"policy" schema:"default=local,enum=redis|redis-cluster|local" doc:"Where requests are counted: in this process or in Redis."`
	RejectedCode        int             `json:"rejected_code" schema:"default=503,min=200,max=599" doc:"Status of a refused request."`
	RejectedMsg         string          `json:"rejected_msg" schema:"minLen=1" doc:"Message of a refused request, as error_msg in a JSON object."`
	AllowDegradation    bool            `json:"allow_degradation" schema:"default=false" doc:"Admit requests that cannot be counted, instead of answering 500."`
	Rules               []Rule          `json:"rules" doc:"Several limits at once, each with a key of its own, instead of conn, burst and key."`

	KeyTTL int `json:"key_ttl" schema:"elsewhere"`
	redisclient.Config
}

// A Rule is one of several limits.
type Rule struct {
	Conn  *quota.Positive `json:"conn" schema:"required" doc:"Requests under way that need not wait."`
	Burst *quota.Natural  `json:"burst" schema:"required" doc:"Requests beyond conn that are admitted after waiting."`
	Key   string          `json:"key" schema:"required" doc:"Template of the key; a rule none of whose variables has a value does not apply."`
}

// Constraints are APISIX's.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{
		schema.ExactlyOne([]string{"conn", "burst", "default_conn_delay", "key"}, []string{"default_conn_delay", "rules"}),
		redisclient.Branches(false, `, "key_ttl": {"type": "integer", "default": 3600}`),
	}
}

// A limiter counts as one configuration says.
type limiter struct {
	env       plugin.Env
	rules     []rule
	single    bool // no rules: the one always applies
	store     store
	delay     *delay
	complaint *quota.Complaint

	refused, failed, gone *plugin.Reply
}

// A rule is one limit.
type rule struct {
	conn   *quota.Positive
	burst  *quota.Natural
	key    quota.Key
	prefix string
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	prefix := quota.Prefix(env)
	l := &limiter{
		env: env, single: c.Rules == nil, complaint: quota.NewComplaint(env, name),
		refused: quota.Refusal(c.RejectedCode, c.RejectedMsg), gone: &plugin.Reply{Status: 499},
	}
	if !c.AllowDegradation {
		l.failed = &plugin.Reply{Status: 500}
	}
	if err := l.compileRules(c, prefix); err != nil {
		return plugin.Phases{}, err
	}
	l.store = openStore(c, env)
	l.delay = plugin.Keep(env, name+" delay "+prefix, func() *delay {
		return newDelay(c.DefaultConnDelay, c.OnlyUseDefaultDelay)
	})
	return plugin.Phases{Access: l.enter, Log: l.leave}, nil
}

func (l *limiter) compileRules(c *Config, prefix string) error {
	rules, keyType := c.Rules, quota.Combination
	if l.single {
		rules, keyType = []Rule{{Conn: c.Conn, Burst: c.Burst, Key: c.Key}}, c.KeyType
	}
	for i, given := range rules {
		key, err := quota.NewKey(given.Key, keyType)
		if err != nil {
			return fmt.Errorf("key %q: %w", given.Key, err)
		}
		r := rule{conn: given.Conn, burst: given.Burst, key: key, prefix: prefix}
		if !l.single {
			r.prefix += fmt.Sprint(i+1, ":")
		}
		l.rules = append(l.rules, r)
	}
	return nil
}

// enter counts the request under every rule that applies.
func (l *limiter) enter(c *plugin.Ctx) *plugin.Reply {
	s := newSlots()
	c.SetState(l, s)
	applied := false
	for i := range l.rules {
		r := &l.rules[i]
		conn, burst, err := r.amounts(c)
		if err != nil {
			l.complaint.Make("failed to get limit conn rules", err)
			continue
		}
		held := s.next()
		held.key = append(held.key[:0], r.prefix...)
		if l.single {
			held.key = r.key.Append(held.key, c)
		} else {
			var n int
			if held.key, n = r.key.Resolve(held.key, c); n == 0 {
				continue
			}
		}
		applied = true
		if reply := l.admit(c, s, held, conn, burst); reply != nil {
			return reply
		}
	}
	if !applied {
		l.complaint.Make("no limit conn rule applies", nil)
		return l.failed
	}
	return nil
}

func (r *rule) amounts(c *plugin.Ctx) (conn, burst int64, err error) {
	if conn, err = r.conn.Value(c); err != nil {
		return 0, 0, fmt.Errorf("conn: %w", err)
	}
	if burst, err = r.burst.Value(c); err != nil {
		return 0, 0, fmt.Errorf("burst: %w", err)
	}
	return conn, burst, nil
}

// admit counts the request under one rule and has it wait if it must.
func (l *limiter) admit(c *plugin.Ctx, s *slots, held *slot, conn, burst int64) *plugin.Reply {
	n, ok, err := l.store.enter(held, conn+burst)
	switch {
	case err != nil:
		l.complaint.Make("failed to limit conn", err)
		return l.failed
	case !ok:
		return l.refused
	}
	s.n++
	if n <= conn {
		return nil
	}
	held.wait = l.delay.times((n - 1) / conn)
	if held.wait >= time.Millisecond && !c.Pause(held.wait) {
		return l.gone
	}
	return nil
}

// leave ends what enter has begun.
func (l *limiter) leave(c *plugin.Ctx) {
	s, _ := c.State(l).(*slots)
	if s == nil {
		return
	}
	c.SetState(l, nil)
	for i := range s.list[:s.n] {
		held := &s.list[i]
		l.store.leave(held)
		l.delay.learn(took(c, held.wait))
	}
	s.free()
}

// took is how long the request occupied its upstream, or else the gateway.
func took(c *plugin.Ctx, waited time.Duration) time.Duration {
	if n := len(c.Sent.Tries); n > 0 {
		return c.Sent.Tries[n-1].Total
	}
	if c.Sent.End.IsZero() {
		return 0
	}
	return c.Sent.End.Sub(c.Start) - waited
}

// Package apibreaker spares upstreams that fail.
package apibreaker

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/internal/expr"
	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

const name = "api-breaker"

// Plugin is api-breaker as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 1005,
		Doc:      "Answers in place of an upstream that has failed repeatedly, for a time that doubles with every failure.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Code    int      `json:"break_response_code" schema:"required,min=200,max=599" doc:"Status of the answer in place of the upstream's."`
	Body    *string  `json:"break_response_body" doc:"Its body."`
	Headers []Header `json:"break_response_headers" doc:"Its headers; sent only with a body."`
	Max     int      `json:"max_breaker_sec" schema:"min=3,default=300" doc:"Longest time in seconds for which the upstream is spared."`

	Unhealthy Unhealthy `json:"unhealthy" schema:"default={\"http_statuses\":[500],\"failures\":3}" doc:"What fails."`
	Healthy   Healthy   `json:"healthy" schema:"default={\"http_statuses\":[200],\"successes\":3}" doc:"What shows that all is well again."`
}

// A Header is one header of the answer.
type Header struct {
	Key   string `json:"key" schema:"required,minLen=1" doc:"Its name."`
	Value string `json:"value" schema:"required,minLen=1" doc:"Template of its value."`
}

// Unhealthy says what fails.
type Unhealthy struct {
	Statuses []int `json:"http_statuses" schema:"minItems=1,unique,each.min=500,each.max=599,default=[500]" doc:"Statuses of the upstream that are failures."`
	Failures int   `json:"failures" schema:"min=1,default=3" doc:"So many failures, and every so many further ones, open the breaker."`
}

// Healthy says what does not fail.
type Healthy struct {
	Statuses  []int `json:"http_statuses" schema:"minItems=1,unique,each.min=200,each.max=499,default=[200]" doc:"Statuses of the upstream that are successes."`
	Successes int   `json:"successes" schema:"min=1,default=3" doc:"So many successes, without a failure between them, make failures forgotten."`
}

// A record is what is known of one host and path.
type record struct {
	failures, successes int
	open                bool
	tripped             time.Duration // when the breaker opened last
	end                 time.Duration // when all this is forgotten
}

// idle is for how long a record without news is kept, at least.
const idle = 10 * time.Minute

// A breaker is one configuration. The records belong to all of them.
type breaker struct {
	conf    *Config
	records *limit.Table[record]
	most    time.Duration
	keep    time.Duration
	answer  *plugin.Reply
	values  []*expr.Template // of the headers; nil: they are fixed
	host    expr.Var
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	b := &breaker{
		conf: c,
		records: plugin.Lasting(env, name, func() *limit.Table[record] {
			return limit.NewTable[record](env.Now)
		}),
		most: schema.Seconds(c.Max),
	}
	b.keep = max(idle, 2*b.most)
	var err error
	if b.host, err = expr.Lookup("host"); err != nil {
		return plugin.Phases{}, err
	}
	if err := b.compileAnswer(); err != nil {
		return plugin.Phases{}, err
	}
	return plugin.Phases{Access: b.access, Log: b.log}, nil
}

func (b *breaker) compileAnswer() error {
	b.answer = &plugin.Reply{Status: b.conf.Code}
	if b.conf.Body == nil {
		return nil
	}
	b.answer.Body = []byte(*b.conf.Body)
	for _, h := range b.conf.Headers {
		t, err := expr.Parse(h.Value)
		if err != nil {
			return fmt.Errorf("break_response_headers: %s: %w", h.Key, err)
		}
		if wire.EqualFold(h.Key, "Content-Type") { // there is one, the last
			b.drop(h.Key)
		}
		b.answer.Header = append(b.answer.Header, [2]string{h.Key, h.Value})
		b.values = append(b.values, t)
	}
	if !slices.ContainsFunc(b.values, func(t *expr.Template) bool { return !t.Fixed() }) {
		b.values = nil
	}
	return nil
}

// drop removes a header from the answer.
func (b *breaker) drop(key string) {
	for i, h := range b.answer.Header {
		if wire.EqualFold(h[0], key) {
			b.answer.Header = slices.Delete(b.answer.Header, i, i+1)
			b.values = slices.Delete(b.values, i, i+1)
			return
		}
	}
}

// reply is the answer with the request's own header values.
func (b *breaker) reply(c *plugin.Ctx) *plugin.Reply {
	if b.values == nil {
		return b.answer
	}
	r := &plugin.Reply{Status: b.answer.Status, Body: b.answer.Body, Header: slices.Clone(b.answer.Header)}
	for i, t := range b.values {
		r.Header[i][1] = t.Value(c)
	}
	return r
}

// access answers while the breaker of the request's host and path is open.
func (b *breaker) access(c *plugin.Ctx) *plugin.Reply {
	open := false
	b.do(c, func(r *record, now time.Duration) time.Duration {
		open = r.open && now-r.tripped <= b.pause(r)
		return r.end - now
	})
	if open {
		return b.reply(c)
	}
	return nil
}

// pause is for how long the breaker stays open: 2, 4, 8… seconds.
func (b *breaker) pause(r *record) time.Duration {
	const largest = 32
	times := min(max(r.failures/b.conf.Unhealthy.Failures, 1), largest)
	return min(time.Second<<times, b.most)
}

// log notes what the upstream answered, if it was asked.
func (b *breaker) log(c *plugin.Ctx) {
	if len(c.Sent.Tries) == 0 {
		return
	}
	status := c.Sent.Tries[len(c.Sent.Tries)-1].Status
	failed := slices.Contains(b.conf.Unhealthy.Statuses, status)
	if !failed && !slices.Contains(b.conf.Healthy.Statuses, status) {
		return
	}
	b.do(c, func(r *record, now time.Duration) time.Duration {
		switch {
		case failed:
			r.successes = 0
			r.failures++
			if r.failures%b.conf.Unhealthy.Failures == 0 {
				r.open, r.tripped = true, now
			}
		case r.failures == 0:
			return 0
		default:
			r.successes++
			if r.successes >= b.conf.Healthy.Successes {
				return 0
			}
		}
		r.end = now + b.keep
		return b.keep
	})
}

var keys = sync.Pool{New: func() any { return new([]byte) }}

// do calls f with the record of the request's host and path.
func (b *breaker) do(c *plugin.Ctx, f func(r *record, now time.Duration) time.Duration) {
	key := keys.Get().(*[]byte)
	defer keys.Put(key)
	*key, _ = b.host.Append((*key)[:0], c)
	*key = append(*key, c.Path...)
	b.records.Do(*key, f)
}

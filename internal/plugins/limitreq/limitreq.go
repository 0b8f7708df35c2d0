// Package limitreq holds requests to a rate, by a leaky bucket per key.
package limitreq

import (
	"strconv"
	"sync"
	"time"

	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/quota"
	"weir/internal/redisclient"
	"weir/internal/schema"
)

const name = "limit-req"

// Plugin is limit-req as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 1001,
		Guard:    true,
		Doc:      "Holds requests to a rate per key, by a leaky bucket: early ones wait, too early ones are refused.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Rate    float64 `json:"rate" schema:"required,exclusiveMin=0" doc:"Requests per second."`
	Burst   float64 `json:"burst" schema:"required,min=0" doc:"Requests that may be ahead of the rate; they wait, unless nodelay. More are refused."`
	Key     string  `json:"key" schema:"required" doc:"What tells callers apart, read as key_type says. The client's address stands in for an absent value."`
	KeyType string  `json:"key_type" schema:"default=var,enum=var|var_combination" doc:"var: key is a variable's name. var_combination: a template."`
	Policy  string  `json:"policy" schema:"default=local,enum=redis|redis-cluster|local" doc:"Where the buckets are: in this process or in Redis."`

	RejectedCode     int    `json:"rejected_code" schema:"default=503,min=200,max=599" doc:"Status of a refused request."`
	RejectedMsg      string `json:"rejected_msg" schema:"minLen=1" doc:"Message of a refused request, as error_msg in a JSON object."`
	NoDelay          bool   `json:"nodelay" schema:"default=false" doc:"Requests within burst do not wait."`
	AllowDegradation bool   `json:"allow_degradation" schema:"default=false" doc:"Admit requests that cannot be counted, instead of answering 500."`

	redisclient.Config
}

// Constraints are APISIX's.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{redisclient.Branches(false, "")}
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	key, err := quota.NewKey(c.Key, c.KeyType)
	if err != nil {
		return plugin.Phases{}, err
	}
	refused := quota.Refusal(c.RejectedCode, c.RejectedMsg)
	var failed *plugin.Reply
	if !c.AllowDegradation {
		failed = &plugin.Reply{Status: 500}
	}
	gone := &plugin.Reply{Status: 499}
	prefix, add := quota.Prefix(env), adder(c, env)
	complaint := quota.NewComplaint(env, name)

	access := func(r *plugin.Ctx) *plugin.Reply {
		b := keys.Get().(*[]byte)
		*b = key.Append(append((*b)[:0], prefix...), r)
		wait, ok, err := add(*b)
		keys.Put(b)
		switch {
		case err != nil:
			complaint.Make("failed to limit req", err)
			return failed
		case !ok:
			return refused
		case wait >= time.Millisecond && !c.NoDelay && !r.Pause(wait):
			return gone
		}
		return nil
	}
	return plugin.Phases{Access: access}, nil
}

// keys hold keys while they are made.
var keys = sync.Pool{New: func() any { return new([]byte) }}

// adder returns what adds a request to its key's bucket.
func adder(c *Config, env plugin.Env) func(key []byte) (wait time.Duration, ok bool, err error) {
	if c.Policy == "local" {
		buckets := plugin.Lasting(env, name, func() limit.Buckets { return limit.NewBuckets(env.Now) })
		return func(key []byte) (time.Duration, bool, error) {
			wait, ok := buckets.Add(key, c.Rate, c.Burst)
			return wait, ok, nil
		}
	}
	client := redisclient.Open(env, c.Policy, &c.Config, nil)
	args := []any{number(c.Rate), number(c.Burst)}
	return func(key []byte) (time.Duration, bool, error) {
		got, err := client.Run(redisclient.Call{Script: script, Key: "limit_req:" + string(key), Args: args})
		if err != nil || len(got) != 2 {
			return 0, false, err
		}
		return time.Duration(got[1]) * time.Microsecond, got[0] == 1, nil
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// script keeps a bucket as a hash: the requests ahead of the rate and when that
// was, in milliseconds of Redis' own clock. Arguments: rate, burst.
var script = redisclient.NewScript(`
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + clock[2] / 1000
local was = redis.call('HMGET', KEYS[1], 'excess', 'last')
local excess = 0
if was[1] and was[2] then
  excess = math.max(was[1] - rate * math.max(now - was[2], 0) / 1000 + 1, 0)
  if excess > burst then
    return {0, 0}
  end
end
redis.call('HSET', KEYS[1], 'excess', string.format('%.6f', excess), 'last', string.format('%.3f', now))
redis.call('EXPIRE', KEYS[1], string.format('%.0f', math.min(math.ceil((excess + 1) / rate) + 1, 1e9)))
return {1, math.min(math.floor(excess / rate * 1e6), 1e15)}`)

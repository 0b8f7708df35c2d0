package quota

import (
	"time"

	"weir/internal/limit"
	"weir/internal/plugin"
	"weir/internal/redisclient"
	"weir/internal/schema"
)

// A store counts. Asking with cost 0 counts nothing.
type store interface {
	take(key []byte, cost, most int64, window time.Duration) (limit.Count, error)
}

// openStore is where a configuration's requests are counted.
func openStore(env plugin.Env, name string, c *Config) store {
	local := openLocal(env, name, c.WindowType == "sliding")
	if c.Policy == "local" {
		return local
	}
	client := redisclient.Open(env, c.Policy, &c.Config, &c.SentinelConfig)
	r := &remote{client: client, prefix: "plugin-" + name + ":v1:", sliding: c.WindowType == "sliding"}
	if c.SyncInterval == noSync {
		return r
	}
	interval := schema.Seconds(c.SyncInterval)
	return plugin.Keep(env, name+" sync "+Prefix(env)+c.Group, func() *syncer {
		return newSyncer(env, r, local, interval)
	})
}

// openLocal counts in this process. All configurations of a plugin share the
// counters, so that they outlive each of them.
func openLocal(env plugin.Env, name string, slides bool) store {
	if slides {
		return sliding{plugin.Lasting(env, name+" sliding", func() limit.Sliding { return limit.NewSliding(env.Now) })}
	}
	return fixed{plugin.Lasting(env, name+" fixed", func() limit.Fixed { return limit.NewFixed(env.Now) })}
}

type fixed struct{ limit.Fixed }

func (f fixed) take(key []byte, cost, most int64, window time.Duration) (limit.Count, error) {
	return f.Take(key, cost, most, window), nil
}

type sliding struct{ limit.Sliding }

func (s sliding) take(key []byte, cost, most int64, window time.Duration) (limit.Count, error) {
	return s.Take(key, cost, most, window), nil
}

// remote counts in Redis.
type remote struct {
	client  *redisclient.Client
	prefix  string
	sliding bool
}

// The counter of a fixed window is a number under its key, which expires with
// the window. Arguments: cost, window in milliseconds.
const fixedSource = `
local used = redis.call('INCRBY', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  left = tonumber(ARGV[2])
  redis.call('PEXPIRE', KEYS[1], left)
end
return {used, left}`

// The counters of a sliding window are a hash: the number of the present
// window, its count and that of the window before. The clock is that of Redis,
// the same for all who count there. Arguments: cost, limit, window in
// milliseconds, 1 to count what is above the limit, too.
const slidingSource = `
local cost, limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local id, left = math.floor(now / window), window - now % window
local n, last = 0, 0
local was = redis.call('HMGET', KEYS[1], 'id', 'n', 'last')
if was[1] then
  local turns = id - was[1]
  if turns == 0 then
    n, last = tonumber(was[2]), tonumber(was[3])
  elseif turns == 1 then
    last = tonumber(was[2])
  end
end
local ok = ARGV[4] == '1' or n < limit and math.min(last, limit) * left / window + n < limit
if ok and cost > 0 then
  n = n + cost
  redis.call('HSET', KEYS[1], 'id', string.format('%.0f', id), 'n', string.format('%.0f', n), 'last', string.format('%.0f', last))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left + window))
end
return {ok and 1 or 0, n, last, left}`

var (
	fixedScript   = redisclient.NewScript(fixedSource)
	slidingScript = redisclient.NewScript(slidingSource)
)

func (r *remote) take(key []byte, cost, most int64, window time.Duration) (limit.Count, error) {
	values, err := r.client.Run(r.call(key, cost, most, window, 0))
	return r.count(redisclient.Result{Values: values, Err: err}, most, window)
}

// call is the script that counts; always 1: also above the limit.
func (r *remote) call(key []byte, cost, most int64, window time.Duration, always int) redisclient.Call {
	if r.sliding {
		return redisclient.Call{
			Script: slidingScript, Key: r.prefix + "sliding:" + string(key),
			Args: []any{cost, most, window.Milliseconds(), always},
		}
	}
	return redisclient.Call{Script: fixedScript, Key: r.prefix + string(key), Args: []any{cost, window.Milliseconds()}}
}

// count reads what the script returned.
func (r *remote) count(got redisclient.Result, most int64, window time.Duration) (limit.Count, error) {
	v := got.Values
	switch {
	case got.Err != nil:
		return limit.Count{}, got.Err
	case r.sliding && len(v) == 4:
		return limit.SlideCount(v[0] == 1, v[1], v[2], most, window, schema.Milliseconds(v[3])), nil
	case !r.sliding && len(v) == 2:
		return limit.Count{
			OK: v[0] <= most, Remaining: max(most-v[0], 0), Reset: schema.Milliseconds(v[1]),
		}, nil
	}
	return limit.Count{}, errReply
}

package ratelimit

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/plugin"
	"weir/internal/redisclient"
)

// A remote store counts in Redis, with APIcast's keys.
type remote struct{ *redisclient.Client }

// Of each call and of connections; APIcast's.
const (
	timeout = 3000  // milliseconds
	idle    = 10000 // milliseconds
)

func openRedis(env plugin.Env, raw string) (remote, error) {
	c, err := redisConfig(raw)
	if err != nil {
		return remote{}, fmt.Errorf("redis_url: %w", err)
	}
	return remote{redisclient.Open(env, redisclient.Single, c, nil)}, nil
}

// redisConfig reads the URL of a Redis. A user without a password is the password.
func redisConfig(raw string) (*redisclient.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
		return nil, errors.New("it is not the redis URL of a host") // it may hold a password
	}
	c := &redisclient.Config{
		Host: u.Hostname(), Port: 6379, TLS: u.Scheme == "rediss", Verify: true,
		Timeout: timeout, KeepaliveTimeout: idle, KeepalivePool: 1000,
	}
	if p := u.Port(); p != "" {
		if c.Port, err = strconv.Atoi(p); err != nil || c.Port < 1 || c.Port > 65535 {
			return nil, fmt.Errorf("port %s", p)
		}
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if c.Database, err = strconv.Atoi(db); err != nil || c.Database < 0 {
			return nil, fmt.Errorf("database %q is no number", db)
		}
	}
	if u.User != nil {
		password, given := u.User.Password()
		c.Username, c.Password = u.User.Username(), password
		if !given {
			c.Username, c.Password = "", u.User.Username()
		}
	}
	return c, nil
}

func (s remote) enter(v *visit) (wait time.Duration, ok bool, err error) {
	call := redisclient.Call{Script: entering, Key: string(v.key(0)), Args: make([]any, 0, 4*len(v.limiters))}
	for i, m := range v.limiters {
		if i > 0 {
			call.More = append(call.More, string(v.key(i)))
		}
		switch m.kind {
		case connections:
			call.Args = append(call.Args, "c", m.most, m.conn, m.delay.Microseconds())
		case bucket:
			call.Args = append(call.Args, "b", number(m.rate*1000), number(m.burst*1000), 0)
		case window:
			call.Args = append(call.Args, "w", m.most, m.window, 0)
		}
	}
	got, err := s.Run(call)
	if err != nil {
		return 0, false, err
	}
	if len(got) != 2 {
		return 0, false, errors.New("redis: an odd answer")
	}
	return time.Duration(got[1]) * time.Microsecond, got[0] == 1, nil
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (s remote) leave(key []byte) error {
	if !s.Later(redisclient.Job{Script: leaving, Key: string(key)}) {
		return errBusy
	}
	return nil
}

// entering counts a request on every key, or, if one of the limits is reached, on
// none. Arguments by key: kind and three numbers. It returns whether the request
// counts and how long, in microseconds, it has to wait. A bucket is APIcast's
// record of two integers: the requests ahead of the rate, in thousandths, and when
// that was, in milliseconds. Counts of connections are forgotten after an hour in
// which there were none, so that a gateway that failed does not occupy them.
var entering = redisclient.NewScript(`
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local undo, wait = {}, 0
local function refuse()
  for i = #undo, 1, -1 do
    undo[i]()
  end
  return {0, 0}
end
for i, key in ipairs(KEYS) do
  local kind, a, b, c = ARGV[4*i-3], tonumber(ARGV[4*i-2]), tonumber(ARGV[4*i-1]), tonumber(ARGV[4*i])
  if kind == 'b' then
    local was, excess = redis.call('GET', key), 0
    if was and #was == 16 then
      local ahead, last = struct.unpack('<I8I8', was)
      excess = math.max(ahead - a * math.max(now - last, 0) / 1000 + 1000, 0)
      if excess > b then
        return refuse()
      end
    end
    local ttl = string.format('%.0f', math.min(math.ceil((excess + 1000) / a) + 1, 1e9))
    redis.call('SET', key, struct.pack('<I8I8', excess, now), 'EX', ttl)
    undo[#undo+1] = function()
      if was then
        redis.call('SET', key, was, 'EX', ttl)
      else
        redis.call('DEL', key)
      end
    end
    wait = math.max(wait, excess / a * 1e6)
  else
    local n = redis.call('INCR', key)
    undo[#undo+1] = function() redis.call('DECR', key) end
    redis.call('EXPIRE', key, kind == 'w' and b or 3600)
    if n > a then
      return refuse()
    end
    if kind == 'c' and n > b then
      wait = math.max(wait, math.floor((n - 1) / b) * c)
    end
  end
end
return {1, math.min(math.floor(wait), 1e15)}`)

// leaving ends a connection.
var leaving = redisclient.NewScript(`
if tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then
  redis.call('DECR', KEYS[1])
  redis.call('EXPIRE', KEYS[1], 3600)
end
return {1}`)

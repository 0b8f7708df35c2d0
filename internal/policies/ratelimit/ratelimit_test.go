package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/redisclient/redistest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A bench compiles configurations that find each other's counters.
type bench struct {
	t      *testing.T
	now    time.Time
	rt     *threescale.Runtime
	keeper plugin.Keeper
	redis  string // redis_url as a member, or empty
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: time.Unix(1_000_000_000, 0)}
	b.rt = threescaletest.Runtime(func() time.Time { return b.now })
	t.Cleanup(b.keeper.Close)
	return b
}

func (b *bench) compile(product, config string) plugin.Phases {
	b.t.Helper()
	ph, release := b.lasting(product, config)
	b.t.Cleanup(release)
	return ph
}

// lasting is compile for who releases the configuration himself.
func (b *bench) lasting(product, config string) (ph plugin.Phases, release func()) {
	b.t.Helper()
	env := threescaletest.Env(threescaletest.Product(b.t, b.rt, fmt.Sprintf(`{"id":%q}`, product), ""))
	env.Keep = b.keeper.Uses()
	ph, err := Policy.Compile([]byte("{"+b.redis+config+"}"), env)
	if err != nil {
		b.t.Fatal(err)
	}
	return ph, env.Keep.Release
}

// A visitor is a request that is under way.
type visitor struct {
	*plugin.Ctx
	status int           // of the answer; 0: it passes
	waited time.Duration // in the policy
	of     plugin.Phases
}

func (b *bench) enter(ph plugin.Phases, target string) *visitor {
	p := threescaletest.Product(b.t, b.rt, `{}`, "")
	v := &visitor{Ctx: threescaletest.Ctx(p, target), of: ph}
	v.Pause = func(d time.Duration) bool {
		v.waited += d
		return true
	}
	if r := ph.Access(v.Ctx); r != nil {
		v.status = r.Status
	}
	return v
}

func (v *visitor) leave() {
	if v.of.Log != nil {
		v.of.Log(v.Ctx)
	}
}

// ask sends requests one after the other and wants their statuses.
func (b *bench) ask(ph plugin.Phases, target string, want ...int) {
	b.t.Helper()
	for i, status := range want {
		v := b.enter(ph, target)
		v.leave()
		if v.status != status {
			b.t.Errorf("request %d to %s: %d, want %d", i, target, v.status, status)
		}
	}
}

// everywhere runs a test with counters in the process and in a Redis.
func everywhere(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Run("local", func(t *testing.T) { test(t, newBench(t)) })
	t.Run("redis", func(t *testing.T) {
		b := newBench(t)
		b.redis = fmt.Sprintf(`"redis_url":"redis://%s/1",`, redistest.Start(t).Addr())
		test(t, b)
	})
}

func TestWindows(t *testing.T) {
	everywhere(t, func(_ *testing.T, b *bench) {
		ph := b.compile("1", `"fixed_window_limiters":[{"key":{"name":"a"},"count":2,"window":10}]`)
		b.ask(ph, "/", 0, 0, 429, 429)
		other := b.compile("2", `"fixed_window_limiters":[{"key":{"name":"a"},"count":2,"window":10}]`)
		b.ask(other, "/", 0, 0, 429)
		b.now = b.now.Add(9 * time.Second)
		b.ask(ph, "/", 429)
		b.now = b.now.Add(time.Second)
		b.ask(ph, "/", 0, 0, 429)
	})
}

func TestScopesAndNames(t *testing.T) {
	everywhere(t, func(_ *testing.T, b *bench) {
		const conf = `"fixed_window_limiters":[{"key":{"name":"{{uri}}","name_type":"liquid","scope":"global"},"count":1,"window":10}],"limits_exceeded_error":{"status_code":503}`
		one, two := b.compile("1", conf), b.compile("2", conf)
		b.ask(one, "/a", 0)
		b.ask(two, "/a", 503)
		b.ask(two, "/b", 0)
		b.ask(one, "/b", 503)
		// The answer of one configuration is not another's.
		b.ask(b.compile("3", `"fixed_window_limiters":[{"key":{"name":"n"},"count":1,"window":0}]`), "/", 0, 429)
	})
}

func TestBuckets(t *testing.T) {
	b := newBench(t)
	ph := b.compile("1", `"leaky_bucket_limiters":[{"key":{"name":"a"},"rate":2,"burst":1}]`)
	for i, want := range []struct {
		after, waited time.Duration
		status        int
	}{
		{0, 0, 0}, {0, 500 * time.Millisecond, 0}, {0, 0, 429}, {250 * time.Millisecond, 0, 429},
		{250 * time.Millisecond, 500 * time.Millisecond, 0}, {time.Hour, 0, 0},
	} {
		b.now = b.now.Add(want.after)
		if v := b.enter(ph, "/"); v.status != want.status || v.waited != want.waited {
			t.Errorf("%d: %d after %v, want %d after %v", i, v.status, v.waited, want.status, want.waited)
		}
	}
}

// TestRedisBuckets: as Redis' clock goes on by itself, the rate is so slow that it
// does not matter.
func TestRedisBuckets(t *testing.T) {
	b := newBench(t)
	server := redistest.Start(t)
	b.redis = fmt.Sprintf(`"redis_url":"redis://%s",`, server.Addr())
	ph := b.compile("1", `"leaky_bucket_limiters":[{"key":{"name":"a","scope":"global"},"rate":0.0001,"burst":1}]`)
	v := b.enter(ph, "/")
	if v.status != 0 || v.waited != 0 {
		t.Errorf("the first: %d after %v", v.status, v.waited)
	}
	if v = b.enter(ph, "/"); v.status != 0 || v.waited < 9000*time.Second || v.waited > 10_000*time.Second {
		t.Errorf("the second: %d after %v", v.status, v.waited)
	}
	b.ask(ph, "/", 429, 429)
	c := server.Client(0)
	defer c.Close()
	if raw, err := c.Get(t.Context(), "leaky_bucket_a").Bytes(); err != nil || len(raw) != 16 {
		t.Errorf("APIcast's record is %d bytes: %v", len(raw), err)
	}
	if ttl, err := c.TTL(t.Context(), "leaky_bucket_a").Result(); err != nil || ttl < 19_000*time.Second || ttl > 20_100*time.Second {
		t.Errorf("it lives for %v: %v", ttl, err)
	}
}

func TestConnections(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		ph := b.compile("1", `"connection_limiters":[{"key":{"name":"a"},"conn":2,"burst":2,"delay":0.5}]`)
		var all []*visitor
		for i, want := range []struct {
			status int
			waited time.Duration
		}{{0, 0}, {0, 0}, {0, 500 * time.Millisecond}, {0, 500 * time.Millisecond}, {429, 0}, {429, 0}} {
			v := b.enter(ph, "/")
			all = append(all, v)
			if v.status != want.status || v.waited != want.waited {
				t.Errorf("%d: %d after %v", i, v.status, v.waited)
			}
		}
		for _, v := range all {
			v.leave()
		}
		b.eventually(func() bool {
			v := b.enter(ph, "/")
			defer v.leave()
			return v.status == 0 && v.waited == 0
		})
	})
}

// eventually waits for what is left for later.
func (b *bench) eventually(ok func() bool) {
	b.t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Error("it never comes to be")
}

// TestAllOrNone: what is refused by one limit counts on none.
func TestAllOrNone(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		twice := b.compile("1", `"connection_limiters":[{"key":{"name":"a"},"conn":1},{"key":{"name":"a"},"conn":1}]`)
		if v := b.enter(twice, "/"); v.status != 429 {
			t.Errorf("a key that is there twice: %d", v.status)
		}
		if v := b.enter(b.compile("1", `"connection_limiters":[{"key":{"name":"a"},"conn":1}]`), "/"); v.status != 0 {
			t.Errorf("nothing is under way: %d", v.status)
		}
		const all = `"connection_limiters":[{"key":{"name":"c"},"conn":100}],
			"leaky_bucket_limiters":[{"key":{"name":"b"},"rate":0.001,"burst":2}],
			"fixed_window_limiters":[{"key":{"name":"w"},"count":3,"window":100},{"key":{"name":"{{uri}}","name_type":"liquid"},"count":1,"window":100}]`
		ph := b.compile("2", all)
		b.ask(ph, "/a", 0, 429, 429, 429, 429)
		b.ask(ph, "/b", 0, 429)
		b.ask(ph, "/c", 0)
		b.ask(ph, "/d", 429) // three in the window, and in the bucket
	})
}

func TestConditions(t *testing.T) {
	b := newBench(t)
	ph := b.compile("1", `"fixed_window_limiters":[
		{"key":{"name":"a"},"count":2,"window":10,"condition":{"operations":[{"left":"{{uri}}","left_type":"liquid","op":"matches","right":"/v1/.*/x"}]}},
		{"key":{"name":"b"},"count":1,"window":10,"condition":{"operations":[{"left":"1","op":"==","right":"2"}]}}]`)
	b.ask(ph, "/v1/a/x", 0, 0, 429)
	b.ask(ph, "/v2/a/x", 0, 0, 0, 0)
}

// TestReload: counters outlive their configuration, and one that is changed counts
// at once as it says (field case 74).
func TestReload(t *testing.T) {
	everywhere(t, func(_ *testing.T, b *bench) {
		b.now = time.Unix(1_000_000_020, 0) // where windows of 60 and of 10 s begin
		conf := func(count, window int) string {
			return fmt.Sprintf(`"fixed_window_limiters":[{"key":{"name":"a"},"count":%d,"window":%d}]`, count, window)
		}
		ph, release := b.lasting("1", conf(10, 60))
		b.ask(ph, "/", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 429)
		release()
		ph, release = b.lasting("1", conf(10, 60))
		b.ask(ph, "/", 429)
		release()
		ph, release = b.lasting("1", conf(11, 60))
		b.ask(ph, "/", 0, 429)
		release()
		ph, release = b.lasting("1", conf(2, 10))
		b.ask(ph, "/", 0, 0, 429)
		b.now = b.now.Add(10 * time.Second)
		b.ask(ph, "/", 0, 0, 429)
		release()
	})
}

func TestErrors(t *testing.T) {
	b := newBench(t)
	const window = `"fixed_window_limiters":[{"key":{"name":"%s"},"count":1,"window":10}]`
	for i, tc := range []struct {
		more string
		want []int
	}{
		{``, []int{0, 429}},
		{`,"limits_exceeded_error":{"error_handling":"log"}`, []int{0, 0, 0}},
		{`,"limits_exceeded_error":{"status_code":"503"}`, []int{0, 503}},
		{`,"redis_url":""`, []int{0, 429}},
		{`,"redis_url":"redis://127.0.0.1:1/1"`, []int{500, 500}},
		{`,"redis_url":"redis://127.0.0.1:1/1","configuration_error":{"status_code":501}`, []int{501}},
		{`,"redis_url":"redis://127.0.0.1:1/1","configuration_error":{"error_handling":"log"}`, []int{0, 0}},
		{`,"redis_url":"nonsense"`, []int{500}},
		{`,"redis_url":"redis://h/x"`, []int{500}},
	} {
		b.ask(b.compile("1", fmt.Sprintf(window, fmt.Sprint(i))+tc.more), "/", tc.want...)
	}
}

func TestInvalid(t *testing.T) {
	p := threescaletest.Product(t, nil, `{}`, "")
	for _, config := range []string{
		`{"connection_limiters":[{"key":{"name":"a"},"conn":0}]}`,
		`{"connection_limiters":[{"key":{"name":"a"},"conn":1,"burst":-1}]}`,
		`{"leaky_bucket_limiters":[{"key":{"name":"a"},"rate":0}]}`,
		`{"fixed_window_limiters":[{"key":{"name":"a"},"count":0}]}`,
		`{"fixed_window_limiters":[{"key":{"name":"a"}}]}`,
		`{"fixed_window_limiters":[{"count":1}]}`,
		`{"fixed_window_limiters":[{"key":{},"count":1}]}`,
		`{"fixed_window_limiters":[{"key":{"name":"a"},"count":1,"condition":{"operations":[{"op":"<"}]}}]}`,
		`{"limits_exceeded_error":{"status_code":99}}`,
		`{"configuration_error":{"error_handling":"ignore"}}`,
	} {
		if _, err := Policy.Compile([]byte(config), threescaletest.Env(p)); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
	if ph := threescaletest.Compile(t, p, Policy, `{}`); ph.Access != nil || ph.Log != nil {
		t.Error("what limits nothing costs")
	}
}

func TestRedisURL(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h":                     "h 6379 0   false",
		"redis://h:1/2":                 "h 1 2   false",
		"redis://:pw@h:1":               "h 1 0  pw false",
		"redis://pw@h:1":                "h 1 0  pw false",
		"redis://user:pw@[::1]:1/":      "::1 1 0 user pw false",
		"rediss://h":                    "h 6379 0   true",
		"http://h":                      "",
		"redis://":                      "",
		"redis://h:0":                   "",
		"redis://h/-1":                  "",
		"127.0.0.1:6379":                "",
		"redis://user:pw@h:notaport/17": "",
	} {
		got := ""
		if c, err := redisConfig(raw); err == nil {
			got = fmt.Sprintf("%s %d %d %s %s %v", c.Host, c.Port, c.Database, c.Username, c.Password, c.TLS)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// TestLeft: a client that leaves while it is delayed does not occupy a connection.
func TestLeft(t *testing.T) {
	b := newBench(t)
	ph := b.compile("1", `"connection_limiters":[{"key":{"name":"a"},"conn":1,"burst":1,"delay":1}]`)
	first := b.enter(ph, "/")
	c := threescaletest.Ctx(threescaletest.Product(t, b.rt, `{}`, ""), "/")
	c.Pause = func(time.Duration) bool { return false }
	if r := ph.Access(c); r == nil || r.Status != 499 {
		t.Errorf("%+v", r)
	}
	ph.Log(c)
	first.leave()
	if v := b.enter(ph, "/"); v.status != 0 || v.waited != 0 {
		t.Errorf("%d after %v", v.status, v.waited)
	}
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	b := newBench(t)
	ph := b.compile("1", `"connection_limiters":[{"key":{"name":"{{remote_addr}}","name_type":"liquid"},"conn":1000000}],"fixed_window_limiters":[{"key":{"name":"a"},"count":1000000,"window":60}]`)
	c := threescaletest.Ctx(threescaletest.Product(t, b.rt, `{}`, ""), "/")
	if n := testing.AllocsPerRun(100, func() {
		if ph.Access(c) != nil {
			t.Fatal("refused")
		}
		ph.Log(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

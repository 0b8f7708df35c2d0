package limitconn

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/redisclient/redistest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func still() time.Time { return time.Unix(1_000_000, 0) }

func compiled(tb testing.TB, conf string, now func() time.Time) plugin.Phases {
	tb.Helper()
	env := plugintest.Env(now)
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(env.Keep.Release)
	return ph
}

// A call is a request under way.
type call struct {
	ctx    *plugin.Ctx
	ph     plugin.Phases
	status int // 0: goes upstream
	waited time.Duration
}

func enter(ph plugin.Phases, fields ...[2]string) *call {
	c := &call{ctx: plugintest.NewCtx("/", fields...), ph: ph}
	c.ctx.Start = still()
	c.ctx.Pause = func(d time.Duration) bool { c.waited += d; return true }
	if reply := plugintest.Send(ph, c.ctx); reply != nil {
		c.status = reply.Status
	}
	return c
}

func (c *call) leave(took time.Duration) {
	c.ctx.Sent.Tries = append(c.ctx.Sent.Tries, plugin.Try{Total: took})
	c.ph.Log(c.ctx)
}

func TestBound(t *testing.T) {
	const conf = `{"conn":2,"burst":2,"default_conn_delay":0.1,"key":"remote_addr","only_use_default_delay":true}`
	ph := compiled(t, conf, still)
	var calls []*call
	for i, want := range []struct {
		status int
		waited time.Duration
	}{{}, {}, {0, 100 * time.Millisecond}, {0, 100 * time.Millisecond}, {503, 0}, {503, 0}} {
		c := enter(ph)
		if c.status != want.status || c.waited != want.waited {
			t.Errorf("request %d: %d after %v, want %d after %v", i, c.status, c.waited, want.status, want.waited)
		}
		calls = append(calls, c)
	}
	// A refused request ends nothing, and each ends once.
	calls[5].leave(0)
	if c := enter(ph); c.status != 503 {
		t.Error("a refused request made room")
	}
	calls[0].leave(time.Second)
	calls[0].leave(time.Second)
	if c := enter(ph); c.status != 0 || c.waited != 100*time.Millisecond {
		t.Errorf("answered %d after %v when one had left", c.status, c.waited)
	}
	if c := enter(ph); c.status != 503 {
		t.Error("one request left twice")
	}
}

// TestDelay: the delay is the mean of what it was and what the request took.
func TestDelay(t *testing.T) {
	ph := compiled(t, `{"conn":1,"burst":5,"default_conn_delay":1,"key":"remote_addr"}`, still)
	one := enter(ph)
	if two := enter(ph); two.waited != time.Second {
		t.Errorf("the second waits %v", two.waited)
	}
	if three := enter(ph); three.waited != 2*time.Second {
		t.Errorf("the third waits %v", three.waited)
	}
	one.leave(200 * time.Millisecond) // now 0.6 s
	if next := enter(ph); next.waited != 1200*time.Millisecond {
		t.Errorf("the next waits %v", next.waited)
	}
	// Without an upstream the gateway's own time counts, without the wait.
	other := compiled(t, `{"conn":1,"burst":5,"default_conn_delay":1,"key":"http_a"}`, still)
	enter(other)
	own := enter(other)
	own.ctx.Sent.End = own.ctx.Start.Add(1500 * time.Millisecond)
	own.ph.Log(own.ctx) // 0.5 s: now 0.75 s
	if next := enter(other); next.waited != 750*time.Millisecond {
		t.Errorf("waits %v", next.waited)
	}
}

func TestVariables(t *testing.T) {
	ph := compiled(t, `{"conn":"${http_conn ?? 1}","burst":"${http_burst ?? 0}","default_conn_delay":0.1,"key":"http_user","rejected_code":429,"rejected_msg":"busy"}`, still)
	for i, c := range []struct {
		user, conn, burst string
		status            int
	}{
		{"a", "", "", 0}, {"a", "", "", 429}, {"b", "", "", 0},
		{"a", "2", "", 0}, {"a", "2", "", 429}, {"a", "2", "1", 0},
		{"c", "0", "", 500}, {"c", "x", "", 500}, {"c", "1", "-1", 500}, {"c", "1", "0.5", 500}, {"c", "1", "0", 0},
	} {
		fields := [][2]string{{"user", c.user}}
		if c.conn != "" {
			fields = append(fields, [2]string{"conn", c.conn})
		}
		if c.burst != "" {
			fields = append(fields, [2]string{"burst", c.burst})
		}
		if got := enter(ph, fields...); got.status != c.status {
			t.Errorf("%d: %d, want %d", i, got.status, c.status)
		}
	}
	degraded := compiled(t, `{"conn":"$http_conn","burst":0,"default_conn_delay":0.1,"key":"http_user","allow_degradation":true}`, still)
	if c := enter(degraded); c.status != 0 {
		t.Errorf("degraded: %d", c.status)
	} else {
		c.leave(0)
	}
}

func TestRules(t *testing.T) {
	ph := compiled(t, `{"default_conn_delay":0.1,"rules":[{"conn":2,"burst":0,"key":"$http_user"},{"conn":"${http_n ?? 3}","burst":0,"key":"$http_team"}]}`, still)
	user, team := func(s string) [2]string { return [2]string{"user", s} }, func(s string) [2]string { return [2]string{"team", s} }
	expect := func(want int, c *call) *call {
		t.Helper()
		if c.status != want {
			t.Errorf("answered %d, want %d", c.status, want)
		}
		return c
	}
	one := expect(0, enter(ph, user("a"), team("t")))
	expect(0, enter(ph, user("a")))
	expect(503, enter(ph, user("a"), team("t")))
	expect(0, enter(ph, user("t"))) // the same value under another rule
	expect(0, enter(ph, team("t")))
	expect(0, enter(ph, team("t")))
	refused := expect(503, enter(ph, user("b"), team("t")))
	expect(0, enter(ph, user("b")))
	expect(503, enter(ph, user("b")))
	refused.leave(0) // what the first rule had counted is given back
	expect(0, enter(ph, user("b")))
	one.leave(0)
	expect(0, enter(ph, user("a"), team("t")))
	expect(500, enter(ph))
	expect(0, enter(ph, user("d"), team("t"), [2]string{"n", "x"})) // a rule without its number does not apply
}

// TestOtherConfiguration: what began under one configuration ends there, also
// when another has taken its place.
func TestOtherConfiguration(t *testing.T) {
	var keeper plugin.Keeper
	defer keeper.Close()
	compile := func(conf string) (plugin.Phases, func()) {
		env := plugintest.Env(still)
		env.Keep = keeper.Uses()
		ph, err := Plugin.Compile([]byte(conf), env)
		if err != nil {
			t.Fatal(err)
		}
		return ph, env.Keep.Release
	}
	const conf = `{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"remote_addr"%s}`
	first, release := compile(fmt.Sprintf(conf, ""))
	one := enter(first)
	same, releaseSame := compile(fmt.Sprintf(conf, `,"_meta":{"priority":1}`))
	if c := enter(same); c.status != 503 {
		t.Error("what is under way was forgotten")
	}
	one.leave(0)
	release()
	if c := enter(same); c.status != 0 {
		t.Error("what has ended counts")
	}
	other, releaseOther := compile(fmt.Sprintf(conf, `,"rejected_code":429`))
	if c := enter(other); c.status != 0 {
		t.Error("another configuration begins anew")
	}
	releaseSame()
	releaseOther()
	if n := keeper.Len(); n != 0 {
		t.Errorf("%d values kept", n)
	}
}

func TestExact(t *testing.T) {
	ph := compiled(t, `{"conn":60,"burst":40,"default_conn_delay":0.00001,"key":"remote_addr"}`, still)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if enter(ph).status == 0 {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n != 100 {
		t.Errorf("%d passed", n)
	}
}

func TestInvalid(t *testing.T) {
	for conf, want := range map[string]string{
		`{"conn":1,"burst":0,"key":"a"}`:                                            `value should match only one schema, but matches none`,
		`{"conn":0,"burst":0,"default_conn_delay":0.1,"key":"a"}`:                   `property "conn" validation failed: value should match only one schema, but matches none`,
		`{"conn":1,"burst":-1,"default_conn_delay":0.1,"key":"a"}`:                  `property "burst" validation failed: value should match only one schema, but matches none`,
		`{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"a","rules":[]}`:        `value should match only one schema, but matches both schemas 1 and 2`,
		`{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"a","rejected_msg":""}`: `property "rejected_msg" validation failed: string too short, expected at least 1, got 0`,
		`{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"a","policy":"redis"}`:  `then clause did not match`,
		`{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"a"}`:                   ``,
	} {
		env := plugintest.Env(still)
		_, err := Plugin.Compile([]byte(conf), env)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "failed to check the configuration of plugin limit-conn err: ")
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", conf, got, want)
		}
		env.Keep.Release()
	}
}

func TestGone(t *testing.T) {
	ph := compiled(t, `{"conn":1,"burst":1,"default_conn_delay":0.1,"key":"remote_addr"}`, still)
	enter(ph)
	ctx := plugintest.NewCtx("/")
	ctx.Pause = func(time.Duration) bool { return false }
	if reply := plugintest.Send(ph, ctx); reply == nil || reply.Status != 499 {
		t.Errorf("answered %v", reply)
	}
	if c := enter(ph); c.status != 503 {
		t.Error("a place was given back before its request had ended")
	}
	ph.Log(ctx)
	if c := enter(ph); c.status != 0 {
		t.Error("the place of who did not wait is lost")
	}
}

func TestRedis(t *testing.T) {
	single, cluster := redistest.Start(t), redistest.Cluster(t)
	const conf = `{"conn":60,"burst":40,"default_conn_delay":0.00001,"key":"remote_addr","redis_timeout":20000,%s}`
	for _, where := range []string{
		fmt.Sprintf(`"policy":"redis","redis_host":"%s","redis_port":%d`, single.Host, single.Port),
		fmt.Sprintf(`"policy":"redis-cluster","redis_cluster_nodes":["%s"],"redis_cluster_name":"c"`, cluster.Addr()),
	} {
		ph := compiled(t, fmt.Sprintf(conf, where), time.Now)
		var mu sync.Mutex
		var inside []*call
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if c := enter(ph); c.status == 0 {
					mu.Lock()
					inside = append(inside, c)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(inside) != 100 {
			t.Fatalf("%s: %d passed", where, len(inside))
		}
		for _, c := range inside {
			c.leave(0)
		}
		await(t, func() bool {
			c := enter(ph)
			c.leave(0)
			return c.status == 0
		})
	}
	c := single.Client(0)
	defer c.Close()
	await(t, func() bool { return len(c.Keys(t.Context(), "*").Val()) == 0 })
}

// TestRedisDeadGateway: what a gateway that died has counted is forgotten.
func TestRedisDeadGateway(t *testing.T) {
	server := redistest.Start(t)
	conf := fmt.Sprintf(`{"conn":1,"burst":0,"default_conn_delay":1,"key":"remote_addr","policy":"redis","redis_host":"%s","redis_port":%d,"key_ttl":1}`, server.Host, server.Port)
	ph := compiled(t, conf, time.Now)
	if c := enter(ph); c.status != 0 {
		t.Fatalf("answered %d", c.status)
	}
	await(t, func() bool { return enter(ph).status == 0 })
}

func await(t *testing.T, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it does not happen")
}

func TestRedisGone(t *testing.T) {
	const conf = `{"conn":1,"burst":0,"default_conn_delay":1,"key":"remote_addr","policy":"redis","redis_host":"127.0.0.1","redis_port":1%s}`
	if c := enter(compiled(t, fmt.Sprintf(conf, ""), time.Now)); c.status != 500 {
		t.Errorf("answered %d", c.status)
	}
	c := enter(compiled(t, fmt.Sprintf(conf, `,"allow_degradation":true`), time.Now))
	if c.status != 0 {
		t.Errorf("answered %d", c.status)
	}
	c.leave(0)
}

func TestNoAllocation(t *testing.T) {
	if race {
		t.Skip("the race detector makes pools forget")
	}
	ph := compiled(t, `{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"remote_addr"}`, still)
	ctx := plugintest.NewCtx("/")
	send := func() {
		plugintest.Send(ph, ctx)
		ph.Log(ctx)
	}
	send()
	if n := testing.AllocsPerRun(100, send); n != 0 {
		t.Errorf("%v allocations", n)
	}
	enter(ph)
	if n := testing.AllocsPerRun(100, send); n != 0 {
		t.Errorf("%v allocations when refused", n)
	}
}

func BenchmarkAccept(b *testing.B) {
	ph := compiled(b, `{"conn":10,"burst":0,"default_conn_delay":0.1,"key":"remote_addr"}`, still)
	ctx := plugintest.NewCtx("/")
	b.ReportAllocs()
	for b.Loop() {
		if plugintest.Send(ph, ctx) != nil {
			b.Fatal("refused")
		}
		ph.Log(ctx)
	}
}

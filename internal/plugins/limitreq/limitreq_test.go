package limitreq

import (
	"fmt"
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

type h = map[string]string

func Test(t *testing.T) {
	const half = 500 * time.Millisecond
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "waits", Config: `{"rate":2,"burst":1,"key":"remote_addr"}`, Requests: []plugintest.Request{
			{}, {Pause: half}, {Status: 503},
			{After: 250 * time.Millisecond, Status: 503},
			{After: 250 * time.Millisecond, Pause: half},
			{Client: "10.0.0.1"},
			{After: time.Hour}, {Pause: half},
		}},
		{Name: "nodelay", Config: `{"rate":2,"burst":1,"key":"remote_addr","nodelay":true,"rejected_code":429,"rejected_msg":"slow down"}`, Requests: []plugintest.Request{
			{}, {}, {Status: 429, Body: `{"error_msg":"slow down"}` + "\n"},
		}},
		{Name: "short waits are none", Config: `{"rate":10000,"burst":1,"key":"remote_addr"}`, Requests: []plugintest.Request{{}, {}, {Status: 503}}},
		{Name: "combination", Config: `{"rate":0.1,"burst":0,"key":"$http_a$http_b","key_type":"var_combination"}`, Requests: []plugintest.Request{
			{Header: h{"a": "1", "b": "2"}}, {Header: h{"a": "1"}}, {Header: h{"a": "1", "b": "2"}, Status: 503},
			{}, {Status: 503}, {After: 10 * time.Second},
		}},
		{Name: "no rate", Config: `{"rate":0,"burst":0,"key":"a"}`, Invalid: `property "rate" validation failed: expected 0 to be greater than 0`},
		{Name: "negative rate", Config: `{"rate":-1,"burst":0,"key":"a"}`, Invalid: `property "rate" validation failed: expected -1 to be greater than 0`},
		{Name: "no key", Config: `{"rate":1,"burst":0}`, Invalid: `property "key" is required`},
		{Name: "no host", Config: `{"rate":1,"burst":0,"key":"a","policy":"redis"}`, Invalid: `then clause did not match`},
		{Name: "no nodes", Config: `{"rate":1,"burst":0,"key":"a","policy":"redis-cluster"}`, Invalid: `else clause did not match`},
		{Name: "sentinels", Config: `{"rate":1,"burst":0,"key":"a","policy":"redis-sentinel"}`, Invalid: `matches none of the enum values`},
	})
}

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

func still() time.Time { return time.Unix(1_000_000, 0) }

// TestConsumer: the limit of a consumer counts over all routes, another
// configuration apart.
func TestOwners(t *testing.T) {
	var keeper plugin.Keeper
	defer keeper.Close()
	const conf = `{"rate":1,"burst":0,"key":"consumer_name"}`
	send := func(owner, conf string) int {
		env := plugintest.Env(still)
		env.Owner, env.Keep = owner, keeper.Uses()
		defer env.Keep.Release()
		ph, err := Plugin.Compile([]byte(conf), env)
		if err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx("/")
		ctx.Consumer = &plugin.Consumer{Name: "jack"}
		if reply := plugintest.Send(ph, ctx); reply != nil {
			return reply.Status
		}
		return 0
	}
	for i, c := range []struct {
		owner, conf string
		want        int
	}{
		{"consumers/jack", conf, 0},
		{"consumers/jack", conf, 503},
		{"routes/1", conf, 0},
		{"consumers/jack", `{"rate":1,"burst":0,"key":"consumer_name","nodelay":true}`, 0},
	} {
		if got := send(c.owner, c.conf); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
}

// TestGone: who does not wait for the answer does not wait for the rate.
func TestGone(t *testing.T) {
	ph := compiled(t, `{"rate":1,"burst":1,"key":"remote_addr"}`, still)
	ctx := plugintest.NewCtx("/")
	ctx.Pause = func(time.Duration) bool { return false }
	if reply := plugintest.Send(ph, ctx); reply != nil {
		t.Errorf("answered %d", reply.Status)
	}
	if reply := plugintest.Send(ph, ctx); reply == nil || reply.Status != 499 {
		t.Errorf("answered %v", reply)
	}
}

func redisConfs(t *testing.T, more string) []string {
	single, cluster := redistest.Start(t), redistest.Cluster(t)
	return []string{
		fmt.Sprintf(`{"policy":"redis","redis_host":"%s","redis_port":%d,"redis_timeout":20000,"key":"remote_addr"%s}`, single.Host, single.Port, more),
		fmt.Sprintf(`{"policy":"redis-cluster","redis_cluster_nodes":["%s"],"redis_cluster_name":"c","redis_timeout":20000,"key":"remote_addr"%s}`, cluster.Addr(), more),
	}
}

func TestRedis(t *testing.T) {
	for _, conf := range redisConfs(t, `,"rate":0.01,"burst":1`) {
		ph := compiled(t, conf, time.Now)
		var waits []time.Duration
		status := []int{0, 0, 503}
		for i, want := range status {
			ctx := plugintest.NewCtx("/")
			ctx.Pause = func(d time.Duration) bool { waits = append(waits, d); return true }
			got := 0
			if reply := plugintest.Send(ph, ctx); reply != nil {
				got = reply.Status
			}
			if got != want {
				t.Errorf("%s: request %d: %d, want %d", conf, i, got, want)
			}
		}
		if len(waits) != 1 || waits[0] > 100*time.Second || waits[0] < 50*time.Second {
			t.Errorf("%s: waits %v", conf, waits)
		}
	}
}

func TestRedisExact(t *testing.T) {
	for _, conf := range redisConfs(t, `,"rate":0.001,"burst":99,"nodelay":true`) {
		ph := compiled(t, conf, time.Now)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if plugintest.Send(ph, plugintest.NewCtx("/")) == nil {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if n := passed.Load(); n != 100 {
			t.Errorf("%s: %d passed", conf, n)
		}
	}
}

func TestRedisKey(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client(0)
	defer c.Close()
	conf := fmt.Sprintf(`{"rate":10,"burst":1,"policy":"redis","redis_host":"%s","redis_port":%d,"key":"remote_addr"}`, server.Host, server.Port)
	plugintest.Send(compiled(t, conf, time.Now), plugintest.NewCtx("/"))
	keys := c.Keys(t.Context(), "limit_req:*").Val()
	if len(keys) != 1 || c.HLen(t.Context(), keys[0]).Val() != 2 || c.TTL(t.Context(), keys[0]).Val() <= 0 {
		t.Errorf("keys %v", keys)
	}
}

func TestRedisGone(t *testing.T) {
	const conf = `{"rate":1,"burst":0,"key":"remote_addr","policy":"redis","redis_host":"127.0.0.1","redis_port":1%s}`
	reply := plugintest.Send(compiled(t, fmt.Sprintf(conf, ""), time.Now), plugintest.NewCtx("/"))
	if reply == nil || reply.Status != 500 {
		t.Errorf("answered %v", reply)
	}
	if reply := plugintest.Send(compiled(t, fmt.Sprintf(conf, `,"allow_degradation":true`), time.Now), plugintest.NewCtx("/")); reply != nil {
		t.Errorf("answered %v", reply)
	}
}

func TestNoAllocation(t *testing.T) {
	if race {
		t.Skip("the race detector makes pools forget")
	}
	for _, conf := range []string{
		`{"rate":1e9,"burst":10,"key":"remote_addr"}`,
		`{"rate":1e-9,"burst":0,"key":"$remote_addr $http_a","key_type":"var_combination"}`,
	} {
		ph := compiled(t, conf, still)
		ctx := plugintest.NewCtx("/", [2]string{"a", "x"})
		plugintest.Send(ph, ctx)
		if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
			t.Errorf("%s: %v allocations", conf, n)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	ph := compiled(b, `{"rate":1e12,"burst":1e12,"key":"remote_addr"}`, time.Now)
	ctx := plugintest.NewCtx("/")
	b.ReportAllocs()
	for b.Loop() {
		if plugintest.Send(ph, ctx) != nil {
			b.Fatal("refused")
		}
	}
}

package limitcount

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
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type h = map[string]string

// left is an admitted request and what its client is told.
func left(n, reset string) plugintest.Request {
	return plugintest.Request{Reply: h{"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": n, "X-RateLimit-Reset": reset}}
}

func refused(reset string) plugintest.Request {
	r := left("0", reset)
	r.Status = 503
	return r
}

func after(d time.Duration, r plugintest.Request) plugintest.Request {
	r.After = d
	return r
}

func with(header h, r plugintest.Request) plugintest.Request {
	r.Header = header
	return r
}

func TestFixed(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "window", Config: `{"count":2,"time_window":60}`, Requests: []plugintest.Request{
			left("1", "60"), after(500*time.Millisecond, left("0", "59.5")), refused("59.5"),
			after(59*time.Second, refused("0.5")), after(490*time.Millisecond, refused("0.01")),
			after(10*time.Millisecond, left("1", "60")),
			{Client: "10.0.0.1", Reply: h{"X-RateLimit-Remaining": "1"}},
		}},
		{Name: "message", Config: `{"count":1,"time_window":60,"rejected_code":429,"rejected_msg":"slow down","show_limit_quota_header":false}`, Requests: []plugintest.Request{
			{Reply: h{"X-RateLimit-Limit": ""}},
			{Status: 429, Body: `{"error_msg":"slow down"}` + "\n", Reply: h{"X-RateLimit-Limit": ""}},
		}},
		{Name: "variable", Config: `{"count":2,"time_window":60,"key":"http_user"}`, Requests: []plugintest.Request{
			with(h{"user": "a"}, left("1", "60")), with(h{"user": "b"}, left("1", "60")), with(h{"user": "a"}, left("0", "60")),
			left("1", "60"), left("0", "60"), refused("60"),
			with(h{"user": "127.0.0.1"}, refused("60")), // the client's address stands in for an absent value
		}},
		{Name: "combination", Config: `{"count":2,"time_window":60,"key":"$http_a $http_b","key_type":"var_combination"}`, Requests: []plugintest.Request{
			with(h{"a": "1", "b": "2"}, left("1", "60")), with(h{"a": "1"}, left("1", "60")), with(h{"a": "1", "b": "2"}, left("0", "60")),
			left("1", "60"), left("0", "60"),
		}},
		{Name: "constant", Config: `{"count":2,"time_window":60,"key":"remote_addr","key_type":"constant"}`, Requests: []plugintest.Request{
			{Client: "10.0.0.1"}, {Client: "10.0.0.2"}, {Client: "10.0.0.3", Status: 503},
		}},
		{Name: "no variable", Config: `{"count":2,"time_window":60,"key":"abc","key_type":"var_combination"}`, Requests: []plugintest.Request{
			{Client: "10.0.0.1"}, {Client: "10.0.0.2"}, {Client: "10.0.0.3"},
		}},
		{Name: "very long", Config: `{"count":2,"time_window":9007199254740991}`, Requests: []plugintest.Request{left("1", "3153600000")}},
	})
}

func TestSliding(t *testing.T) {
	// The clock begins 40 s into a window.
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "window", Config: `{"count":2,"time_window":60,"window_type":"sliding"}`, Requests: []plugintest.Request{
			left("1", "20"), left("0", "20"), refused("20"),
			after(20*time.Second, refused("0.01")),
			after(30*time.Second, left("0", "30")), refused("0.01"),
		}},
	})
}

func TestVariableLimit(t *testing.T) {
	told := func(limit, remaining string) h {
		return h{"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "count", Config: `{"count":"${http_count ?? 2}","time_window":"${http_window ?? 5}"}`, Requests: []plugintest.Request{
			{Reply: h{"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "5"}},
			{Header: h{"count": "4"}, Reply: told("4", "2")},
			{Status: 503, Reply: told("2", "0")},
			{Header: h{"count": " 5.0 "}, Reply: told("5", "1")},
			{Header: h{"count": "1e1"}, Reply: told("10", "5")},
			{After: 5 * time.Second, Header: h{"window": "7"}, Reply: h{"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "7"}},
		}},
		{Name: "not a number", Config: `{"count":"$http_count","time_window":5}`, Requests: []plugintest.Request{
			{Status: 500},
			{Header: h{"count": "x"}, Status: 500},
			{Header: h{"count": "0"}, Status: 500},
			{Header: h{"count": "-1"}, Status: 500},
			{Header: h{"count": "1.5"}, Status: 500},
			{Header: h{"count": "inf"}, Status: 500},
			{Header: h{"count": "9007199254740992"}, Status: 500},
			{Header: h{"count": "1e300"}, Status: 500},
			{Header: h{"count": "9007199254740991"}},
		}},
		{Name: "degraded", Config: `{"count":"$http_count","time_window":5,"allow_degradation":true}`, Requests: []plugintest.Request{
			{Reply: h{"X-RateLimit-Limit": ""}},
		}},
	})
}

func TestRules(t *testing.T) {
	const conf = `{"rejected_code":429,"rejected_msg":"rejected","rules":[
		{"count":2,"time_window":10,"key":"${http_user}"},
		{"count":"${http_count ?? 3}","time_window":60,"key":"${http_project}","header_prefix":"project"}]}`
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "rules", Config: conf, Requests: []plugintest.Request{
			{Header: h{"user": "a", "project": "p"}, Reply: h{
				"X-1-RateLimit-Limit": "2", "X-1-RateLimit-Remaining": "1", "X-1-RateLimit-Reset": "10",
				"X-project-RateLimit-Limit": "3", "X-project-RateLimit-Remaining": "2", "X-project-RateLimit-Reset": "60",
			}},
			{Header: h{"user": "a"}, Reply: h{"X-1-RateLimit-Remaining": "0", "X-project-RateLimit-Limit": ""}},
			// What the first rule refuses does not count for the second.
			{Header: h{"user": "a", "project": "p"}, Status: 429, Body: `{"error_msg":"rejected"}` + "\n", Reply: h{"X-project-RateLimit-Limit": ""}},
			{Header: h{"project": "p"}, Reply: h{"X-project-RateLimit-Remaining": "1"}},
			{Header: h{"user": "b", "project": "p"}, Reply: h{"X-1-RateLimit-Remaining": "1", "X-project-RateLimit-Remaining": "0"}},
			{Header: h{"user": "b", "project": "p"}, Status: 429, Reply: h{"X-1-RateLimit-Remaining": "0", "X-project-RateLimit-Remaining": "0"}},
			// Both keys have the same value and are counted apart.
			{Header: h{"user": "s", "project": "s"}, Reply: h{"X-1-RateLimit-Remaining": "1", "X-project-RateLimit-Remaining": "2"}},
			// A rule that applies and has no number refuses before anything counts.
			{Header: h{"user": "c", "project": "p", "count": "x"}, Status: 500, Reply: h{"X-1-RateLimit-Limit": ""}},
			{Header: h{"user": "c"}, Reply: h{"X-1-RateLimit-Remaining": "1"}},
			{Status: 500},
		}},
		{Name: "degraded", Config: strings.Replace(conf, "{", `{"allow_degradation":true,`, 1), Requests: []plugintest.Request{{}}},
	})
}

func TestInvalid(t *testing.T) {
	const redis = `"policy":"redis","redis_host":"127.0.0.1"`
	for conf, want := range map[string]string{
		`{}`:                             `value should match only one schema, but matches none`,
		`{"count":-1,"time_window":60}`:  `property "count" validation failed: value should match only one schema, but matches none`,
		`{"count":1.5,"time_window":60}`: `property "count" validation failed: value should match only one schema, but matches none`,
		`{"count":1,"time_window":60,"policy":"x"}`:                                                 `property "policy" validation failed: matches none of the enum values`,
		`{"count":1,"time_window":60,"rejected_msg":""}`:                                            `property "rejected_msg" validation failed: string too short, expected at least 1, got 0`,
		`{"count":1,"time_window":60,"policy":"redis"}`:                                             `then clause did not match`,
		`{"count":1,"time_window":60,"policy":"redis-cluster"}`:                                     `else clause did not match`,
		`{"count":1,"time_window":60,"policy":"redis-sentinel"}`:                                    `else clause did not match`,
		`{"count":1,"time_window":60,"rules":[{"count":1,"time_window":1,"key":"a"}]}`:              `count/time_window and rules cannot be specified at the same time`,
		`{"count":1,"rules":[{"count":1,"time_window":1,"key":"a"}]}`:                               `count/time_window and rules cannot be specified at the same time`,
		`{"group":"g","rules":[{"count":1,"time_window":1,"key":"a"}]}`:                             `group and rules cannot be specified at the same time`,
		`{"group":"g","count":1,"time_window":1,"_vid":1}`:                                          `group is not supported`,
		`{"rules":[{"count":1,"time_window":1}]}`:                                                   `property "rules" validation failed: failed to validate item 1: property "key" is required`,
		`{"rules":[{"count":1,"time_window":1,"key":"$a"},{"count":2,"time_window":1,"key":"$a"}]}`: `duplicate key '$a' in rules`,
		`{"count":1,"time_window":60,"sync_interval":0.01,` + redis + `}`:                           `sync_interval should not be smaller than 0.1`,
		`{"count":1,"time_window":60,"sync_interval":60,` + redis + `}`:                             `sync_interval should be smaller than time_window`,
		`{"count":1,"time_window":60,"sync_interval":60}`:                                           ``,
		`{"count":1,"time_window":"$arg_w","sync_interval":60,` + redis + `}`:                       ``,
		`{"count":"$env://COUNT","time_window":60}`:                                                 ``,
	} {
		env := plugintest.Env(time.Now)
		_, err := Plugin.Compile([]byte(conf), env)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "failed to check the configuration of plugin limit-count err: ")
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", conf, got, want)
		}
		env.Keep.Release()
	}
}

func TestMetadata(t *testing.T) {
	env := plugintest.Env(time.Now)
	env.Metadata = []byte(`{"limit_header":"X-Limit","remaining_header":"X-RateLimit-Left"}`)
	headers := func(conf string) string {
		ph, err := Plugin.Compile([]byte(conf), env)
		if err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx("/", [2]string{"k", "v"})
		plugintest.Send(ph, ctx)
		var names []string
		for _, f := range ctx.ReplyHeader() {
			names = append(names, f[0])
		}
		return strings.Join(names, " ")
	}
	if got := headers(`{"count":1,"time_window":1}`); got != "X-Limit X-RateLimit-Left X-RateLimit-Reset" {
		t.Error(got)
	}
	if got := headers(`{"rules":[{"count":1,"time_window":1,"key":"$http_k"}]}`); got != "X-Limit X-1-RateLimit-Left X-1-RateLimit-Reset" {
		t.Error(got)
	}
}

// a gateway compiles configurations of several objects.
type gateway struct {
	*testing.T
	keeper plugin.Keeper
	now    time.Time
}

func (g *gateway) compile(owner, conf string) (plugin.Phases, func()) {
	g.Helper()
	env := plugintest.Env(func() time.Time { return g.now })
	env.Owner, env.Keep = owner, g.keeper.Uses()
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		g.Fatal(err)
	}
	return ph, env.Keep.Release
}

// remaining is what is left after one more request.
func remaining(ph plugin.Phases) string {
	ctx := plugintest.NewCtx("/")
	reply := plugintest.Send(ph, ctx)
	for _, f := range ctx.ReplyHeader() {
		if f[0] == "X-RateLimit-Remaining" {
			if reply != nil {
				return "refused"
			}
			return f[1]
		}
	}
	return ""
}

// TestKept: a counter belongs to the object and to the configuration of the
// plugin; nothing else resets it.
func TestKept(t *testing.T) {
	g := &gateway{T: t, now: time.Unix(1_000_000, 0)}
	defer g.keeper.Close()
	const conf = `{"count":5,"time_window":60}`
	one, release := g.compile("routes/1", conf)
	two, releaseTwo := g.compile("routes/2", conf)
	defer releaseTwo()
	expect := func(ph plugin.Phases, want string) {
		t.Helper()
		if got := remaining(ph); got != want {
			t.Errorf("%s remain, want %s", got, want)
		}
	}
	expect(one, "4")
	expect(one, "3")
	expect(two, "4")
	again, releaseAgain := g.compile("routes/1", `{"time_window":60, "count":5, "_meta":{"priority":3}}`)
	release()
	expect(again, "2")
	releaseAgain()
	// Deleted and created again, even as the only one.
	releaseTwo()
	again, release = g.compile("routes/1", conf)
	expect(again, "1")
	changed, releaseChanged := g.compile("routes/1", `{"count":4,"time_window":60}`)
	release()
	expect(changed, "3")
	releaseChanged()
	if n := g.keeper.Len(); n != 0 {
		t.Errorf("%d values kept", n)
	}
}

func TestGroup(t *testing.T) {
	g := &gateway{T: t, now: time.Unix(1_000_000, 0)}
	defer g.keeper.Close()
	const conf = `{"count":5,"time_window":60,"group":"g"}`
	one, releaseOne := g.compile("routes/1", conf)
	two, releaseTwo := g.compile("services/2", conf)
	other, releaseOther := g.compile("routes/3", `{"count":5,"time_window":60,"group":"h"}`)
	defer releaseOther()
	for i, ph := range []plugin.Phases{one, two, one, other} {
		want := []string{"4", "3", "2", "4"}[i]
		if got := remaining(ph); got != want {
			t.Errorf("%d: %s remain, want %s", i, got, want)
		}
	}
	releaseOne()
	releaseTwo()
	// Created again with another limit.
	seven, release := g.compile("routes/1", `{"count":7,"time_window":60,"group":"g"}`)
	defer release()
	if got := remaining(seven); got != "6" {
		t.Errorf("%s of 7 remain, want 6", got)
	}
	if Plugin.Group([]byte(conf)) != "g" || Plugin.Group([]byte(`{"count":1}`)) != "" || Plugin.Group([]byte(`1`)) != "" {
		t.Error("the group's name")
	}
}

// TestExact: of 1,000 requests at once exactly as many pass as may.
func TestExact(t *testing.T) {
	for _, conf := range []string{`{"count":100,"time_window":60}`, `{"count":100,"time_window":60,"window_type":"sliding"}`} {
		ph := compiled(t, conf)
		var passed atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 1000 {
			wg.Go(func() {
				<-start
				if plugintest.Send(ph, plugintest.NewCtx("/")) == nil {
					passed.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := passed.Load(); n != 100 {
			t.Errorf("%s: %d passed", conf, n)
		}
	}
}

func TestVariable(t *testing.T) {
	ph := compiled(t, `{"count":2,"time_window":60,"key":"http_k"}`)
	ctx := plugintest.NewCtx("/", [2]string{"k", "a\"b\\"})
	plugintest.Send(ph, ctx)
	got, _ := ctx.Var("rate_limiting_info")
	const start, end = `{"rate_limiting_key":"/apisix/routes/1:`, `:a\"b\\","rate_limiting_limit":2,"rate_limiting_remaining":1,"rate_limiting_reset":60}`
	if !strings.HasPrefix(got, start) || !strings.HasSuffix(got, end) {
		t.Errorf("rate_limiting_info is %s", got)
	}
}

func compiled(tb testing.TB, conf string) plugin.Phases {
	tb.Helper()
	now := time.Unix(1_000_000, 0)
	env := plugintest.Env(func() time.Time { return now })
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(env.Keep.Release)
	return ph
}

func TestNoAllocation(t *testing.T) {
	if race {
		t.Skip("the race detector makes pools forget")
	}
	for _, conf := range []string{
		`{"count":1000000,"time_window":60}`,
		`{"count":1,"time_window":60}`,
		`{"count":1000000,"time_window":60,"window_type":"sliding"}`,
		`{"count":"${http_n ?? 1000}","time_window":60,"key":"$remote_addr $http_a","key_type":"var_combination"}`,
		`{"rules":[{"count":1000000,"time_window":60,"key":"$remote_addr"},{"count":1000000,"time_window":60,"key":"$http_a"}]}`,
	} {
		ph := compiled(t, conf)
		ctx := plugintest.NewCtx("/", [2]string{"a", "x"})
		send := func() {
			ctx.Reset()
			ctx.Client = "10.0.0.1"
			plugintest.Send(ph, ctx)
		}
		send()
		if n := testing.AllocsPerRun(100, send); n != 0 {
			t.Errorf("%s: %v allocations", conf, n)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	for _, conf := range []string{`{"count":1000000000,"time_window":60}`, `{"count":1000000000,"time_window":60,"window_type":"sliding"}`} {
		b.Run(fmt.Sprint(strings.Contains(conf, "sliding")), func(b *testing.B) {
			ph := compiled(b, conf)
			ctx := plugintest.NewCtx("/")
			b.ReportAllocs()
			for b.Loop() {
				ctx.Reset()
				ctx.Client = "10.0.0.1"
				if plugintest.Send(ph, ctx) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

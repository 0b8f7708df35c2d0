package faultinjection

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

func Test(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "abort", Config: `{"abort":{"http_status":200,"body":"Fault Injection!\n"}}`, Requests: []plugintest.Request{
			{Status: 200, Body: "Fault Injection!\n"},
		}},
		{Name: "variables", Config: `{"abort":{"http_status":405,"body":"$remote_addr:$arg_x","headers":{"X-A":"${http_x_b ?? none}","X-N":1}}}`, Requests: []plugintest.Request{
			{Query: h{"x": "y"}, Status: 405, Body: "127.0.0.1:y", Reply: h{"X-A": "none", "X-N": "1"}},
		}},
		{Name: "page", Config: `{"abort":{"http_status":503}}`, Requests: []plugintest.Request{{Status: 503}}},
		{Name: "delay", Config: `{"delay":{"duration":0.1}}`, Requests: []plugintest.Request{{Pause: 100 * time.Millisecond}}},
		{Name: "both", Config: `{"delay":{"duration":2},"abort":{"http_status":500}}`, Requests: []plugintest.Request{{Status: 500, Pause: 2 * time.Second}}},
		{Name: "never", Config: `{"abort":{"http_status":500,"percentage":0},"delay":{"duration":1,"percentage":0}}`, Requests: []plugintest.Request{{}}},
		{Name: "always", Config: `{"abort":{"http_status":500,"percentage":100}}`, Requests: []plugintest.Request{{Status: 500}}},
		{Name: "conditions", Config: `{"abort":{"http_status":403,"vars":[[["arg_a","==","1"],["arg_b","==","1"]],[["http_x","==","1"]]]},"delay":{"duration":1,"vars":[[["arg_a","==","1"]]]}}`, Requests: []plugintest.Request{
			{},
			{Query: h{"a": "1"}, Pause: time.Second},
			{Query: h{"a": "1", "b": "1"}, Pause: time.Second, Status: 403},
			{Header: h{"X": "1"}, Status: 403},
		}},
		{Name: "no condition", Config: `{"abort":{"http_status":403,"vars":[]}}`, Requests: []plugintest.Request{{}}},
		{Name: "nothing", Config: `{}`, Invalid: `expect object to have at least 1 properties`},
		{Name: "no status", Config: `{"abort":{}}`, Invalid: `property "abort" validation failed: property "http_status" is required`},
		{Name: "status", Config: `{"abort":{"http_status":100}}`, Invalid: `property "abort" validation failed: property "http_status" validation failed: expected 100 to be at least 200`},
		{Name: "percentage", Config: `{"delay":{"duration":1,"percentage":101}}`, Invalid: `property "delay" validation failed: property "percentage" validation failed: expected 101 to be at most 100`},
		{Name: "condition", Config: `{"abort":{"http_status":200,"vars":[[["arg_a","","1"]]]}}`, Invalid: `invalid operator ''`},
		{Name: "delay condition", Config: `{"delay":{"duration":1,"vars":[[["arg_a","=","1"]]]}}`, Invalid: `invalid operator '='`},
		{Name: "conditions", Config: `{"abort":{"http_status":200,"vars":["a"]}}`, Invalid: `property "abort" validation failed: property "vars" validation failed: failed to validate item 1: wrong type: expected array, got string`},
		{Name: "headers", Config: `{"abort":{"http_status":200,"headers":{}}}`, Invalid: `property "abort" validation failed: property "headers" validation failed: expect object to have at least 1 properties`},
	})
}

func compiled(tb testing.TB, conf string, random func() float64) plugin.Phases {
	tb.Helper()
	env := plugintest.Env(time.Now)
	if random != nil {
		env.Rand = random
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		tb.Fatal(err)
	}
	return ph
}

func TestPercentage(t *testing.T) {
	for lot, want := range map[float64]bool{0: true, 0.2: true, 0.2999: true, 0.3: false, 0.99: false} {
		ph := compiled(t, `{"abort":{"http_status":500,"percentage":30}}`, func() float64 { return lot })
		if got := plugintest.Send(ph, plugintest.NewCtx("/")) != nil; got != want {
			t.Errorf("%v: %v", lot, got)
		}
	}
}

// Nobody waits for the answer any more.
func TestGone(t *testing.T) {
	ctx := plugintest.NewCtx("/")
	ctx.Pause = func(time.Duration) bool { return false }
	r := plugintest.Send(compiled(t, `{"delay":{"duration":1e300}}`, nil), ctx)
	if r == nil || r.Status != 499 {
		t.Errorf("%+v", r)
	}
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph := compiled(t, `{"delay":{"duration":1},"abort":{"http_status":500,"body":"x","headers":{"X-A":"$remote_addr"},"vars":[[["arg_a","==","1"]]]}}`, nil)
	for _, target := range []string{"/", "/?a=1"} {
		ctx := plugintest.NewCtx(target)
		if n := testing.AllocsPerRun(100, func() {
			ctx.Reset()
			plugintest.Send(ph, ctx)
		}); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
}

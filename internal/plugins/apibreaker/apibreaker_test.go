package apibreaker

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

// a gate is a compiled configuration, its clock and what it compiles with.
type gate struct {
	*testing.T
	now    time.Time
	keeper plugin.Keeper
	ph     plugin.Phases
}

func newGate(t *testing.T, conf string) *gate {
	t.Helper()
	g := &gate{T: t, now: time.Unix(1_000_000, 0)}
	g.ph = g.compile(conf)
	t.Cleanup(g.keeper.Close)
	return g
}

func (g *gate) compile(conf string) plugin.Phases {
	g.Helper()
	env := plugintest.Env(func() time.Time { return g.now })
	env.Keep = g.keeper.Uses()
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		g.Fatal(err)
	}
	env.Keep.Release()
	return ph
}

// send sends a request that the upstream answers with status, and returns what
// the client gets.
func (g *gate) send(target string, status int) *plugin.Reply {
	c := plugintest.NewCtx(target, [2]string{"who", "me"})
	reply := plugintest.Send(g.ph, c)
	if reply == nil && status != 0 {
		c.Sent.Tries = []plugin.Try{{Status: 200}, {Status: status}}
	}
	g.ph.Log(c)
	return reply
}

// expect sends a request and says whether the breaker should be open.
func (g *gate) expect(target string, status int, open bool) {
	g.Helper()
	if reply := g.send(target, status); (reply != nil) != open {
		g.Errorf("open: %v, want %v", reply != nil, open)
	}
}

func TestBreaker(t *testing.T) {
	g := newGate(t, `{"break_response_code":502,"unhealthy":{"http_statuses":[500,503],"failures":2},"healthy":{"http_statuses":[200,206],"successes":2}}`)
	g.expect("/a", 500, false)
	g.expect("/a", 404, false) // neither
	g.expect("/a", 0, false)   // not asked
	g.expect("/a", 503, false)
	for range 3 {
		g.expect("/a", 200, true)
	}
	g.expect("/b", 500, false) // another path
	g.now = g.now.Add(2 * time.Second)
	g.expect("/a", 200, true)
	g.now = g.now.Add(time.Second)
	g.expect("/a", 200, false)
	g.expect("/a", 500, false) // success starts anew; the third failure
	g.expect("/a", 500, false) // the fourth: 4 s
	g.now = g.now.Add(4 * time.Second)
	g.expect("/a", 200, true)
	g.now = g.now.Add(time.Second)
	g.expect("/a", 200, false)
	g.expect("/a", 206, false) // the second success: forgotten
	g.expect("/a", 500, false)
	g.expect("/a", 500, false)
	g.now = g.now.Add(3 * time.Second)
	g.expect("/a", 200, false) // 2 s again
}

// TestLongest: no longer than max_breaker_sec, however often it fails.
func TestLongest(t *testing.T) {
	g := newGate(t, `{"break_response_code":502,"max_breaker_sec":10,"unhealthy":{"failures":1}}`)
	for _, seconds := range []time.Duration{2, 4, 8, 10, 10, 10} {
		g.expect("/", 500, false)
		g.now = g.now.Add(seconds * time.Second)
		g.expect("/", 500, true)
		g.now = g.now.Add(time.Millisecond)
	}
	g.expect("/", 200, false)
}

// TestKept: what is known survives every change of configuration.
func TestKept(t *testing.T) {
	const conf = `{"break_response_code":502,"unhealthy":{"failures":1}}`
	g := newGate(t, conf)
	g.send("/", 500)
	g.expect("/", 200, true)
	g.ph = g.compile(`{"break_response_code":599,"unhealthy":{"failures":1}}`)
	if reply := g.send("/", 200); reply == nil || reply.Status != 599 {
		t.Errorf("answered %v", reply)
	}
	g.now = g.now.Add(time.Hour)
	g.expect("/", 200, false)
}

func TestAnswer(t *testing.T) {
	trip := func(conf string) *plugin.Reply {
		g := newGate(t, conf)
		for range 3 {
			g.send("/", 500)
		}
		return g.send("/", 200)
	}
	r := trip(`{"break_response_code":502,"break_response_headers":[{"key":"X","value":"y"}]}`)
	if r.Status != 502 || r.Body != nil || len(r.Header) != 0 {
		t.Errorf("without a body: %+v", r)
	}
	r = trip(`{"break_response_code":200,"break_response_body":"{\"message\":\"breaker opened.\"}","break_response_headers":[
		{"key":"Content-Type","value":"application/json"},{"key":"X-Who","value":"$http_who at ${remote_addr}"}]}`)
	if r.Status != 200 || string(r.Body) != `{"message":"breaker opened."}` || r.Header[0] != [2]string{"Content-Type", "application/json"} ||
		r.Header[1] != [2]string{"X-Who", "me at 127.0.0.1"} {
		t.Errorf("with headers: %+v", r)
	}
	r = trip(`{"break_response_code":502,"break_response_body":"x","break_response_headers":[
		{"key":"Content-Type","value":"a/b"},{"key":"X","value":"1"},{"key":"content-type","value":"$http_who"},{"key":"X","value":"2"}]}`)
	if got := fmt.Sprint(r.Header); got != "[[X 1] [content-type me] [X 2]]" {
		t.Errorf("repeated headers: %s", got)
	}
	if r = trip(`{"break_response_code":599,"break_response_body":""}`); r.Body == nil {
		t.Error("an empty body is a body")
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "code", Config: `{}`, Invalid: `property "break_response_code" is required`},
		{Name: "low", Config: `{"break_response_code":199}`, Invalid: `property "break_response_code" validation failed: expected 199 to be at least 200`},
		{Name: "twice", Config: `{"break_response_code":500,"healthy":{"http_statuses":[200,200]}}`, Invalid: `property "healthy" validation failed: property "http_statuses" validation failed: expected unique items but items 1 and 2 are equal`},
		{Name: "short", Config: `{"break_response_code":500,"max_breaker_sec":2}`, Invalid: `property "max_breaker_sec" validation failed: expected 2 to be at least 3`},
		{Name: "header", Config: `{"break_response_code":500,"break_response_headers":[{"key":"a"}]}`, Invalid: `property "break_response_headers" validation failed: failed to validate item 1: property "value" is required`},
		{Name: "status", Config: `{"break_response_code":500,"unhealthy":{"http_statuses":[404]}}`, Invalid: `property "unhealthy" validation failed: property "http_statuses" validation failed: failed to validate item 1: expected 404 to be at least 500`},
		{Name: "defaults", Config: `{"break_response_code":500,"unhealthy":{},"healthy":{"successes":1}}`},
	})
}

func TestNoAllocation(t *testing.T) {
	if race {
		t.Skip("the race detector makes pools forget")
	}
	g := newGate(t, `{"break_response_code":502}`)
	c := plugintest.NewCtx("/")
	c.Sent.Tries = []plugin.Try{{Status: 200}}
	send := func() {
		plugintest.Send(g.ph, c)
		g.ph.Log(c)
	}
	if n := testing.AllocsPerRun(100, send); n != 0 {
		t.Errorf("%v allocations while all is well", n)
	}
	for range 3 {
		g.send("/", 500)
	}
	if n := testing.AllocsPerRun(100, send); n != 0 {
		t.Errorf("%v allocations while it is open", n)
	}
}

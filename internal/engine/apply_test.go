package engine

import (
	"strings"
	"testing"

	"weir/internal/plugin"
)

// Field cases 13, 14, 29 and 34: while a step of the configuration is compiled,
// however long that takes, nobody waits for it: not on a kept connection, not on a
// new one, and not the object that changes, which serves as it was.
func TestApplyingHoldsNobody(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	type slowConf struct{}
	slow := plugin.Define(plugin.Meta{Name: "slow", Priority: 1, Doc: "Test plugin."},
		func(*slowConf, plugin.Env) (plugin.Phases, error) {
			entered <- struct{}{}
			<-leave
			return plugin.Phases{}, nil
		})
	up := echo(t)
	g := startWith(t, nil, slow)
	g.put("routes/1", route("/a", up.addr, ""), "routes/2", route("/b", up.addr, `,"plugins":{"key-auth":{}}`),
		"consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"}}}`)
	kept := g.dial()
	ask := func() {
		t.Helper()
		kept.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
		if r, body := kept.answer("GET"); r.StatusCode != 200 || !strings.HasPrefix(body, "GET /a ") {
			t.Fatalf("on a kept connection: %d %q", r.StatusCode, body)
		}
		if r, _ := g.get("/b", "apikey: k"); r.StatusCode != 200 {
			t.Fatalf("on a new connection: %d", r.StatusCode)
		}
	}
	ask()
	for _, change := range [][]string{
		{"routes/1", route("/a", up.addr, `,"plugins":{"slow":{}}`)},
		{"routes/2", route("/b", up.addr, `,"plugins":{"key-auth":{},"slow":{}}`)},
		{"services/s", `{"plugins":{"slow":{}}}`},
		{"consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"},"slow":{}}}`},
		{"global_rules/g", `{"plugins":{"slow":{}}}`},
	} {
		before := g.state.Current()
		applied := make(chan struct{})
		go func() {
			defer close(applied)
			g.put(change...)
		}()
		<-entered
		for range 10 {
			ask()
		}
		if g.state.Current() != before {
			t.Errorf("%s: the next state is there before it is compiled", change[0])
		}
		leave <- struct{}{}
		for done := false; !done; {
			select {
			case <-entered: // what else has the plugin
				leave <- struct{}{}
			case <-applied:
				done = true
			}
		}
		ask()
	}
}

package echo

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	type h = map[string]string
	plugintest.Run(t, Policy, []plugintest.Case{
		{Name: "plain", Config: `{}`, Requests: []plugintest.Request{
			{Target: "/a%20b?c", Status: 200, Body: "GET /a%20b?c HTTP/1.1\n"},
			{Method: "POST", Header: h{"Accept": "application/json"}, Status: 200, Body: `{"request":"POST \/ HTTP\/1.1"}` + "\n"},
			{Header: h{"Accept": "application/json, */*"}, Status: 200, Body: "GET / HTTP/1.1\n"},
		}},
		{Name: "status", Config: `{"status":"418"}`, Requests: []plugintest.Request{{Status: 418, Body: "GET / HTTP/1.1\n"}}},
		{Name: "at once", Config: `{"status":403,"exit":"request"}`, Requests: []plugintest.Request{{Status: 403}}},
		{Name: "no status", Config: `{"status":"many"}`, Invalid: "number"},
	})
}

func TestExit(t *testing.T) {
	for config, over := range map[string]bool{
		`{"exit":"phase","status":201}`: true, `{"exit":"request"}`: true, `{"exit":"request","status":201}`: false,
	} {
		ph, err := Policy.Compile([]byte(config), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		reply := ph.Rewrite(plugintest.NewCtx("/"))
		if (reply == plugin.PhaseOver) != over || !over && (reply.Status != 201 || reply.Body == nil) {
			t.Errorf("%s: %+v", config, reply)
		}
	}
}

// TestAfterAnUpstream: an upstream that was chosen before answers.
func TestAfterAnUpstream(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	if c.To.Upstream, err = plugintest.Env(time.Now).Upstream(nil); err != nil {
		t.Fatal(err)
	}
	if reply := ph.Content(c); reply != nil {
		t.Errorf("%+v", reply)
	}
}

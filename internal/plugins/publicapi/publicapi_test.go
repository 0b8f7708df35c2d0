package publicapi

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	for _, c := range []struct {
		conf, method, target string
		status               int
	}{
		{`{}`, "GET", "/apisix/status", 200},
		{`{}`, "GET", "/apisix/status?a=b", 200},
		{`{}`, "POST", "/apisix/status", 404},
		{`{}`, "GET", "/other", 404},
		{`{"uri":"/apisix/status"}`, "GET", "/other", 200},
		{`{"uri":"/other"}`, "GET", "/apisix/status", 404},
		{`{"uri":""}`, "GET", "/apisix/status", 404},
	} {
		env := plugintest.Env(time.Now)
		reply := plugin.Text(200, "here")
		serve := func(*plugin.Ctx) *plugin.Reply { return reply }
		env.Endpoint = func(method, path string) func(*plugin.Ctx) *plugin.Reply {
			if method != "GET" || path != "/apisix/status" {
				return nil
			}
			return serve
		}
		ph, err := Plugin.Compile([]byte(c.conf), env)
		if err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx(c.target)
		ctx.Request.Method = c.method
		got := plugintest.Send(ph, ctx)
		if got == nil || got.Status != c.status {
			t.Errorf("%s: %s %s: %v, want %d", c.conf, c.method, c.target, got, c.status)
		}
		if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{{Name: "type", Config: `{"uri":1}`, Invalid: `property "uri" validation failed: wrong type: expected string, got number`}})
}

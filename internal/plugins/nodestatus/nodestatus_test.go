package nodestatus

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	env := plugintest.Env(time.Now)
	env.ID = "gate-1"
	env.Connections = func() plugin.Connections {
		return plugin.Connections{Accepted: 9, Requests: 20, Active: 5, Busy: 2}
	}
	all := Plugin.Endpoints(env)
	if len(all) != 1 || all[0].Path != "/apisix/status" || len(all[0].Methods) != 1 || all[0].Methods[0] != "GET" {
		t.Fatalf("%+v", all)
	}
	reply := all[0].Serve(plugintest.NewCtx("/apisix/status"))
	const want = `{"id":"gate-1","status":{"total":"20","accepted":"9","handled":"9","active":"5","reading":"0","writing":"2","waiting":"3"}}`
	if reply.Status != 200 || string(reply.Body) != want {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	ph, err := Plugin.Compile([]byte(`{}`), env)
	if err != nil || ph.Access != nil || ph.Rewrite != nil {
		t.Errorf("%+v, %v", ph, err)
	}
}

package management

import (
	"context"
	"testing"
	"time"

	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func TestManagement(t *testing.T) {
	rt := threescaletest.Runtime(time.Now)
	defer rt.Close()
	var asked string
	rt.Manage = func(_ context.Context, mode, method, path string, read func(int64) ([]byte, error)) threescale.Managed {
		body, err := read(100)
		if err != nil {
			t.Error(err)
		}
		asked = mode + " " + method + " " + path + " " + string(body)
		return threescale.Managed{Status: 200, Type: "application/json", Body: []byte("{}\n")}
	}
	p := threescaletest.Product(t, rt, `{"id":1}`, "")
	for config, want := range map[string]string{`{}`: " GET /status/info ", `{"mode":"debug"}`: "debug GET /status/info "} {
		ph := threescaletest.Compile(t, p, Policy, config)
		reply := ph.Content(threescaletest.Ctx(p, "/status/info"))
		if reply == nil || reply.Status != 200 || string(reply.Body) != "{}\n" || asked != want {
			t.Errorf("%s: %+v, asked %q, want %q", config, reply, asked, want)
		}
	}
	rt.Manage = nil
	if reply := threescaletest.Compile(t, p, Policy, `{}`).Content(threescaletest.Ctx(p, "/")); reply != nil {
		t.Errorf("%+v", reply)
	}
}

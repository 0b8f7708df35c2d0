package attachconsumerlabel

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"headers":{"X-Department":"$department","X-Company":"$company"}}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{"department": "devops", "company": "api7", "other": "x"}, "X-Other: o\r\nX-Company: api7\r\nX-Department: devops\r\n"},
		{map[string]string{"department": ""}, "X-Other: o\r\nX-Department: \r\n"},
		{nil, "X-Other: o\r\n"},
	} {
		ctx := plugintest.NewCtx("/", [2]string{"x-department", "forged"}, [2]string{"X_Company", "forged"}, [2]string{"X-Other", "o"})
		ctx.Consumer = &plugin.Consumer{Name: "jack", Labels: c.labels}
		for range 2 { // a further try changes nothing
			if plugintest.Send(ph, ctx) != nil {
				t.Fatal("refused")
			}
		}
		if got := string(ctx.Request.Header.AppendTo(nil)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.labels, got, c.want)
		}
	}
	ctx := plugintest.NewCtx("/", [2]string{"x-department", "forged"})
	if plugintest.Send(ph, ctx); len(ctx.Request.Header.AppendTo(nil)) > 0 {
		t.Error("without a consumer a client's own header passes")
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "absent", Config: `{}`, Invalid: `property "headers" is required`},
		{Name: "empty", Config: `{"headers":{}}`, Invalid: `property "headers" validation failed: expect object to have at least 1 properties`},
		{Name: "no dollar", Config: `{"headers":{"X":"label"}}`, Invalid: `property "headers" validation failed: failed to validate additional property X: failed to match pattern "^\\$.*" with "label"`},
	})
}

func TestNoAllocation(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"headers":{"X-Department":"$department"}}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/")
	who := &plugin.Consumer{Name: "jack", Labels: map[string]string{"department": "devops"}}
	run := func() {
		ctx.Request.Header.Reset()
		ctx.Consumer = who
		plugintest.Send(ph, ctx)
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

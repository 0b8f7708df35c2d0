package workflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

type h = map[string]string

// inner stands for a plugin that can be an action.
type inner struct {
	name      string
	open      int
	confs     []string
	ran, logs []string
}

type innerConf struct {
	Count int `json:"count" schema:"min=1"`
	Vid   int `json:"_vid" schema:"elsewhere"`
}

func (in *inner) spec() plugin.Spec {
	return plugin.Define(plugin.Meta{Name: in.name}, func(c *innerConf, env plugin.Env) (plugin.Phases, error) {
		if c.Count == 9 {
			return plugin.Phases{}, errors.New("nine")
		}
		in.open++
		in.confs = append(in.confs, string(env.Raw))
		id := fmt.Sprint(in.name, " ", c.Count, " of ", c.Vid)
		return plugin.Phases{
			Access: func(x *plugin.Ctx) *plugin.Reply {
				in.ran = append(in.ran, id)
				if c.Count == 1 {
					return plugin.Text(503, "refused\n")
				}
				return nil
			},
			Log:   func(*plugin.Ctx) { in.logs = append(in.logs, id) },
			Close: func() { in.open-- },
		}, nil
	})
}

func TestActions(t *testing.T) {
	count, conn := &inner{name: "limit-count"}, &inner{name: "limit-conn"}
	const conf = `{"rules":[
		{"case":[["uri","==","/no"]],"actions":[["return",{"code":403}]]},
		{"case":["OR",["http_a","==","1"],["http_a","==","2"]],"actions":[["limit-count",{"count":2}],["return",{"code":400}]]},
		{"case":[["http_a","==","3"]],"actions":[["limit-conn",{"count":3}]]},
		{"case":[["http_a","==","4"]],"actions":[["limit-count",{"count":1}]]},
		{"case":[["http_a","==","5"]],"actions":[]},
		{"case":[["http_a","ipmatch","10.0.0.0/8"]],"actions":[["return",{"code":500}]]},
		{"case":[["http_b","==","1"]],"actions":[["return",{"code":404}]]}]}`
	const rejected = `{"error_msg":"rejected by workflow"}` + "\n"
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "rules", Config: conf, Plugins: []plugin.Spec{count.spec(), conn.spec()}, Requests: []plugintest.Request{
			{Target: "/no", Status: 403, Body: rejected},
			{Header: h{"a": "1"}},
			{Header: h{"a": "2", "b": "1"}},
			{Header: h{"a": "3"}},
			{Header: h{"a": "4"}, Status: 503, Body: "refused"},
			{Header: h{"a": "5", "b": "1"}},
			{Header: h{"b": "1"}, Status: 404, Body: rejected},
			{},
		}},
		{Name: "without a case", Config: `{"rules":[{"actions":[["return",{"code":201}]]}]}`, Requests: []plugintest.Request{{Status: 201, Body: rejected}}},
		{Name: "no rules", Config: `{"rules":[]}`, Requests: []plugintest.Request{{}}},
	})
	if got := strings.Join(count.ran, ", "); got != "limit-count 2 of 2, limit-count 2 of 2, limit-count 1 of 4" {
		t.Errorf("limit-count ran as %s", got)
	}
	if got := strings.Join(conn.logs, ", "); got != "limit-conn 3 of 3" || len(count.logs) != 3 {
		t.Errorf("limit-conn logged %s, limit-count %v", got, count.logs)
	}
	if count.open != 0 || conn.open != 0 {
		t.Error("actions stay open")
	}
	if count.confs[0] != `{"_vid":2,"count":2}` {
		t.Errorf("compiled %v", count.confs)
	}
}

// TestSkip: the plugin that ran as an action does not run again by itself.
func TestSkip(t *testing.T) {
	env := plugintest.Env(time.Now)
	ph, err := Plugin.Compile([]byte(`{"rules":[{"case":[["http_a","==","1"]],"actions":[["return",{"code":403}]]}]}`), env)
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	plugintest.Send(ph, c)
	ph.Log(c)
	if c.Skips("return") {
		t.Error("skips what did not run")
	}
	c = plugintest.NewCtx("/", [2]string{"a", "1"})
	if plugintest.Send(ph, c); !c.Skips("return") || c.Skips("limit-count") {
		t.Error("does not skip what ran")
	}
	ph.Close()
}

func TestInvalid(t *testing.T) {
	in := &inner{name: "limit-count"}
	for conf, want := range map[string]string{
		`{}`:                                    `property "rules" is required`,
		`{"rules":[{"case":[["a","==","b"]]}]}`: `property "rules" validation failed: failed to validate item 1: property "actions" is required`,
		`{"rules":[{"actions":[[]]}]}`:          `property "rules" validation failed: failed to validate item 1: property "actions" validation failed: failed to validate item 1: expect array to have at least 1 items`,
		`{"rules":[{"case":[],"actions":[["return",{"code":403}]]}]}`:                       `property "rules" validation failed: failed to validate item 1: property "case" validation failed: expect array to have at least 1 items`,
		`{"rules":[{"case":[["uri","~!","/a"]],"actions":[["return",{"code":403}]]}]}`:      `failed to validate the 'case' expression: invalid operator '~!'`,
		`{"rules":[{"actions":[["return",{}]]}]}`:                                           `failed to validate the 'return' action: property "code" is required`,
		`{"rules":[{"actions":[["return"]]}]}`:                                              `failed to validate the 'return' action: property "code" is required`,
		`{"rules":[{"actions":[["return",{"code":"403"}]]}]}`:                               `failed to validate the 'return' action: property "code" validation failed: wrong type: expected integer, got string`,
		`{"rules":[{"actions":[["return",{"code":99}]]}]}`:                                  `failed to validate the 'return' action: property "code" validation failed: expected 99 to be at least 100`,
		`{"rules":[{"actions":[["fake",{}]]}]}`:                                             `unsupported action: fake`,
		`{"rules":[{"actions":[[1,{}]]}]}`:                                                  `unsupported action: 1`,
		`{"rules":[{"actions":[["limit-count",{"count":0}]]}]}`:                             `failed to validate the 'limit-count' action: property "count" validation failed: expected 0 to be at least 1`,
		`{"rules":[{"actions":[["limit-count",1]]}]}`:                                       `failed to validate the 'limit-count' action: wrong type: expected object`,
		`{"rules":[{"actions":[["limit-count",{"count":2}],["limit-count",{"count":9}]]}]}`: `failed to validate the 'limit-count' action: nine`,
	} {
		plugintest.Run(t, Plugin, []plugintest.Case{{Name: conf, Config: conf, Invalid: want, Plugins: []plugin.Spec{in.spec()}}})
	}
	if in.open != 0 {
		t.Errorf("%d actions stay open", in.open)
	}
}

func TestNoAllocation(t *testing.T) {
	env := plugintest.Env(time.Now)
	ph, err := Plugin.Compile([]byte(`{"rules":[{"case":[["http_a","==","1"]],"actions":[["return",{"code":403}]]}]}`), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"1", "2"} {
		c := plugintest.NewCtx("/", [2]string{"a", value})
		send := func() {
			c.Reset()
			plugintest.Send(ph, c)
			ph.Log(c)
		}
		send()
		if n := testing.AllocsPerRun(100, send); n != 0 {
			t.Errorf("a: %s: %v allocations", value, n)
		}
	}
}

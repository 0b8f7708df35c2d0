package conditional

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

type h = map[string]string

// Mark is the configuration of the tests' policies.
type Mark struct {
	Text string `json:"text"`
}

// mark is a policy that has every phase.
func mark(name string, guard bool) plugin.Spec {
	return plugin.Define(plugin.Meta{Name: name, Guard: guard}, func(c *Mark, _ plugin.Env) (plugin.Phases, error) {
		if c.Text == "bad" {
			return plugin.Phases{}, errors.New("it is bad")
		}
		note := func(phase string) func(*plugin.Ctx) *plugin.Reply {
			return func(x *plugin.Ctx) *plugin.Reply {
				x.Request.Header.Add(phase, c.Text)
				return nil
			}
		}
		return plugin.Phases{
			Rewrite: note("Rewrite"), Access: note("Access"), Content: note("Content"), BeforeProxy: note("Before"),
			Header: func(x *plugin.Ctx) { x.Response.Header.Add("Header", c.Text) },
			Body:   func(*plugin.Ctx) plugin.BodyFilter { return suffix(c.Text) },
			Log:    func(x *plugin.Ctx) { x.Request.Header.Add("Log", c.Text) },
		}, nil
	})
}

// suffix adds itself to bodies.
type suffix string

func (s suffix) Size(n int64) int64 { return n + int64(len(s)) }
func (s suffix) Write(b []byte, last bool) []byte {
	if last {
		b = append(bytes.Clone(b), s...)
	}
	return b
}

// refuse refuses.
var refuse = plugin.Define(plugin.Meta{Name: "refuse", Guard: true}, func(*Mark, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Access: func(*plugin.Ctx) *plugin.Reply { return plugin.Text(403, "no") }}, nil
})

const onX = `"condition":{"operations":[{"left":"{{ headers.x }}","left_type":"liquid","op":"==","right":"1"}]}`

func Test(t *testing.T) {
	x := h{"X": "1"}
	all := []string{"Rewrite", "Access", "Content", "Before", "Log"}
	plugins := []plugin.Spec{mark("mark", false), mark("guard", true), refuse}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{
			Name: "every phase", Config: `{` + onX + `,"policy_chain":[{"name":"apicast.policy.mark","version":"builtin","configuration":{"text":"a"}},{"name":"mark","configuration":{"text":"b"}}]}`,
			Plugins: plugins, Requests: []plugintest.Request{
				{Gone: all, Reply: h{"Header": ""}, Answer: plugintest.Answer{Body: "body"}, Body: "body"},
				{
					Header: x, Upstream: h{"Rewrite": "a", "Access": "a", "Content": "a", "Before": "a", "Log": "a"},
					Reply: h{"Header": "a"}, Answer: plugintest.Answer{Body: "body"}, Body: "bodyab",
					Look: func(t *testing.T, c *plugin.Ctx) {
						var order []string
						for _, f := range c.Request.Header.Fields() {
							order = append(order, f.Value)
						}
						if s := strings.Join(order, ""); s != "1abababab"+"ab" {
							t.Errorf("order %s", s)
						}
					},
				},
			},
		},
		{Name: "refusal", Config: `{` + onX + `,"policy_chain":[{"name":"refuse"},{"name":"mark","configuration":{"text":"a"}}]}`, Plugins: plugins, Requests: []plugintest.Request{
			{}, {Header: x, Status: 403, Body: "no", Gone: []string{"Access"}},
		}},
		{Name: "never", Config: `{"condition":{"operations":[{"left":"a","op":"==","right":"b"}]},"policy_chain":[{"name":"refuse"}]}`, Plugins: plugins, Requests: []plugintest.Request{{}}},
		{Name: "no policies", Config: `{` + onX + `}`, Requests: []plugintest.Request{{Header: x}}},
		{Name: "one left out", Config: `{` + onX + `,"policy_chain":[{"name":"mark","configuration":{"text":"bad"}},{"name":"mark","configuration":{"text":"b"}}]}`, Plugins: plugins, Requests: []plugintest.Request{
			{Header: x, Upstream: h{"Access": "b"}},
		}},
		{Name: "a broken guard", Config: `{` + onX + `,"policy_chain":[{"name":"guard","configuration":{"text":"bad"}}]}`, Plugins: plugins, Invalid: "policy_chain[0]: guard"},
		{Name: "an unknown policy", Config: `{` + onX + `,"policy_chain":[{"name":"nothing"}]}`, Plugins: plugins, Invalid: "nothing"},
		{Name: "another version", Config: `{` + onX + `,"policy_chain":[{"name":"mark","version":"2.0"}]}`, Plugins: plugins, Invalid: "2.0"},
		{Name: "no operations", Config: `{"policy_chain":[{"name":"mark","configuration":{"text":"b"}}]}`, Plugins: plugins, Requests: []plugintest.Request{{Header: x, Gone: all}}},
		{Name: "no operations before a guard", Config: `{"condition":{},"policy_chain":[{"name":"refuse"}]}`, Plugins: plugins, Invalid: "no operations"},
		{Name: "no pattern", Config: `{"condition":{"operations":[{"left":"a","op":"matches","right":"("}]},"policy_chain":[{"name":"refuse"}]}`, Plugins: plugins, Invalid: "operations[0]"},
		{Name: "no chain", Config: `{` + onX + `,"policy_chain":[{"version":"1"}]}`, Invalid: "has no name"},
	})
}

// TestFaultIsKnown: on_failed learns of what is left out.
func TestFaultIsKnown(t *testing.T) {
	env := plugintest.Env(time.Now)
	p := threescaletest.Of(t, nil)
	env.Product = p
	env.Plugin = func(string) (plugin.Meta, bool) { return plugin.Meta{}, true }
	env.Compile = func(string, json.RawMessage) (plugin.Phases, error) { return plugin.Phases{}, errors.New("bad") }
	if _, err := Policy.Compile([]byte(`{`+onX+`,"policy_chain":[{"name":"x"}]}`), env); err != nil {
		t.Fatal(err)
	}
	if !p.Broken {
		t.Error("the product passes for whole")
	}
}

// TestAnswersFailures: on_failed in the chain answers for what does not work there,
// where the condition holds.
func TestAnswersFailures(t *testing.T) {
	p := threescaletest.Of(t, nil)
	failed := plugin.Define(plugin.Meta{Name: "on_failed"}, func(*struct{}, plugin.Env) (plugin.Phases, error) {
		p.OnBroken = plugin.Text(419, "broken")
		return plugin.Phases{}, nil
	})
	threescaletest.Run(t, Policy, []plugintest.Case{
		{
			Name: "broken", Product: p, Config: `{` + onX + `,"policy_chain":[{"name":"nothing","version":"1.0"},{"name":"on_failed"}]}`,
			Plugins:  []plugin.Spec{failed},
			Requests: []plugintest.Request{{}, {Header: h{"X": "1"}, Status: 419, Body: "broken"}},
		},
		{Name: "whole", Product: p, Config: `{` + onX + `,"policy_chain":[{"name":"on_failed"}]}`, Plugins: []plugin.Spec{failed}, Requests: []plugintest.Request{{Header: h{"X": "1"}}}},
	})
	if p.Broken {
		t.Error("the product passes for broken")
	}
}

// TestCloses: what the policies have begun they end, whether the condition ever
// holds or not.
func TestCloses(t *testing.T) {
	closed := 0
	env := plugintest.Env(time.Now)
	env.Product = threescaletest.Of(t, nil)
	env.Plugin = func(name string) (plugin.Meta, bool) { return plugin.Meta{Guard: name == "guard"}, true }
	env.Compile = func(name string, _ json.RawMessage) (plugin.Phases, error) {
		if name == "guard" {
			return plugin.Phases{}, errors.New("bad")
		}
		return plugin.Phases{Close: func() { closed++ }}, nil
	}
	for i, config := range []string{
		`{` + onX + `,"policy_chain":[{"name":"x"},{"name":"y"}]}`,
		`{"condition":{"operations":[{"left":"a","op":"==","right":"b"}]},"policy_chain":[{"name":"x"},{"name":"y"}]}`,
		`{` + onX + `,"policy_chain":[{"name":"x"},{"name":"y"},{"name":"guard"}]}`,
	} {
		ph, err := Policy.Compile([]byte(config), env)
		if err == nil {
			ph.Close()
		}
		if (err != nil) != (i == 2) || closed != 2*(i+1) {
			t.Errorf("%s: %v, %d closed", config, err, closed)
		}
	}
}

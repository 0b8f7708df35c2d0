package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// filtered is a plan of a, b and c, of which b has a filter.
func filtered(t *testing.T, filter string) (*journal, *Plan) {
	t.Helper()
	j, specs := newJournal()
	p, err := Compile(specs, []Conf{
		{Plugin: "a", Raw: json.RawMessage(`{}`)},
		{Plugin: "b", Raw: json.RawMessage(`{"_meta":{"filter":` + filter + `}}`)},
	}, testEnv())
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	t.Cleanup(func() {
		p.Release()
		if j.open != 0 {
			t.Errorf("%d plugins left open", j.open)
		}
	})
	return j, p
}

// serve runs every phase.
func serve(p *Plan, c *plugin.Ctx) {
	r := Run{Route: p}
	r.Rewrite(c)
	r.Access(c)
	r.Before(c)
	c.Response = new(wire.Response)
	r.Header(c)
	r.OpenBody(nil, c)
	r.Log(c)
}

func TestFilter(t *testing.T) {
	const b = "b rewrite, b access, b before, b header, b body, b log"
	for filter, want := range map[string]string{
		`[]`:                                    b,
		`[["arg_x","==","1"]]`:                  b,
		`[["arg_x","==","2"]]`:                  "",
		`["OR",["arg_x","2"],["uri","==","/"]]`: b,
		`[["arg_flag","ipmatch","::1"]]`:        b, // it has no value
		`[["arg_flag","!","ipmatch","::1"]]`:    b,
	} {
		j, p := filtered(t, filter)
		c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Target: "/?x=1&flag"}, Path: "/"}
		serve(p, c)
		var of []string
		for _, line := range j.lines {
			if strings.HasPrefix(line, "b ") {
				of = append(of, line)
			}
		}
		if got := strings.Join(of, ", "); got != want || len(j.lines)-len(of) != 6 {
			t.Errorf("%s: %s, want %s; %d lines of a", filter, got, want, len(j.lines)-len(of))
		}
	}
}

// What the filter says first holds for the request, and for no other.
func TestFilterHolds(t *testing.T) {
	j, p := filtered(t, `[["http_x","==","1"]]`)
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Target: "/"}, Path: "/"}
	c.SetHeader("x", "1")
	r := Run{Route: p}
	r.Rewrite(c)
	c.DelHeader("x")
	r.Log(c)
	if got := strings.Join(j.lines, ", "); got != "a rewrite, b rewrite, a log, b log" {
		t.Errorf("ran %s", got)
	}
	c.Reset()
	j.lines = nil
	r.Rewrite(c)
	if got := strings.Join(j.lines, ", "); got != "a rewrite" {
		t.Errorf("the next request ran %s", got)
	}
}

func TestFilterErrors(t *testing.T) {
	j, specs := newJournal()
	for filter, want := range map[string]string{
		`[["arg_x","=","1"]]`: "failed to validate the 'vars' expression: invalid operator '='",
		`["arg_x","==","1"]`:  "failed to validate the 'vars' expression: rule should be wrapped inside brackets",
		`"x"`:                 `failed to check the configuration of plugin b err: property "_meta" validation failed: property "filter" validation failed: wrong type: expected array, got string`,
	} {
		_, err := Compile(specs, []Conf{{Plugin: "b", Raw: json.RawMessage(`{"_meta":{"filter":` + filter + `}}`)}}, testEnv())
		if err == nil || err.Error() != want || j.open != 0 {
			t.Errorf("%s: %v, want %s; %d left open", filter, err, want, j.open)
		}
	}
}

func TestFilterAllocations(t *testing.T) {
	_, specs := newJournal()
	quiet := NewSpecs([]plugin.Spec{plugin.Define(plugin.Meta{Name: "b", Doc: "Test plugin."}, func(*conf, plugin.Env) (plugin.Phases, error) {
		pass := func(*plugin.Ctx) *plugin.Reply { return nil }
		return plugin.Phases{Rewrite: pass, Access: pass, Log: func(*plugin.Ctx) {}}, nil
	})})
	specs["b"] = quiet["b"]
	p, err := Compile(specs, []Conf{{Plugin: "b", Raw: json.RawMessage(`{"_meta":{"filter":[["uri","==","/"]]}}`)}}, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Target: "/?x=1"}, Path: "/"}
	run := func() {
		c.Reset()
		r := Run{Route: p}
		r.Rewrite(c)
		r.Access(c)
		r.Log(c)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

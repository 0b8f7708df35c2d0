package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// conf is the configuration of every test plugin.
type conf struct {
	V      string `json:"v" schema:"default=" doc:"Said when a phase runs; empty: nothing."`
	Refuse string `json:"refuse" schema:"default=" doc:"Phase to refuse in."`
	Broken bool   `json:"broken" schema:"default=false" doc:"Does not compile."`
}

// journal collects what ran.
type journal struct {
	lines []string
	open  int
}

// define makes a test plugin that says "NAME phase V" in every phase.
func (j *journal) define(name string, priority int, change func(*plugin.Meta)) plugin.Spec {
	m := plugin.Meta{Name: name, Priority: priority, Doc: "Test plugin."}
	if change != nil {
		change(&m)
	}
	return plugin.Define(m, func(c *conf, env plugin.Env) (plugin.Phases, error) {
		if c.Broken {
			return plugin.Phases{}, errors.New("broken")
		}
		j.open++
		say := func(phase string) { j.lines = append(j.lines, strings.TrimSpace(name+" "+phase+" "+c.V)) }
		refuse := plugin.Text(403, "no")
		request := func(phase string) func(*plugin.Ctx) *plugin.Reply {
			return func(*plugin.Ctx) *plugin.Reply {
				say(phase)
				if c.Refuse == phase {
					return refuse
				}
				return nil
			}
		}
		return plugin.Phases{
			Rewrite: request("rewrite"), Access: request("access"), BeforeProxy: request("before"),
			Header: func(*plugin.Ctx) { say("header") },
			Log:    func(*plugin.Ctx) { say("log") },
			Body:   func(*plugin.Ctx) plugin.BodyFilter { say("body"); return nil },
			Close:  func() { j.open-- },
		}, nil
	})
}

func newJournal() (*journal, Specs) {
	j := new(journal)
	return j, NewSpecs([]plugin.Spec{
		j.define("a", 30, nil), j.define("b", 20, nil), j.define("c", 10, nil),
		j.define("metrics", 5, func(m *plugin.Meta) { m.PreferRoute = true }),
	})
}

func testEnv() Env {
	return Env{Env: plugin.Env{Keep: new(plugin.Keeper).Uses(), Now: time.Now}}
}

// compileAll compiles "a", "b:v", "c!" (broken) and so on for an owner.
func compileAll(t *testing.T, specs Specs, owner, plugins string) *Plan {
	t.Helper()
	if plugins == "" {
		return nil
	}
	var confs []Conf
	for p := range strings.FieldsSeq(plugins) {
		name, raw, _ := strings.Cut(p, "=")
		if raw == "" {
			raw = fmt.Sprintf(`{"v":%q}`, owner)
		}
		confs = append(confs, Conf{Plugin: name, Owner: owner, Raw: []byte(raw)})
	}
	p, err := Compile(specs, confs, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p
}

// play runs a request through a Run and returns what was said.
func (j *journal) play(r *Run, group, consumer *Plan) string {
	j.lines = nil
	c := &plugin.Ctx{Request: &wire.Request{}}
	refused := r.Rewrite(c) != nil
	if !refused {
		r.Attach(group, consumer)
		refused = r.Access(c) != nil
	}
	if !refused {
		r.Before(c)
	}
	r.Header(c)
	r.OpenBody(nil, c)
	r.Log(c)
	return strings.Join(j.lines, ", ")
}

func TestRun(t *testing.T) {
	for _, c := range []struct{ name, global, route, group, consumer, want string }{
		{"nothing", "", "", "", "", ""},
		{"route in order of priority", "", "c a", "", "", "a rewrite r, c rewrite r, a access r, c access r, a before r, c before r, a header r, c header r, a body r, c body r, a log r, c log r"},
		{"global rules first", "c", "a", "", "", "c rewrite g, a rewrite r, c access g, a access r, c before g, a before r, c header g, a header r, c body g, a body r, c log g, a log r"},
		{"no route", "a", "", "", "", "a rewrite g, a access g, a before g, a header g, a body g, a log g"},
		{"own priority", "", `a c={"v":"r","_meta":{"priority":99}}`, "", "", "c rewrite r, a rewrite r, c access r, a access r, c before r, a before r, c header r, a header r, c body r, a body r, c log r, a log r"},
		{"disabled", "", `a={"_meta":{"disable":true}} b`, "", "", "b rewrite r, b access r, b before r, b header r, b body r, b log r"},
		{"refused in rewrite", "", `a={"v":"r","refuse":"rewrite"} b`, "", "", "a rewrite r, a header r, b header r, a body r, b body r, a log r, b log r"},
		{"consumer replaces and adds", "", "a c", "", "b c", "a rewrite r, c rewrite r, b rewrite k, c rewrite k, a access r, b access k, c access k, a before r, b before k, c before k, a header r, b header k, c header k, a body r, b body k, c body k, a log r, b log k, c log k"},
		{"consumer over group over route", "", "a", "a b", "a", "a rewrite r, a rewrite k, b rewrite p, a access k, b access p, a before k, b before p, a header k, b header p, a body k, b body p, a log k, b log p"},
		{"route preferred over global", "metrics", "metrics", "", "", "metrics rewrite r, metrics access r, metrics before r, metrics header r, metrics body r, metrics log r"},
		{"global if the route has none", "metrics", "c", "", "", "metrics rewrite g, c rewrite r, metrics access g, c access r, metrics before g, c before r, metrics header g, c header r, metrics body g, c body r, metrics log g, c log r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, specs := newJournal()
			r := &Run{Global: compileAll(t, specs, "g", c.global), Route: compileAll(t, specs, "r", c.route)}
			got := j.play(r, compileAll(t, specs, "p", c.group), compileAll(t, specs, "k", c.consumer))
			if got != c.want {
				t.Errorf("\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestCompileReportsAll(t *testing.T) {
	j, specs := newJournal()
	_, err := Compile(specs, []Conf{
		{Plugin: "a", Owner: "r", Raw: []byte(`{}`)},
		{Plugin: "b", Owner: "r", Raw: []byte(`{"broken":true}`)},
		{Plugin: "nobody", Owner: "r", Raw: []byte(`{}`)},
		{Plugin: "c", Owner: "r", Raw: []byte(`{"broken":true,"_meta":{"disable":true}}`)},
	}, testEnv())
	want := "failed to check the configuration of plugin b err: broken\nunknown plugin [nobody]"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if j.open != 0 {
		t.Errorf("%d left open", j.open)
	}
}

func TestErrorResponse(t *testing.T) {
	j, specs := newJournal()
	for raw, want := range map[string]string{
		`{"refuse":"access"}`: "no",
		`{"refuse":"access","_meta":{"error_response":"mine"}}`:    "mine",
		`{"refuse":"access","_meta":{"error_response":{"a":"b"}}}`: `{"a":"b"}` + "\n",
	} {
		p, err := Compile(specs, []Conf{{Plugin: "a", Raw: []byte(raw)}}, testEnv())
		if err != nil {
			t.Fatal(err)
		}
		r := Run{Route: p}
		if reply := r.Access(&plugin.Ctx{}); reply == nil || string(reply.Body) != want || reply.Status != 403 {
			t.Errorf("%s: %+v", raw, reply)
		}
		p.Release()
	}
	if j.open != 0 {
		t.Errorf("%d left open", j.open)
	}
}

// Running costs no allocation, merged or not.
func TestRunAllocatesNothing(t *testing.T) {
	quiet := func(name string, priority int) plugin.Spec {
		return plugin.Define(plugin.Meta{Name: name, Priority: priority, Doc: "Test plugin."},
			func(*conf, plugin.Env) (plugin.Phases, error) {
				return plugin.Phases{
					Rewrite: func(*plugin.Ctx) *plugin.Reply { return nil },
					Access:  func(*plugin.Ctx) *plugin.Reply { return nil },
					Header:  func(*plugin.Ctx) {}, Log: func(*plugin.Ctx) {},
					Body: func(*plugin.Ctx) plugin.BodyFilter { return nil },
				}, nil
			})
	}
	specs := NewSpecs([]plugin.Spec{quiet("a", 3), quiet("b", 2), quiet("c", 1)})
	global, route, own := compileAll(t, specs, "g", "b"), compileAll(t, specs, "r", "a b c"), compileAll(t, specs, "k", "b")
	c := &plugin.Ctx{Request: &wire.Request{}}
	for name, consumer := range map[string]*Plan{"plain": nil, "merged": own} {
		n := testing.AllocsPerRun(100, func() {
			r := Run{Global: global, Route: route}
			r.Rewrite(c)
			r.Attach(nil, consumer)
			r.Access(c)
			r.Before(c)
			r.Header(c)
			r.OpenBody(nil, c)
			r.Log(c)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

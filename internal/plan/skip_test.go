package plan

import (
	"strings"
	"testing"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// TestSkip: a plugin that another has run is left out of the request phases
// that follow, and still sees the end.
func TestSkip(t *testing.T) {
	j, specs := newJournal()
	specs["skipper"] = Spec{Spec: plugin.Define(plugin.Meta{Name: "skipper", Priority: 25},
		func(*struct{}, plugin.Env) (plugin.Phases, error) {
			return plugin.Phases{Access: func(c *plugin.Ctx) *plugin.Reply { c.Skip("b"); return nil }}, nil
		}), place: uint8(len(specs))}
	r := &Run{Global: compileAll(t, specs, "g", "b"), Route: compileAll(t, specs, "r", "a b skipper")}
	const want = "b rewrite g, a rewrite r, b rewrite r, b access g, a access r, a before r, " +
		"b header g, a header r, b header r, b body g, a body r, b body r, b log g, a log r, b log r"
	if got := j.play(r, nil, nil); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	consumer := compileAll(t, specs, "k", "b c")
	const merged = "b rewrite g, a rewrite r, b rewrite r, b rewrite k, c rewrite k, b access g, a access r, c access k, a before r, c before k, " +
		"b header g, a header r, b header k, c header k, b body g, a body r, b body k, c body k, b log g, a log r, b log k, c log k"
	r = &Run{Global: compileAll(t, specs, "g", "b"), Route: compileAll(t, specs, "r", "a b skipper")}
	if got := j.play(r, nil, consumer); got != merged {
		t.Errorf("\n%s\nwant\n%s", got, merged)
	}
	c := &plugin.Ctx{Request: new(wire.Request)}
	c.Skip("b")
	if c.Reset(); c.Skips("b") {
		t.Error("the next request skips, too")
	}
}

// TestEmptyArray: Lua's clients write an empty object as an array.
func TestEmptyArray(t *testing.T) {
	_, specs := newJournal()
	p, err := Compile(specs, []Conf{{Plugin: "a", Owner: "r", Raw: []byte(" [ ]")}}, testEnv())
	if err == nil {
		p.Release()
	} else {
		t.Error(err)
	}
	p, err = Compile(specs, []Conf{{Plugin: "a", Owner: "r", Raw: []byte("[]\n")}}, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
}

// TestLogOutlivesPanics: a step that panics keeps no other from ending what it
// has begun.
func TestLogOutlivesPanics(t *testing.T) {
	j, specs := newJournal()
	boom := func(*plugin.Ctx) { panic("boom") }
	specs["boom"] = Spec{Spec: plugin.Define(plugin.Meta{Name: "boom", Priority: 99},
		func(*struct{}, plugin.Env) (plugin.Phases, error) { return plugin.Phases{Log: boom}, nil }), place: uint8(len(specs))}
	r := &Run{Global: compileAll(t, specs, "g", "boom a"), Route: compileAll(t, specs, "r", "boom b")}
	c := &plugin.Ctx{Request: new(wire.Request)}
	func() {
		defer func() {
			err, ok := recover().(error)
			if !ok || !strings.HasPrefix(err.Error(), "plugin boom of g: boom\n") {
				t.Errorf("%v", err)
			}
		}()
		r.Log(c)
	}()
	if got := strings.Join(j.lines, ", "); got != "a log g, b log r" {
		t.Error(got)
	}
}

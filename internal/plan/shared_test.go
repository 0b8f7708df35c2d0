package plan

import (
	"encoding/json"
	"errors"
	"testing"

	"weir/internal/plugin"
)

var errBroken = errors.New("broken")

// TestShared: equal configurations of a Shared plugin are compiled once and closed
// with the last that uses them; other ones, and those that fail, are apart.
func TestShared(t *testing.T) {
	compiled, open := 0, 0
	spec := plugin.Define(plugin.Meta{Name: "same", Doc: "Test plugin."}, func(c *conf, env plugin.Env) (plugin.Phases, error) {
		compiled++
		if env.Owner != "" || env.Keep != nil {
			t.Errorf("a shared configuration has the owner %q and keeps %v", env.Owner, env.Keep)
		}
		if c.Broken {
			return plugin.Phases{}, errBroken
		}
		open++
		return plugin.Phases{
			Rewrite: func(*plugin.Ctx) *plugin.Reply { return nil },
			Close:   func() { open-- },
		}, nil
	}, plugin.Shared(), plugin.Metadata[conf]())
	specs, env := NewSpecs([]plugin.Spec{spec}), testEnv()
	keeper := new(plugin.Keeper)
	env.Keep = keeper.Uses()
	metadata := "{}"
	env.Metadata = func(string) json.RawMessage { return json.RawMessage(metadata) }
	compile := func(owner, raw string) *Plan {
		p, err := Compile(specs, []Conf{{Plugin: "same", Owner: owner, Raw: []byte(raw)}}, env)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := compile("routes/1", `{"v":"1"}`), compile("routes/2", `{"v":"1"}`)
	if compiled != 1 || len(b.Rewrite) != 1 {
		t.Errorf("equal configurations: compiled %d times, %d functions", compiled, len(b.Rewrite))
	}
	if a.Steps()[0].Owner != "routes/1" || b.Steps()[0].Owner != "routes/2" {
		t.Errorf("owners %s and %s", a.Steps()[0].Owner, b.Steps()[0].Owner)
	}
	other := compile("routes/3", `{"v":"2"}`)
	metadata = `{"v":"x"}`
	third := compile("routes/4", `{"v":"1"}`)
	if compiled != 3 {
		t.Errorf("another configuration, other metadata: compiled %d times, want 3", compiled)
	}
	for range 2 {
		if _, err := Compile(specs, []Conf{{Plugin: "same", Raw: []byte(`{"broken":true}`)}}, env); err == nil {
			t.Error("a broken configuration compiles")
		}
	}
	if compiled != 5 || keeper.Len() != 3 {
		t.Errorf("broken twice: compiled %d times, %d kept", compiled, keeper.Len())
	}
	a.Release()
	if open != 3 {
		t.Errorf("%d open while the second route uses it, want 3", open)
	}
	for _, p := range []*Plan{b, other, third} {
		p.Release()
	}
	if open != 0 || keeper.Len() != 0 {
		t.Errorf("%d open, %d kept at the end", open, keeper.Len())
	}
}

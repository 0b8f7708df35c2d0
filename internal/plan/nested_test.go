package plan

import (
	"encoding/json"
	"errors"
	"testing"

	"weir/internal/plugin"
)

// TestNested: a plugin that contains plugins learns of them and compiles them.
func TestNested(t *testing.T) {
	type config struct {
		Conf json.RawMessage `json:"conf"`
	}
	j, specs := newJournal()
	var meta plugin.Meta
	var known, unknown bool
	outer := plugin.Define(plugin.Meta{Name: "outer"}, func(c *config, env plugin.Env) (plugin.Phases, error) {
		meta, known = env.Plugin("metrics")
		_, unknown = env.Plugin("nothing")
		inner, err := env.Compile("a", c.Conf)
		return plugin.Phases{Close: inner.Close}, err
	})
	specs["outer"] = Spec{Spec: outer, place: uint8(len(specs))}

	compileOuter := func(inner string) (*Plan, error) {
		raw := json.RawMessage(`{"conf":` + inner + `}`)
		env := testEnv()
		env.Specs = specs
		return Compile(specs, []Conf{{Plugin: "outer", Owner: "routes/1", Raw: raw}}, env)
	}
	p, err := compileOuter(`{"v":"1"}`)
	if err != nil || j.open != 1 {
		t.Fatalf("%v, %d open", err, j.open)
	}
	if p.Release(); j.open != 0 {
		t.Errorf("%d still open", j.open)
	}
	if !known || unknown || meta.Name != "metrics" || !meta.PreferRoute {
		t.Errorf("metrics %+v %v, nothing %v", meta, known, unknown)
	}
	for inner, want := range map[string]string{
		`"blah"`:                      `wrong type: expected object, got string`,
		`{"v":1}`:                     `property "v" validation failed: wrong type: expected string, got number`,
		`{"broken":true}`:             `broken`,
		`{"_meta":{"filter":1}}`:      `property "_meta" validation failed: property "filter" validation failed: wrong type: expected array, got number`,
		`{"_meta":{"disable":"yes"}}`: `property "_meta" validation failed: property "disable" validation failed: wrong type: expected boolean, got string`,
	} {
		_, err := compileOuter(inner)
		var outer *plugin.ConfigError
		var refused *plugin.ConfigError
		if !errors.As(err, &outer) || !errors.As(outer.Err, &refused) || refused.Plugin != "a" || refused.Err.Error() != want {
			t.Errorf("%s: %v", inner, err)
		}
	}
}

package plan

import (
	"encoding/json"
	"testing"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// FuzzMeta: whatever stands in _meta, a configuration is refused or runs, and nothing
// is left open.
func FuzzMeta(f *testing.F) {
	for _, s := range []string{
		`{"v":"x","_meta":{"disable":true}}`, `{"_meta":{"priority":1e3}}`, `{"_meta":{"priority":-9223372036854775808}}`, `[]`,
		`{"_meta":{"filter":[["uri","~~","^/a"]],"error_response":{"a":[]}}}`, `{"refuse":"access","_meta":{"error_response":"\u0000"}}`, `{"broken":true}`, `{"_meta":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		j, specs := newJournal()
		env := testEnv()
		p, err := Compile(specs, []Conf{{Plugin: "a", Raw: json.RawMessage(`{"v":"1"}`)}, {Plugin: "b", Owner: "o", Raw: json.RawMessage(raw)}}, env)
		if (p == nil) != (err != nil) {
			t.Fatalf("%q: %v, %v", raw, p, err)
		}
		if p != nil {
			c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Target: "/a"}, Path: "/a"}
			serve(p, c)
			p.Release()
		}
		if j.open != 0 {
			t.Errorf("%q: %d plugins are left open", raw, j.open)
		}
	})
}

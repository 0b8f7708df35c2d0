package mocking

import (
	"encoding/json"
	"testing"
)

// FuzzShape: what a schema draws is JSON.
func FuzzShape(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"type":"string","example":"\u2028\""},"b":{"type":"array","items":{"type":"integer","example":1.5}},"c":{"type":"x"}}}`,
		`{"type":"array","items":{"type":"array"}}`, `{"type":"OBJECT"}`, `{"type":"number","example":1e999}`, `{"type":"string"}`,
	} {
		f.Add(s, 0.5)
	}
	f.Fuzz(func(t *testing.T, schema string, draw float64) {
		s, err := shapeOf(json.RawMessage(schema), 1)
		if err != nil || !s.there() {
			return
		}
		rand := func() float64 {
			if draw >= 0 && draw < 1 {
				return draw
			}
			return 0
		}
		if text := s.appendJSON(nil, rand); !json.Valid(text) {
			t.Errorf("%s: %s", schema, text)
		}
		s.appendXML(nil, 0, rand)
	})
}

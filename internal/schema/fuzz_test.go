package schema

import (
	"encoding/json"
	"testing"
)

// FuzzDecode: no document makes a Schema panic, and what it fills in passes again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `1`, `"$env://x"`, `{"count":5,"nodes":[{"host":"a"}],"retries":null}`,
		`{"count":1e400,"big":-0,"small":1.0}`, `{"count":"x","codes":{},"by_name":[],"any":{}}`,
		`{"name":"a","auth":{},"list":[[],{}],"map":{"":"\u0000"}}`, `{"rules":[{"key":"x"}],"policy":"redis","names":[1,1]}`,
		`{"a":"\ud800","a\/b":[1e-400,1E400,-0.0]}`,
	} {
		f.Add([]byte(seed))
	}
	plain, tagged, tied := Of[settings](), Of[documented](), Of[sample]()
	f.Fuzz(func(t *testing.T, doc []byte) {
		_ = plain.Decode(doc, new(settings))
		_ = tagged.Decode(doc, new(documented))
		_ = tied.Decode(doc, new(sample))
		if (Syntax(doc) == nil) && !json.Valid(doc) {
			t.Errorf("%q passes and is not JSON", doc)
		}
		for _, s := range [...]*Schema{plain, tagged, tied} {
			full, err := s.Fill(doc)
			if err != nil {
				if err.Error() == "" {
					t.Errorf("%q: an error without words", doc)
				}
				continue
			}
			again, err := s.Fill(full)
			if err != nil || string(again) != string(full) {
				t.Errorf("%q filled is %s, filled again %s, %v", doc, full, again, err)
			}
		}
	})
}

// FuzzWords: every failure has words, whatever the schema.
func FuzzWords(f *testing.F) {
	f.Add([]byte(`{"oneOf":[{"type":"string"},{"not":{"minLength":2}}]}`), []byte(`"x"`))
	f.Add([]byte(`{"properties":{"a":{"$ref":"#/definitions/b"}},"definitions":{"b":{"if":{"type":"object"},"then":false}}}`), []byte(`{"a":{}}`))
	f.Add([]byte(`{"items":[{"enum":[1,"a"]}],"additionalItems":{"allOf":[{"type":"null"}]},"contains":{"const":1}}`), []byte(`[2,3]`))
	f.Add([]byte(`{"patternProperties":{"^a":{"maximum":1}},"propertyNames":{"minLength":2},"dependencies":{"ab":["c"]}}`), []byte(`{"ab":3,"b":1}`))
	f.Fuzz(func(t *testing.T, schema, doc []byte) {
		s, usable := parsed(schema)
		if !usable {
			return
		}
		if err := s.Check(doc); err != nil && err.Error() == "" {
			t.Errorf("%s for %s: an error without words", schema, doc)
		}
	})
}

// parsed is the Schema of doc if that is one; bad schemas panic, which is not
// what is tested.
func parsed(doc []byte) (s *Schema, usable bool) {
	defer func() {
		if recover() != nil {
			usable = false
		}
	}()
	s = Parse("fuzz", doc)
	s.check()
	return s, true
}

func BenchmarkDecode(b *testing.B) {
	s := Of[settings]()
	doc := []byte(`{"count":5,"nodes":[{"host":"a"},{"host":"b","port":81}],"headers":{"a":"b"},"timeout":{"read":1}}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Decode(doc, new(settings)); err != nil {
			b.Fatal(err)
		}
	}
}

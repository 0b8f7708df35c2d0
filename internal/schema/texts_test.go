package schema

import (
	"reflect"
	"testing"
)

type pair struct {
	User string `json:"user" schema:"required"`
	Pass string `json:"pass"`
}

func TestTextsOf(t *testing.T) {
	for _, c := range []struct {
		s    *Schema
		want bool
	}{
		{Of[pair](), true},
		{Of[struct {
			A string `json:"a" schema:"minLen=1"`
		}](), false},
		{Of[struct {
			A string `json:"a" schema:"default=x"`
		}](), false},
		{Of[struct {
			A int `json:"a"`
		}](), false},
		{Of[struct {
			A variable `json:"a"`
		}](), false},
		{Of[settings](), false}, {Of[sample](), false}, {Parse("p", []byte(`{"type":"object"}`)), false},
		{Of[pair]().With("_meta", []byte(`{"type":"object"}`), ""), false},
	} {
		if got := c.s.texts() != nil; got != c.want {
			t.Errorf("%s: %v", c.s.doc, got)
		}
	}
}

// FuzzTexts: what is stored in one pass is what checking and assigning store.
func FuzzTexts(f *testing.F) {
	for _, seed := range []string{
		`{"user":"a","pass":"b"}`, `{"user":"a"}`, `{"pass":"b"}`, ` { "pass" : "" , "user" : "$env://X" } `, `{"user":"a","user":"b"}`,
		`{"user":"a","more":1}`, `{"user":1}`, `{"user":"\u0061"}`, `{"User":"a"}`, `[]`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	s := Of[pair]()
	f.Fuzz(func(t *testing.T, doc []byte) {
		var got, want pair
		if !s.texts().decode(doc, reflect.ValueOf(&got).Elem()) {
			return
		}
		v, err := s.filled(doc)
		if err == nil {
			err = assign(reflect.ValueOf(&want).Elem(), v)
		}
		if err != nil || got != want {
			t.Errorf("%q: %+v, want %+v, %v", doc, got, want, err)
		}
	})
}

func BenchmarkDecodeTexts(b *testing.B) {
	s, doc := Of[pair](), []byte(`{"user":"jack","pass":"secret"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Decode(doc, new(pair)); err != nil {
			b.Fatal(err)
		}
	}
}

package schema

import (
	"reflect"
	"testing"
)

func TestScalar(t *testing.T) {
	type config struct {
		Value   Scalar  `json:"value"`
		Headers Headers `json:"headers"`
	}
	s := Of[config]()
	for doc, want := range map[string]Scalar{
		`"a"`: "a", `""`: "", `1`: "1", `1.0`: "1", `-0.5`: "-0.5", `1e3`: "1000", `100000000000000`: "1e+14", `0.1`: "0.1", `12345678901234567`: "1.2345678901235e+16", `10`: "10",
	} {
		var c config
		if err := s.Decode([]byte(`{"value":`+doc+`}`), &c); err != nil || c.Value != want {
			t.Errorf("%s: %q %v, want %q", doc, c.Value, err, want)
		}
	}
	var c config
	if err := s.Decode([]byte(`{"headers":{"b":"2","A":1}}`), &c); err != nil {
		t.Fatal(err)
	}
	if got := c.Headers.Sorted(); !reflect.DeepEqual(got, [][2]string{{"A", "1"}, {"b", "2"}}) {
		t.Error(got)
	}
	for doc, want := range map[string]string{
		`{"value":true}`:         `property "value" validation failed: value should match only one schema, but matches none`,
		`{"headers":{}}`:         `property "headers" validation failed: expect object to have at least 1 properties`,
		`{"headers":{"a":true}}`: `property "headers" validation failed: failed to validate a (matching "^[^:]+$"): value should match only one schema, but matches none`,
		`{"headers":{"a:":[]}}`:  `property "headers" validation failed: failed to validate a:: wrong type: expected one of string, number`,
	} {
		if err := s.Decode([]byte(doc), new(config)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", doc, err, want)
		}
	}
}

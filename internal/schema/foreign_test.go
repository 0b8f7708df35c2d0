package schema

import (
	"strings"
	"testing"
)

func TestForeign(t *testing.T) {
	s, err := Foreign([]byte(`{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":3},"n":{"type":"integer","default":3},"k":{"pattern":"^good$"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		`{"a":"abc"}`:                         `{"a":"abc","n":3}`,
		`{"a":"abc","k":"bad","k":"good"}`:    `{"a":"abc","k":"good","n":3}`,
		`{"a":"abc","n":1.0,"x":"<&>\u00e9"}`: `{"a":"abc","n":1,"x":"<&>é"}`,
		`{}`:                                  `property "a" is required`,
		`{"a":"ab"}`:                          `property "a" validation failed: string too short, expected at least 3, got 2`,
		// Strangers do not name our secrets.
		`{"a":"$env://X","k":"$env://X"}`: `property "k" validation failed: failed to match pattern "^good$" with "$env://X"`,
		`{"a":1}`:                         `property "a" validation failed: wrong type: expected string, got number`,
		`[`:                               `unexpected end of JSON input at character 1`,
		`{"a":"abc","n":1e999999999}`:     `number out of range at character 26`,
	} {
		got, err := s.Conform([]byte(doc))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s:\n got %s\nwant %s", doc, text, want)
		}
	}
}

func TestLuaTypes(t *testing.T) {
	s, err := Foreign([]byte(`{"properties":{"t":{"type":"table"},"f":{"type":"function"},"type":{"type":"string"},"e":{"enum":[{"type":"table"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for doc, ok := range map[string]bool{
		`{"t":{},"type":"table","e":{"type":"table"}}`: true, `{"t":[1]}`: true, `{"t":1}`: false, `{"f":1}`: false, `{"f":{}}`: false,
	} {
		if _, err := s.Conform([]byte(doc)); (err == nil) != ok {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

func TestForeignErrors(t *testing.T) {
	for doc, want := range map[string]string{
		`{"type":"test"}`: "invalid JSON type: test",
		`{"properties":{"a":{"type":"string","enum":"x"}}}`: "table expected, got string",
		`{"required":"x"}`: "table expected, got string",
		`{"properties":{"a":{"properties":{"b":{"type":"x"}}}}}`: "invalid JSON type: x",
		`{"type":["object","x"]}`:                                "invalid schema: ",
		`{"minLength":"x"}`:                                      "invalid schema: at /minLength: ",
		`{"$ref":"file:///etc/passwd"}`:                          "a schema cannot refer to another document",
		`{"$ref":"#/none"}`:                                      "invalid schema: ",
		`{"pattern":"("}`:                                        "invalid schema: ",
		`{`:                                                      "unexpected end of JSON input",
	} {
		if _, err := Foreign([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}

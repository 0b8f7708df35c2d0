package schema

import (
	"encoding/json"
	"testing"
)

type sample struct {
	Count  int               `json:"count" schema:"min=1,max=5" doc:"How many."`
	Window float64           `json:"window" schema:"exclusiveMin=0"`
	Policy string            `json:"policy" schema:"default=local,enum=local|redis"`
	Host   string            `json:"host" schema:"minLen=2,pattern=^[a-z,]+$"`
	Rules  []rule            `json:"rules" schema:"minItems=1"`
	Labels map[string]string `json:"labels" schema:"each.minLen=1"`
	Names  []string          `json:"names" schema:"unique,each.enum=a|b"`
	Token  string            `json:"token" schema:"secret"`
	Limit  *int              `json:"limit"`
	Raw    json.RawMessage   `json:"raw"`
}

type rule struct {
	_   struct{} `schema:"closed"`
	Key string   `json:"key" schema:"required,secret"`
	N   int      `json:"n" schema:"default=7"`
}

func (*sample) Constraints() []Constraint {
	return []Constraint{
		ExactlyOne([]string{"count", "window"}, []string{"rules"}),
		When("policy", "redis", "host"),
	}
}

func TestWords(t *testing.T) {
	s := Of[sample]()
	for _, c := range []struct{ doc, want string }{
		{`{"count":1,"window":1}`, ""},
		{`{"count":1.0,"window":1e0,"policy":"redis","host":"ab"}`, ""},
		{`{"rules":[{"key":"x"}]}`, ""},
		{`[]`, "value should match only one schema, but matches none"},
		{`1`, "wrong type: expected object, got number"},
		{`null`, "wrong type: expected object, got userdata"},
		{`{"count":1.5,"window":1}`, `property "count" validation failed: wrong type: expected integer, got number`},
		{`{"count":0,"window":1}`, `property "count" validation failed: expected 0 to be at least 1`},
		{`{"count":6,"window":1}`, `property "count" validation failed: expected 6 to be at most 5`},
		{`{"count":1,"window":0}`, `property "window" validation failed: expected 0 to be greater than 0`},
		{`{"count":1,"window":1,"policy":"x"}`, `property "policy" validation failed: matches none of the enum values`},
		{`{"count":1,"window":1,"policy":"redis"}`, "then clause did not match"},
		{`{"count":1,"window":1,"host":"a"}`, `property "host" validation failed: string too short, expected at least 2, got 1`},
		{`{"count":1,"window":1,"host":"A$"}`, `property "host" validation failed: failed to match pattern "^[a-z,]+$" with "A$"`},
		{`{"count":1,"window":1,"host":"$env://X"}`, ""},
		{`{"count":1,"window":1,"host":"$Secret://a/b/c","policy":"$ENV://P"}`, ""},
		{`{"rules":[]}`, `property "rules" validation failed: expect array to have at least 1 items`},
		{`{"rules":{}}`, `property "rules" validation failed: expect array to have at least 1 items`},
		{`{"rules":[{"key":"x"},{"n":1}]}`, `property "rules" validation failed: failed to validate item 2: property "key" is required`},
		{`{"rules":[{"key":"x","y":1}]}`, `property "rules" validation failed: failed to validate item 1: additional properties forbidden, found y`},
		{`{"rules":[[]]}`, `property "rules" validation failed: failed to validate item 1: property "key" is required`},
		{`{"count":1,"window":1,"labels":{"a":""}}`, `property "labels" validation failed: failed to validate additional property a: string too short, expected at least 1, got 0`},
		{`{"count":1,"window":1,"names":["a","a"]}`, `property "names" validation failed: expected unique items but items 1 and 2 are equal`},
		{`{"count":1,"window":1,"names":["a","c"]}`, `property "names" validation failed: failed to validate item 2: matches none of the enum values`},
		{`{"count":1,"window":1,"rules":[{"key":"x"}]}`, "value should match only one schema, but matches both schemas 1 and 2"},
		{`{"count":9,"host":1}`, `property "count" validation failed: expected 9 to be at most 5`},
		{`{"count":1,"count":2}`, `duplicate property "count" at character 18`},
		{`{} x`, "invalid character 'x' after top-level value at character 4"},
		{`{"count":1e999999999}`, `number out of range at character 20`},
	} {
		err := s.Check([]byte(c.doc))
		if got := message(err); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type elsewhere struct {
	Policy string `json:"policy" schema:"default=local"`
	Host   string `json:"host" schema:"secret,elsewhere"`
	Port   int    `json:"port" schema:"elsewhere"`
}

func (*elsewhere) Constraints() []Constraint {
	return []Constraint{Conditional(`{
		"if": {"properties": {"policy": {"enum": ["redis"]}}},
		"then": {"properties": {"host": {"type": "string", "minLength": 2}, "port": {"type": "integer", "default": 6379}}, "required": ["host"]},
		"else": {"if": {"properties": {"policy": {"enum": ["many"]}}}, "then": {"properties": {"port": {"type": "integer", "minimum": 2}}}}
	}`)}
}

func TestConditional(t *testing.T) {
	s := Of[elsewhere]()
	for _, c := range []struct {
		doc, want string
		got       elsewhere
	}{
		{`{}`, "", elsewhere{Policy: "local"}},
		{`{"host":"x"}`, "", elsewhere{Policy: "local", Host: "x"}},
		{`{"policy":"redis","host":"xy"}`, "", elsewhere{"redis", "xy", 6379}},
		{`{"policy":"redis"}`, "then clause did not match", elsewhere{}},
		{`{"policy":"redis","host":"x"}`, "then clause did not match", elsewhere{}},
		{`{"policy":"many","port":1}`, "else clause did not match", elsewhere{}},
		{`{"policy":"many","port":2}`, "", elsewhere{Policy: "many", Port: 2}},
	} {
		var got elsewhere
		err := s.Decode([]byte(c.doc), &got)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want || err == nil && got != c.got {
			t.Errorf("%s: %v, %+v; want %q, %+v", c.doc, err, got, c.want, c.got)
		}
	}
	if secrets := s.Secrets(); len(secrets) != 1 || secrets[0] != "host" {
		t.Errorf("secrets %v", secrets)
	}
	const doc = `{"type":"object","properties":{"policy":{"type":"string","default":"local"}},"encrypt_fields":["host"],"if":`
	if b, _ := s.MarshalJSON(); string(b[:len(doc)]) != doc {
		t.Errorf("document %s", b)
	}
}

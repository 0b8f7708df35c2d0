package schema

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

type settings struct {
	shared
	Count    variable          `json:"count" schema:"required"`
	Big      int64             `json:"big"`
	Small    int8              `json:"small"`
	Rate     float64           `json:"rate" schema:"default=0.5"`
	On       bool              `json:"on" schema:"default=true"`
	Retries  *int              `json:"retries" schema:"min=0"`
	Codes    []int             `json:"codes" schema:"each.min=200,default=[429,503]"`
	Nodes    []node            `json:"nodes"`
	ByName   map[string]node   `json:"by_name"`
	Headers  map[string]string `json:"headers"`
	Timeout  timeout           `json:"timeout" schema:"default={\"read\":2}"`
	Optional *timeout          `json:"optional"`
	Any      json.RawMessage   `json:"any" schema:"type=string|integer"`
	Skipped  int               `json:"-"`
}

type shared struct {
	Redis string `json:"redis" schema:"default=localhost"`
}

type node struct {
	Host string `json:"host" schema:"required"`
	Port int    `json:"port" schema:"default=80"`
}

type timeout struct {
	Read float64 `json:"read" schema:"default=6"`
	Send float64 `json:"send" schema:"default=6"`
}

// A variable is a number or an expression: a type with a schema of its own.
type variable string

func (variable) JSONSchema() []byte {
	return []byte(`{"oneOf":[{"type":"integer","exclusiveMinimum":0},{"type":"string"}]}`)
}

func (v *variable) UnmarshalJSON(b []byte) error {
	*v = variable(strings.Trim(string(b), `"`))
	return nil
}

func TestDecode(t *testing.T) {
	base := settings{
		shared: shared{"localhost"}, Count: "5", Rate: 0.5, On: true, Codes: []int{429, 503},
		Timeout: timeout{Read: 2, Send: 6},
	}
	with := func(change func(*settings)) settings {
		s := base
		change(&s)
		return s
	}
	for _, c := range []struct {
		doc  string
		want settings
	}{
		{`{"count":5}`, base},
		{`{"count":5.0,"Big":1,"BIG":2,"unknown":[{}],"Skipped":3,"-":4}`, base},
		{`{"count":"$n","redis":"r","big":9007199254740993,"small":-1.28e2,"on":false,"rate":1e-1}`, with(func(s *settings) {
			s.Count, s.Redis, s.Big, s.Small, s.On, s.Rate = "$n", "r", 9007199254740993, -128, false, 0.1
		})},
		{`{"count":5,"retries":0,"codes":[],"nodes":[{"host":"a"},{"host":"b","port":1}],"by_name":{"x":{"host":"c"}}}`, with(func(s *settings) {
			s.Retries, s.Codes = new(int), []int{}
			s.Nodes = []node{{"a", 80}, {"b", 1}}
			s.ByName = map[string]node{"x": {"c", 80}}
		})},
		{`{"count":5,"codes":{},"by_name":[],"headers":{"A":"b"},"timeout":{"send":1},"optional":{},"any":7}`, with(func(s *settings) {
			s.Codes, s.ByName, s.Headers = []int{}, map[string]node{}, map[string]string{"A": "b"}
			s.Timeout, s.Optional, s.Any = timeout{6, 1}, &timeout{6, 6}, json.RawMessage("7")
		})},
		{`{"count":5,"any":"<a>"}`, with(func(s *settings) { s.Any = json.RawMessage(`"<a>"`) })},
	} {
		var got settings
		if err := Of[settings]().Decode([]byte(c.doc), &got); err != nil {
			t.Errorf("%s: %v", c.doc, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.doc, got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`{}`, `property "count" is required`},
		{`{"count":-1}`, `property "count" validation failed: value should match only one schema, but matches none`},
		{`{"count":1,"small":128}`, `property "small" validation failed: number 128 out of range`},
		{`{"count":1,"big":9223372036854775808}`, `property "big" validation failed: number 9223372036854775808 out of range`},
		{`{"count":1,"codes":[100]}`, `property "codes" validation failed: failed to validate item 1: expected 100 to be at least 200`},
		{`{"count":1,"any":[1]}`, `property "any" validation failed: wrong type: expected one of string, integer, got table`},
		{`{"count":1,"nodes":[{"host":"a"},{"host":"a","port":1.5}]}`, `property "nodes" validation failed: failed to validate item 2: property "port" validation failed: wrong type: expected integer, got number`},
	} {
		var got settings
		if err := Of[settings]().Decode([]byte(c.doc), &got); message(err) != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.doc, err, c.want)
		}
	}
}

// TestBranches: defaults of the branch that holds are filled in, no others.
func TestBranches(t *testing.T) {
	s := Parse("test", []byte(`{"type":"object",
		"properties":{"policy":{"type":"string","default":"local"},"must":{"default":1}},
		"required":["policy2"],
		"dependencies":{"d":{"properties":{"from_d":{"default":true}}}},
		"allOf":[{"properties":{"all":{"default":{"x":1}}}}],
		"oneOf":[{"properties":{"kind":{"enum":["a"]},"only_a":{"default":1}}},{"properties":{"kind":{"enum":["b"]},"only_b":{"default":2}}}],
		"if":{"properties":{"policy":{"enum":["redis"]}}},
		"then":{"properties":{"port":{"type":"integer","default":6379}}},
		"else":{"properties":{"local":{"default":"yes"}}}}`))
	for doc, want := range map[string]string{
		`{"policy2":1,"kind":"a"}`:                            `{"all":{"x":1},"kind":"a","local":"yes","must":1,"only_a":1,"policy":"local","policy2":1}`,
		`{"policy2":1,"kind":"b","policy":"redis","d":false}`: `{"all":{"x":1},"d":false,"from_d":true,"kind":"b","must":1,"only_b":2,"policy":"redis","policy2":1,"port":6379}`,
	} {
		if got, err := s.Fill([]byte(doc)); err != nil || string(got) != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", doc, got, err, want)
		}
	}
	required := Parse("test", []byte(`{"properties":{"a":{"default":1}},"required":["a"]}`))
	if got := message(required.Check([]byte(`{}`))); got != `property "a" is required` {
		t.Errorf("a default satisfied a requirement: %q", got)
	}
}

func TestSyntax(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{``, "unexpected end of JSON input at character 0"},
		{`{"a":1}}`, "invalid character '}' after top-level value at character 8"},
		{`{"a":{"b":1,"\u0062":2}}`, `duplicate property "b" at character 20`},
		{strings.Repeat("[", 300) + strings.Repeat("]", 300), "nested deeper than 256 levels at character 257"},
		{`[` + strings.Repeat("1", 101) + `]`, "number with more than 100 characters at character 102"},
		{`1e401`, "number out of range at character 5"},
		{`-1E-99999999999999999999`, "number out of range at character 24"},
		{`"` + strings.Repeat("a", MaxSize) + `"`, "document larger than 16777216 bytes at character 16777216"},
	} {
		err := Syntax([]byte(c.doc))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%.30s:\n got %v\nwant %s", c.doc, err, c.want)
		}
	}
	for _, doc := range []string{`{"a":[1,-2.5e3,true,false,null,"\ud83d\ude00\n"],"b":{}}`, ` "é" `, strings.Repeat("[", 256) + strings.Repeat("]", 256)} {
		if err := Syntax([]byte(doc)); err != nil {
			t.Errorf("%.30s: %v", doc, err)
		}
	}
}

func TestIsReference(t *testing.T) {
	for s, want := range map[string]bool{
		"$secret://vault/1/k": true, "$SECRET://x": true, "$env://X": true, "$ENV://": true, "$Env://x": true,
		"": false, "$": false, "$env:/X": false, "x$env://X": false, "env://X": false, "$secrets://x": false,
	} {
		if IsReference(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

package schema

import (
	"encoding/json"
	"slices"
	"testing"
)

type documented struct {
	_     struct{}          `schema:"closed,minProps=1"`
	Name  string            `json:"name" schema:"required,minLen=1,maxLen=9,pattern=^[a-z,|]+$" doc:"A name."`
	Kind  string            `json:"kind" schema:"default=a,enum=a|b" doc:"One | two."`
	Level int               `json:"level" schema:"default=1,enum=1|2,exclusiveMin=0,exclusiveMax=3,description=Level, if any."`
	Auth  *auth             `json:"auth" doc:"Who."`
	List  []auth            `json:"list" schema:"minItems=1,maxItems=2,unique"`
	Map   map[string]string `json:"map" schema:"secret,maxProps=3,each.maxLen=4,each.format=hostname"`
	Raw   json.RawMessage   `json:"raw"`
}

type auth struct {
	User string `json:"user"`
	Pass string `json:"pass" schema:"secret" doc:"Secret."`
}

func (*documented) Constraints() []Constraint {
	return []Constraint{
		Requires("auth", "name"),
		Excludes("list", "map"),
		AtLeastOne([]string{"auth"}, []string{"list"}),
		AtLeastOne([]string{"name"}),
		When("kind", "b", "raw"),
		Keyword("not", `{"required":["z"]}`),
	}
}

func TestDocument(t *testing.T) {
	const want = `{"type":"object","properties":{` +
		`"name":{"type":"string","minLength":1,"maxLength":9,"pattern":"^[a-z,|]+$"},` +
		`"kind":{"type":"string","default":"a","enum":["a","b"]},` +
		`"level":{"type":"integer","default":1,"enum":[1,2],"exclusiveMinimum":0,"exclusiveMaximum":3,"description":"Level, if any."},` +
		`"auth":{"type":"object","properties":{"user":{"type":"string"},"pass":{"type":"string"}}},` +
		`"list":{"type":"array","items":{"type":"object","properties":{"user":{"type":"string"},"pass":{"type":"string"}}},"minItems":1,"maxItems":2,"uniqueItems":true},` +
		`"map":{"type":"object","additionalProperties":{"type":"string","maxLength":4,"format":"hostname"},"maxProperties":3},` +
		`"raw":{}},` +
		`"required":["name"],"encrypt_fields":["auth.pass","list.pass","map"],` +
		`"additionalProperties":false,"minProperties":1,` +
		`"dependencies":{"auth":["name"],"list":{"not":{"anyOf":[{"required":["map"]}]}}},` +
		`"anyOf":[{"required":["auth"]},{"required":["list"]}],` +
		`"if":{"properties":{"kind":{"enum":["b"]}},"required":["kind"]},"then":{"required":["raw"]},` +
		`"not":{"required":["z"]},` +
		`"allOf":[{"anyOf":[{"required":["name"]}]}]}`
	s := Of[documented]()
	got, err := json.Marshal(s)
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	if got := s.Secrets(); !slices.Equal(got, []string{"auth.pass", "list.pass", "map"}) {
		t.Errorf("secrets %v", got)
	}
	if err := s.Check([]byte(`{"name":"a","auth":{}}`)); err != nil {
		t.Error(err)
	}
	if got := message(s.Check([]byte(`{"name":"a","list":[{}],"map":{}}`))); got != `failed to validate dependent schema for "list": value wasn't supposed to match schema` {
		t.Error(got)
	}
}

func TestTable(t *testing.T) {
	const want = "| property | type | required | default | valid values | meaning |\n|---|---|---|---|---|---|\n" +
		"| `name` | string | yes |  | minLength `1`, maxLength `9`, pattern `^[a-z,\\|]+$` | A name. |\n" +
		"| `kind` | string |  | `a` | enum `[\"a\",\"b\"]` | One \\| two. |\n" +
		"| `level` | integer |  | `1` | enum `[1,2]`, exclusiveMinimum `0`, exclusiveMaximum `3` | Level, if any. |\n" +
		"| `auth` | object |  |  |  | Who. |\n" +
		"| `auth.user` | string |  |  |  |  |\n" +
		"| `auth.pass` | string |  |  |  | Secret. |\n" +
		"| `list` | array of object |  |  | minItems `1`, maxItems `2`, uniqueItems `true` |  |\n" +
		"| `list[].user` | string |  |  |  |  |\n" +
		"| `list[].pass` | string |  |  |  | Secret. |\n" +
		"| `map` | object |  |  | maxProperties `3` |  |\n"
	if got := Of[documented]().Table("raw"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWith(t *testing.T) {
	s := Of[documented]().With("_meta", []byte(`{"type":"boolean"}`), "mark")
	var c documented
	if err := s.Decode([]byte(`{"name":"a","auth":{},"_meta":true}`), &c); err != nil || c.Name != "a" {
		t.Errorf("%+v, %v", c, err)
	}
	if got := message(s.Check([]byte(`{"name":"a","auth":{},"_meta":1}`))); got != `property "_meta" validation failed: wrong type: expected boolean, got number` {
		t.Error(got)
	}
}

type loop struct {
	Next *loop `json:"next"`
}

// TestBadTags: a mistake in a tag is found by whoever mentions the type.
func TestBadTags(t *testing.T) {
	for name, of := range map[string]func(){
		"unknown option": func() {
			Of[struct {
				A int `json:"a" schema:"mix=1"`
			}]()
		},
		"not a number": func() {
			Of[struct {
				A int `json:"a" schema:"min=x"`
			}]()
		},
		"not a count": func() {
			Of[struct {
				A string `json:"a" schema:"minLen=-1"`
			}]()
		},
		"default of another type": func() {
			Of[struct {
				A int `json:"a" schema:"default=x"`
			}]()
		},
		"no name": func() { Of[struct{ A int }]() },
		"each of a number": func() {
			Of[struct {
				A int `json:"a" schema:"each.min=1"`
			}]()
		},
		"no such type": func() {
			Of[struct {
				A chan int `json:"a"`
			}]()
		},
		"contains itself": func() { Of[loop]() },
		"keyword":         func() { Keyword("not", "{") },
		"property twice":  func() { Of[documented]().With("name", []byte("{}"), "") },
		"other type":      func() { _ = Of[documented]().Decode([]byte(`{"name":"a","auth":{}}`), new(auth)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			of()
		}()
	}
}

// A pattern may follow an option that has no value.
func TestPatternAfterRequired(t *testing.T) {
	type c struct {
		Host string `json:"host" schema:"required,pattern=^[a-z,]+$"`
	}
	doc, err := json.Marshal(Of[c]())
	want := `{"type":"object","properties":{"host":{"type":"string","pattern":"^[a-z,]+$"}},"required":["host"]}`
	if string(doc) != want || err != nil {
		t.Errorf("got %s, %v", doc, err)
	}
}

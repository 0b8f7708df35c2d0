package declared

import (
	"strings"
	"testing"

	"weir/internal/document"
)

func TestParseYAML(t *testing.T) {
	for in, want := range map[string]string{
		"b: 1\na: 2.50\nb: 3":                                `{"b":3,"a":2.50}`,
		"key-auth:":                                          `{"key-auth":{}}`,
		"a: ~\nb: null\nc: 'null'\nd: \"\"":                  `{"a":{},"b":{},"c":"null","d":""}`,
		"[yes, No, ON, off, true, y, 'yes']":                 `[true,false,true,false,true,"y","yes"]`,
		"[1, -1, +1, 0, 0x1F, 0755, 0b11, 1_000, 08, 1e3]":   `[1,-1,1,0,31,493,3,1000,8,1e3]`,
		"[.5, 1., -0x10, 1e400, .inf, .nan, 1.2.3.4, 10:20]": `[0.5,1,-16,1e400,".inf",".nan","1.2.3.4","10:20"]`,
		"[12345678901234567890123, -, +, ., 0x, 2001-01-01]": `[12345678901234567890123,"-","+",".","0x","2001-01-01"]`,
		"[!!str 12, !!int '3', !x yes, !!binary aGk=]":       `["12",3,true,"aGk="]`,
		"80: a\ntrue: b":                                     `{"80":"a","true":"b"}`,
		"a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a":       `{"a":{"x":1,"y":2},"b":{"x":1,"y":3},"c":{"x":1,"y":2}}`,
		"a: {y: 3, <<: [{x: 1, y: 1}, {x: 2, z: 3}]}":        `{"a":{"y":3,"x":1,"z":3}}`,
		"? &k name\n: *k":                                    `{"name":"name"}`,
		"- |\n  a\n  b\n- >\n  a\n  b\n":                     `["a\nb\n","a b\n"]`,
		"a: 1\n---\nb: 2\n":                                  `{"a":1}`,
		"a: \"\\u00e9\"\n# comment\n#END\n":                  `{"a":"é"}`,
	} {
		v, err := ParseYAML([]byte(in))
		if err != nil {
			t.Errorf("%q: %v", in, err)
		} else if got := v.String(); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestParseYAMLRefuses(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 9) + "*" + p + "]\n"
	}
	for in, want := range map[string]string{
		"":                                 "the document is empty",
		"# nothing":                        "the document is empty",
		"a: [":                             "yaml: line",
		"invalid: yaml: [":                 "yaml:",
		"a: !!int x":                       "line 1: invalid '!!int' value",
		"a: *b":                            "unknown anchor",
		"[a, b]: c":                        "a key is not a text",
		"a: {<<: 1}":                       "cannot merge what is of type number",
		bomb:                               "aliases make the document too large",
		"a: &a [*a]":                       "levels deep",
		strings.Repeat("[", 2000) + "\xff": "yaml:",
	} {
		if v, err := ParseYAML([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %.40v, %v, want %q", in, v, err, want)
		}
	}
}

func TestYAML(t *testing.T) {
	in := `{"routes":[{"id":"r1","uri":"/a","n":1,"f":1e3,"yes":"on","e":"","x":"1","nul":"~","pem":"-----\nA\n","deep":{"a":[[],{}]},"b":true}]}`
	v, err := document.Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	out, err := YAML(v)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "id: r1\n") {
		t.Errorf("%s", out)
	}
	if back, err := ParseYAML(out); err != nil || back.String() != in {
		t.Errorf("%v\n%s\n%s\n%s", err, in, back, out)
	}
}

// FuzzParse holds that no text panics, and that a document survives being
// written as YAML.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a: &a {x: 1}\nb: {<<: *a}\n"))
	f.Add([]byte(`{"a":[1,"x",true,{"":"<<"}]}`))
	f.Add([]byte("a: |\n  x\n\n  y\nb: 'on'\nc: 0x1F"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ParseYAML(text)
		if err != nil {
			if v, err = document.Parse(text); err != nil {
				return
			}
		}
		if strings.Contains(v.String(), "null") || strings.ToValidUTF8(v.String(), "") != v.String() {
			return // null is not kept
		}
		out, err := YAML(v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		back, err := ParseYAML(out)
		if err != nil || back.String() != v.String() {
			t.Fatalf("%s became %v (%v) by\n%q", v, back, err, out)
		}
		_ = Items(v)
	})
}

// A syntax error names the line on which it is, or on which what is not closed
// begins.
func TestYAMLLines(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb:\n- {id: 1, uri: /a\n": "line 3: ",
		"a: 1\nb:\n- [1, 2\nc: 1\n":     "line 3: ",
		"a: 1\nb: 2\n  c: 3\n":          "line 3: ",
		"a: 1\nb: \"x\nc: 3\n":          "line 2: ",
		"a: 1\n\tb: 2\n":                "line 2: ",
		"a:\n  - 1\n b: 2\n":            "line 3: ",
		"a: 1\nb: *none\n":              "none",
		"a: 1\nb: @x\n":                 "line 2: ",
		"a: 1\n- b\n":                   "line 2: ",
	} {
		if _, err := ParseYAML([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

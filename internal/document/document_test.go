package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func parse(t *testing.T, doc string) *Value {
	t.Helper()
	v, err := Parse([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

func TestParseKeeps(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":2.50,"c":1e3,"b":[true,false,null]}`: `{"b":[true,false,null],"a":2.50,"c":1e3}`,
		` [ ] `: `[]`, `{ }`: `{}`, `"a\/b"`: `"a/b"`, `"\u0041\ud83d\ude00\u0000\t\"\\"`: `"A😀\u0000\t\"\\"`,
		"\"\x80\"": "\"\x80\"", `-0.0e-1`: `-0.0e-1`, "\"\x7f\\b\\f\\n\\r\"": "\"\x7f\\u0008\\u000c\\n\\r\"", `"a\u00e9"`: `"aé"`,
	} {
		if got := parse(t, in).String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestParseManyMembers(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `,"k%d":%d`, i%50_000, i)
	}
	v := parse(t, "{"+b.String()[1:]+"}")
	if len(v.Members) != 50_000 || v.Members[49_999].Value.Text != "99999" {
		t.Errorf("%d members, the last %v", len(v.Members), v.Members[len(v.Members)-1])
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                        "Expected value but found T_END at character 1",
		`abc`:                     "Expected value but found invalid token at character 1",
		`{"a":}`:                  "Expected value but found T_OBJ_END at character 6",
		`{a:1}`:                   "Expected object key string but found invalid token at character 2",
		`{"a" 1}`:                 "Expected colon but found T_NUMBER at character 6",
		`{"a":1 "b"`:              "Expected comma or object end but found T_STRING at character 8",
		`{"a":1,}`:                "Expected object key string but found T_OBJ_END at character 8",
		`[1,]`:                    "Expected value but found T_ARR_END at character 4",
		`[1 2]`:                   "Expected comma or array end but found T_NUMBER at character 4",
		`{} x`:                    "Expected the end but found invalid token at character 4",
		`"abc`:                    "Expected value but found unexpected end of string at character 1",
		`"a\`:                     "Expected value but found unexpected end of string at character 1",
		`"a\x"`:                   "Expected value but found invalid escape code at character 3",
		`"\ud800"`:                "Expected value but found invalid escape code at character 2",
		"\"a\x00b\"":              "Expected value but found unexpected end of string at character 1",
		`01`:                      "Expected value but found invalid number at character 1",
		`1.`:                      "Expected value but found invalid number at character 1",
		`-`:                       "Expected value but found invalid number at character 1",
		`[NaN]`:                   "Expected value but found invalid token at character 2",
		`{"a":[`:                  "Expected value but found T_END at character 7",
		strings.Repeat("[", 1001): "Found too many nested data structures (1001) at character 1001",
	} {
		if v, err := Parse([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%.20s: got %v, %v, want %s", in, v, err, want)
		}
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ old, patch, want string }{
		{`{"a":1,"b":2}`, `{"a":3}`, `{"a":3,"b":2}`},
		{`{"a":1,"b":2}`, `{"a":null,"c":4}`, `{"b":2,"c":4}`},
		{`{"a":{"x":1,"y":2}}`, `{"a":{"y":3,"z":{"w":null}}}`, `{"a":{"x":1,"y":3,"z":{"w":null}}}`},
		{`{"a":[1,2]}`, `{"a":{"x":1}}`, `{"a":{"x":1}}`},
		{`{"a":{"x":1}}`, `{"a":[]}`, `{"a":[]}`},
		{`{"a":{"x":1}}`, `{"a":{}}`, `{"a":{"x":1}}`},
		{`{}`, `{"missing":null}`, `{}`},
	} {
		v := parse(t, c.old)
		v.Merge(parse(t, c.patch))
		if v.String() != c.want {
			t.Errorf("%s + %s: got %s, want %s", c.old, c.patch, v, c.want)
		}
	}
}

func TestSetPath(t *testing.T) {
	for _, c := range []struct{ old, path, value, want string }{
		{`{"a":1}`, "a", `[1]`, `{"a":[1]}`},
		{`{"a":{"b":1}}`, "a/b", `null`, `{"a":{"b":null}}`},
		{`{}`, "a/b/c", `"x"`, `{"a":{"b":{"c":"x"}}}`},
		{`{"a":1}`, "a/b", `1`, `invalid sub-path: /a`},
		{`{"a":{"b":[1]}}`, "a/b/0", `1`, `invalid sub-path: /a/b`},
		{`{"a":null}`, "a/b", `1`, `invalid sub-path: /a`},
		{`{"a":1}`, "x/", `{"b":2}`, `{"b":2}`},
		{`[1]`, "0", `1`, `invalid sub-path: /0`},
	} {
		v, err := parse(t, c.old).SetPath(c.path, parse(t, c.value))
		got := fmt.Sprint(err)
		if err == nil {
			got = v.String()
		}
		if got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.old, c.path, got, c.want)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ doc, path, want string }{
		{`{"a":"x","b":"y"}`, "a", `{"a":"X","b":"y"}`},
		{`{"a":["x",1,["y"]]}`, "a", `{"a":["X",1,["y"]]}`},
		{`{"a":{"k":"x","l":2}}`, "a", `{"a":{"k":"X","l":2}}`},
		{`{"a":{"b":{"c":"x"}}}`, "a.b.c", `{"a":{"b":{"c":"X"}}}`},
		{`{"a":[{"b":"x"},{"b":["y"]},"z"]}`, "a.b", `{"a":[{"b":"X"},{"b":["Y"]},"z"]}`},
		{`{"a":"x"}`, "a.b", `{"a":"x"}`},
		{`{"a":"x"}`, "b", `{"a":"x"}`},
		{`["a"]`, "a", `["a"]`},
	} {
		v := parse(t, c.doc)
		v.Strings(c.path, strings.ToUpper)
		if v.String() != c.want {
			t.Errorf("%s %s: got %s, want %s", c.doc, c.path, v, c.want)
		}
	}
}

func TestEdit(t *testing.T) {
	v := parse(t, `{"b":1}`)
	v.SetFirst("a", NewString("x"))
	v.SetFirst("b", NewInt(-2))
	v.Set("c", NewObject())
	v.Delete("none")
	if got := v.String(); got != `{"a":"x","b":-2,"c":{}}` {
		t.Error(got)
	}
	v.Delete("a")
	if got := v.String(); got != `{"b":-2,"c":{}}` {
		t.Error(got)
	}
	if s, ok := v.Get("b").Scalar(); s != "-2" || !ok {
		t.Error(s, ok)
	}
	if s, ok := v.Get("c").Scalar(); s != "" || ok {
		t.Error(s, ok)
	}
	var none *Value
	if none.Get("a") != nil || none.Is(Null) {
		t.Error("a missing value has members or a kind")
	}
}

// FuzzParse compares with encoding/json, and what is written with what was read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9",true,null],"a":{}}`, `"\ud83d\ude00"`, `[[[]]]`, `-1`, `{"a":1`, "\"\x12\\\"\n\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Parse(raw)
		if err != nil {
			return
		}
		text := v.Append(nil)
		raw = withoutControls(raw)
		if !json.Valid(raw) || !json.Valid(text) {
			t.Fatalf("%q was taken, printed as %q", raw, text)
		}
		again, err := Parse(text)
		if err != nil || !bytes.Equal(again.Append(nil), text) {
			t.Fatalf("%q: %v", text, err)
		}
		var a, b any
		if json.Unmarshal(raw, &a) != nil {
			return // a number out of float64's range
		}
		if err := json.Unmarshal(text, &b); err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("%q became %q", raw, text)
		}
	})
}

// withoutControls escapes control characters inside of strings, which lua-cjson takes
// as they are and encoding/json does not.
func withoutControls(raw []byte) []byte {
	var out []byte
	inside, escaped := false, false
	for _, c := range raw {
		if inside && c < ' ' {
			out = fmt.Appendf(out, `\u%04x`, c)
		} else {
			out = append(out, c)
		}
		if c == '"' && !escaped {
			inside = !inside
		}
		escaped = inside && c == '\\' && !escaped
	}
	return out
}

// FuzzPatch holds that a patch by its own result changes nothing more, and that
// nothing panics.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":null,"c":[1]}}`), "a/b")
	f.Add([]byte(`{"a":[1]}`), []byte(`{"a":{}}`), "a//")
	f.Fuzz(func(t *testing.T, old, patch []byte, path string) {
		v, err := Parse(old)
		if err != nil || !v.Is(Object) {
			return
		}
		p, err := Parse(patch)
		if err != nil {
			return
		}
		if p.Is(Object) {
			v.Merge(p)
			once := v.String()
			again, err := Parse(patch)
			if err != nil {
				t.Fatal(err)
			}
			// A null in a new object stays, and removes the second time.
			if v.Merge(again); v.String() != once && !bytes.Contains(patch, []byte("null")) {
				t.Fatalf("merged once %s, twice %s", once, v)
			}
		}
		if p, err = Parse(patch); err != nil { // the first one is part of v by now
			t.Fatal(err)
		}
		if v, err = v.SetPath(path, p); err == nil {
			_ = v.String()
		}
		v.Strings(strings.ReplaceAll(path, "/", "."), strings.ToUpper)
	})
}

// Scripts in configuration have raw line feeds; what is printed is plain JSON.
func TestControlCharacters(t *testing.T) {
	v, err := Parse([]byte("{\"a\":\"x\ny\t\x01\\nz\"}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := v.String(), `{"a":"x\ny\t\u0001\nz"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

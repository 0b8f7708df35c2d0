package transfer

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"weir/internal/document"
	"weir/internal/source/declared"
)

func parse(t testing.TB, text string) *document.Value {
	t.Helper()
	v, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestYAML(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"b":[],"c":{}}`: "a: 1\nb: []\nc: {}\n",
		`{"routes":[{"id":"1","uri":"/a/*","nodes":{"127.0.0.1:80":1},"ok":true,"none":null}]}`: "routes:\n" +
			"  - id: \"1\"\n    uri: /a/*\n    nodes:\n      \"127.0.0.1:80\": 1\n    ok: true\n    none: null\n",
		`[[1,2],[[3]],{"a":[4]}]`:             "- - 1\n  - 2\n- - - 3\n- a:\n    - 4\n",
		`["yes","No","","null","~","1.2",""]`: "- \"yes\"\n- \"No\"\n- \"\"\n- \"null\"\n- \"~\"\n- \"1.2\"\n- \"\"\n",
		`{"cert":"-----BEGIN\nabc\n"}`:        "cert: |\n  -----BEGIN\n  abc\n",
		`{"a":["x\ny"],"b":" x\ny"}`:          "a:\n  - |-\n    x\n    y\nb: \" x\\ny\"\n",
		`{"a":1e3,"b":-2.5E-7}`:               "a: 1.0e+3\nb: -2.5e-7\n",
		`"é\u2028\u0000\u007f\ud83d\ude00"`:   "\"é\\u2028\\u0000\\u007F😀\"\n",
	} {
		got, err := AppendYAML(nil, parse(t, in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", in, err, got, want)
		}
	}
}

func TestYAMLNotUTF8(t *testing.T) {
	_, err := AppendYAML(nil, parse(t, "{\"a\":[1,\"\x80\"]}"))
	if err == nil || err.Error() != "a.2 is not UTF-8, which YAML cannot hold; write JSON" {
		t.Error(err)
	}
}

// FuzzYAML: what is printed as YAML is read back as the same value, here and by
// the library without help.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,"x\ny\n",{"b":[]}],"":""}`, `[[["-"]],"\n","\n\n"," \n","a\n b"]`, `{"=":"y","on":"off"}`,
		`["#","a #b","a: b","- a","? a","!x","&a","*a","|",">","%","@","\u0085","\ufeff"]`, `{"a":-0.0,"b":1E400}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := document.Parse([]byte(text))
		if err != nil || hasNull(v) || strings.Contains(text, "<<") {
			return // null is {} in a file, as it is to Lua, and << merges
		}
		out, err := AppendYAML(nil, v)
		if err != nil {
			return
		}
		back, err := declared.ParseYAML(out)
		if err != nil {
			t.Fatalf("%s\n%q: %v", text, out, err)
		}
		if !equal(v, back) {
			t.Fatalf("%s\nbecame %s\nby %q", v, back, out)
		}
		var plain yaml.Node
		if err := yaml.Unmarshal(out, &plain); err != nil {
			t.Fatal(err)
		}
		again, err := document.Parse(AppendJSON(nil, v))
		if err != nil || again.String() != v.String() {
			t.Fatalf("%s as JSON: %v %v", v, again, err)
		}
	})
}

func hasNull(v *document.Value) bool {
	return v.Is(document.Null) || slices.ContainsFunc(v.Items, hasNull) ||
		slices.ContainsFunc(v.Members, func(m document.Member) bool { return hasNull(m.Value) })
}

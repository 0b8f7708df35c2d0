package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStandalone(t *testing.T) {
	for in, want := range map[string]string{
		"routes:\n- {id: 1, uri: /a}\n- {id: b, uri: /b}\n#END": "routes/1 routes/b",
		"#END": "yaml: the document is empty",
		"routes: []\nroutes_conf_version: 3\nservices:\n#END":                 "",
		"consumers:\n- username: jack\n- {id: jack/credentials/c1}\n#END\n":   "consumers/jack consumers/jack/credentials/c1",
		"secrets: [{id: vault/1}]\nplugin_metadata: [{id: syslog}]\n#END  \n": "plugin_metadata/syslog secrets/vault/1",
		"services: [{id: s}, {id: s/graphql_cost_decorations/d}]\n#END":       "services/s services/s/graphql_cost_decorations/d",
		"routes: [{uri: /a}]\n#END":                                           "routes/arr_1",
		"plugins: [{name: a}]\n#END":                                          "plugins",
		"routes: [{id: '${{ID}}', uri: '${{URI:=/x}}'}]\n#END":                "routes/from-env",
		"routes: [{id: '${{NONE}}'}]\n#END":                                   "can't find environment variable NONE",
		`{"routes":[{"id":"${{ID}}"}],"X-Digest":"1"}`:                        "routes/from-env",
		`{"routes":{},"upstreams":null}`:                                      "",
		"routes: []":                                                          "missing valid end flag in file test: its last line must be #END",
		"rout: []\n#END":                                                      `there is no section "rout"; sections are routes, services, upstreams, consumers, consumer_groups, plugin_configs, global_rules, plugin_metadata, ssls, stream_routes, protos, secrets`,
		"routes: {a: 1}\n#END":                                                "routes, item 0: the section is of type object, not a list",
		"routes: [1]\n#END":                                                   "routes, item 1: it is of type number, not object",
		"routes: [{id: a}, {id: a}]\n#END":                                    "routes, item 2: routes/a is given twice",
		"routes: [{id: a/b/}]\n#END":                                          `routes, item 1: "a/b/" cannot be the id of a route`,
		"secrets: [{id: vault}]\n#END":                                        `secrets, item 1: "vault" cannot be the id of a secret`,
		"- 1\n#END":                                                           "the document is of type array, not a table of sections like routes and services",
		"{":                                                                   "Expected object key string but found T_END at character 2",
		"routes: [\n#END":                                                     "yaml: line 3: did not find expected node content",
	} {
		s, err := File{Path: "test", Environ: []string{"ID=old", "ID=from-env"}}.parse([]byte(in))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			var keys []string
			for _, k := range s.Keys() {
				keys = append(keys, k.String())
			}
			got = strings.Join(keys, " ")
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// TestDocument: what is printed is read back as the same State, in the same
// bytes.
func TestDocument(t *testing.T) {
	const doc = `routes:
  - id: "1"
    uri: /a
services:
  - id: s
    name: S
  - id: s/graphql_cost_decorations/d
    field_path: a
consumers:
  - username: jack
  - id: jack/credentials/c1
    plugins: {}
  - username: jack-2
plugin_metadata:
  - id: syslog
    log_format: {}
secrets:
  - id: vault/1
    token: t
#END
`
	s, err := File{}.parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.AppendStandalone(nil, false)
	if err != nil || string(out) != doc {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := s.AppendStandalone(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	back, err := File{}.parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := back.AppendStandalone(nil, false); err != nil || string(again) != doc {
		t.Errorf("by way of JSON: %v\n%s", err, again)
	}
}

func TestDump(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(path, dumped(storedAPISIX(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := File{Path: path}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Objects); n != 25 {
		t.Errorf("%d objects: %v", n, s.Keys())
	}
	if got := s.Broken[key(t, "routes/9")]; got != "Expected value but found T_END at character 17" || len(s.Broken) != 1 {
		t.Errorf("broken: %v", s.Broken)
	}
	if len(s.Notes) != 1 || s.Notes[0] != "the key odd/1 is none of APISIX 3.18 and is left out" {
		t.Errorf("notes: %q", s.Notes)
	}
	if got := s.Objects[key(t, "consumers/ann/credentials/c1")].String(); got != `{"plugins":{"key-auth":{"key":"`+jackBySecond+`"}}}` {
		t.Error(got)
	}
	other, err := File{Path: path, Prefix: "/other/"}.Read(t.Context())
	if err != nil || len(other.Objects) != 0 || len(other.Notes) != 1 || !strings.Contains(other.Notes[0], "--prefix") {
		t.Error(other, err)
	}
	if _, err := (File{}).parse([]byte(`{"kvs":[{"key":"?"}]}`)); err == nil || !strings.HasPrefix(err.Error(), "kvs, item 1: illegal base64") {
		t.Error(err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("routes: [{id: 1, uri: /a}]\nconsumers: [{username: a}]\n#END"))
	f.Add([]byte(`{"routes":[{"id":"1","plugins":{"a":null}}],"secrets":[{"id":"vault/1"}]}`))
	f.Add(dumped([][2]string{{"/apisix/routes/1", `{"uri":"/a"}`}, {"/apisix/routes/2", ""}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := File{}.parse(text)
		if err != nil {
			return
		}
		out, err := s.AppendStandalone(nil, true)
		if err != nil || strings.Contains(string(out), "${{") {
			return
		}
		back, err := File{}.parse(out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		again, err := back.AppendStandalone(nil, true)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%s\nbecame\n%s, %v", out, again, err)
		}
	})
}

package schema

import (
	"strings"
	"testing"
)

// TestParsedWords holds messages of APISIX's own tests against schemas cut down
// from its resources.
func TestParsedWords(t *testing.T) {
	const (
		uri = `{"type":"object","properties":{
			"uri":{"type":"string","minLength":1,"maxLength":8},
			"uris":{"type":"array","items":{"type":"string"},"minItems":1,"uniqueItems":true},
			"hosts":{"type":"array","items":{"type":"string","pattern":"^\\*?[a-z.]+$"}}},
			"oneOf":[{"required":["uri"]},{"required":["uris"]}],"additionalProperties":false}`
		checks = `{"type":"object","properties":{"active":{"type":"object"},"passive":{"type":"object"}},
			"anyOf":[{"required":["active"]},{"required":["active","passive"]}],"additionalProperties":false}`
		tls = `{"type":"object","properties":{"client_cert_id":{},"client_cert":{"type":"string"},"client_key":{"type":"string"}},
			"dependencies":{"client_cert":{"required":["client_key"],"not":{"required":["client_cert_id"]}},
			"client_key":["client_cert"]}}`
		brokers = `{"type":"object","properties":{"list":{"type":"object","minProperties":1,"maxProperties":2,
			"patternProperties":{".*":{"type":"integer","minimum":1}}}},"required":["list"]}`
		labels = `{"type":"object","properties":{"headers":{"type":"object",
			"additionalProperties":{"type":"string","pattern":"^\\$.*"}}}}`
		all  = `{"allOf":[{"anyOf":[{"type":"string"},{"required":["a"]},{"required":["b","c"]}]},{"if":{"required":["a"]},"then":{"required":["d"]},"else":{"required":["e"]}}]}`
		refs = `{"definitions":{"port":{"type":"integer","minimum":1,"maximum":65535},"name":{"minLength":2},
			"node":{"type":"object","properties":{"port":{"$ref":"#/definitions/port"},"name":{"$ref":"#/definitions/name"}},"required":["port"]}},
			"type":"object","properties":{"nodes":{"type":"array","items":{"$ref":"#/definitions/node"}}}}`
		union = `{"type":"object","properties":{"id":{"anyOf":[{"type":"string","minLength":1},{"type":"integer","minimum":1}]},"t":{"type":["string","integer"]}}}`
		odds  = `{"type":"object","properties":{"half":{"multipleOf":0.5},"below":{"exclusiveMaximum":3},"one":{"const":1},
			"tuple":{"items":[{"type":"string"}],"additionalItems":false},"pair":{"items":[{"type":"string"}],"additionalItems":{"type":"integer"}},
			"has":{"contains":{"const":1}},"never":false,"mail":{"format":"email"},"ip":{"type":"string","format":"ipv4"},
			"a/b~c":{"maxLength":1}}}`
	)
	for _, c := range []struct{ schema, doc, want string }{
		{uri, `{"uri":""}`, `property "uri" validation failed: string too short, expected at least 1, got 0`},
		{uri, `{"uri":"日本語日本語日本語"}`, `property "uri" validation failed: string too long, expected at most 8, got 9`},
		{uri, `{"uri":123}`, `property "uri" validation failed: wrong type: expected string, got number`},
		{uri, `{"uri":{}}`, `property "uri" validation failed: wrong type: expected string, got table`},
		{uri, `{"uri":true}`, `property "uri" validation failed: wrong type: expected string, got boolean`},
		{uri, `{"uri":null}`, `property "uri" validation failed: wrong type: expected string, got userdata`},
		{uri, `{"uris":[]}`, `property "uris" validation failed: expect array to have at least 1 items`},
		{uri, `{"uris":"/a"}`, `property "uris" validation failed: wrong type: expected array, got string`},
		{uri, `{"uris":["/a","/b","/a"]}`, `property "uris" validation failed: expected unique items but items 1 and 3 are equal`},
		{uri, `{"uris":["/a",2]}`, `property "uris" validation failed: failed to validate item 2: wrong type: expected string, got number`},
		{uri, `{}`, "value should match only one schema, but matches none"},
		{uri, `{"uri":"/a","uris":["/b"]}`, "value should match only one schema, but matches both schemas 1 and 2"},
		{uri, `{"uri":"/a","y":1,"x":2}`, "additional properties forbidden, found x"},
		{uri, `{"uri":"/a","hosts":["a","$%\\\"\n"]}`, `property "hosts" validation failed: failed to validate item 2: failed to match pattern "^\\*?[a-z.]+$" with "$%\\\"\n"`},
		{uri, `{"uri":1,"x":2}`, `property "uri" validation failed: wrong type: expected string, got number`},
		{uri, `{"hosts":[1],"uris":[]}`, `property "uris" validation failed: expect array to have at least 1 items`},
		{checks, `{}`, `object matches none of the required: ["active"] or ["active","passive"]`},
		{checks, `{"passive":{}}`, `object matches none of the required: ["active"] or ["active","passive"]`},
		{tls, `{"client_cert":"a"}`, `failed to validate dependent schema for "client_cert": property "client_key" is required`},
		{tls, `{"client_key":"a"}`, `property "client_cert" is required when "client_key" is set`},
		{tls, `{"client_cert":"a","client_key":"b","client_cert_id":1}`, `failed to validate dependent schema for "client_cert": value wasn't supposed to match schema`},
		{brokers, `{}`, `property "list" is required`},
		{brokers, `{"list":{}}`, `property "list" validation failed: expect object to have at least 1 properties`},
		{brokers, `{"list":{"a":1,"b":2,"c":3}}`, `property "list" validation failed: expect object to have at most 2 properties`},
		{brokers, `{"list":{"127.0.0.1":0}}`, `property "list" validation failed: failed to validate 127.0.0.1 (matching ".*"): expected 0 to be at least 1`},
		{labels, `{"headers":{"X-Consumer-Department":"department"}}`, `property "headers" validation failed: failed to validate additional property X-Consumer-Department: failed to match pattern "^\\$.*" with "department"`},
		{all, `{}`, `allOf 1 failed: object matches none of the required: ["a"] or ["b","c"]`},
		{all, `{"a":1}`, "allOf 2 failed: then clause did not match"},
		{all, `{"b":1,"c":1}`, "allOf 2 failed: else clause did not match"},
		{all, `{"a":1,"d":1}`, ""},
		{all, `"$env://X"`, ""},
		{refs, `{"nodes":[{"port":1},{"port":70000}]}`, `property "nodes" validation failed: failed to validate item 2: property "port" validation failed: expected 70000 to be at most 65535`},
		{refs, `{"nodes":[{}]}`, `property "nodes" validation failed: failed to validate item 1: property "port" is required`},
		{refs, `{"nodes":[{"port":1,"name":"x"}]}`, `property "nodes" validation failed: failed to validate item 1: property "name" validation failed: string too short, expected at least 2, got 1`},
		{refs, `{"nodes":[{"port":1,"name":"$secret://x"}]}`, ""},
		{union, `{"id":""}`, `property "id" validation failed: object matches none of the required`},
		{union, `{"id":0}`, `property "id" validation failed: object matches none of the required`},
		{union, `{"id":1}`, ""},
		{union, `{"t":[]}`, `property "t" validation failed: wrong type: expected one of string, integer, got table`},
		{odds, `{"half":0.7}`, `property "half" validation failed: expected 0.7 to be a multiple of 0.5`},
		{odds, `{"below":3}`, `property "below" validation failed: expected 3 to be smaller than 3`},
		{odds, `{"below":1e20}`, `property "below" validation failed: expected 1e+20 to be smaller than 3`},
		{odds, `{"one":2}`, `property "one" validation failed: failed to check const value`},
		{odds, `{"tuple":["a",1]}`, `property "tuple" validation failed: found unexpected extra items in array`},
		{odds, `{"tuple":[1]}`, `property "tuple" validation failed: failed to validate item 1: wrong type: expected string, got number`},
		{odds, `{"pair":["a",1,"b"]}`, `property "pair" validation failed: failed to validate additional item 3: wrong type: expected integer, got string`},
		{odds, `{"has":[2]}`, `property "has" validation failed: failed to check contains`},
		{odds, `{"never":1}`, `property "never" validation failed: expect false always`},
		{odds, `{"mail":"x"}`, `property "mail" validation failed: expect valid email address but got: x`},
		{odds, `{"ip":"1.2.3"}`, `property "ip" validation failed: expect valid ipv4 address but got: 1.2.3`},
		{odds, `{"a/b~c":"xx"}`, `property "a/b~c" validation failed: string too long, expected at most 1, got 2`},
	} {
		if got := message(Parse("test", []byte(c.schema)).Check([]byte(c.doc))); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}

// TestBacktracking: what Go's engine does not know goes to the other one.
func TestBacktracking(t *testing.T) {
	s := Parse("test", []byte(`{"type":"string","pattern":"^(?!/)[a-z]+$"}`))
	if err := s.Check([]byte(`"abc"`)); err != nil {
		t.Error(err)
	}
	if got := message(s.Check([]byte(`"/abc"`))); got != `failed to match pattern "^(?!/)[a-z]+$" with "/abc"` {
		t.Error(got)
	}
	slow := Parse("test", []byte(`{"type":"string","pattern":"^(?=a)(a+)+$"}`))
	if err := slow.Check([]byte(`"` + strings.Repeat("a", 40) + `b"`)); err == nil {
		t.Error("a match without end counts as one")
	}
}

func TestNoPasswordInWords(t *testing.T) {
	s := Parse("test", []byte(`{"type":"string","pattern":"^x"}`))
	for value, want := range map[string]string{
		"http://u:pa@ss@h:1/p": "http://***@h:1/p", "u:pass@h": "***@h", "//:p@": "//***@", "a@b": "a@b", "http://a": "http://a", "a//b@:c": "a//b@:c",
	} {
		if err := s.Check([]byte(`"` + value + `"`)); err == nil || !strings.HasSuffix(err.Error(), ` with "`+want+`"`) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestBadSchemaPanics(t *testing.T) {
	for _, doc := range []string{`{`, `{"type":"strin"}`, `{"pattern":"("}`, `{"minimum":"x"}`, `{"$ref":"#/nowhere"}`} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", doc)
				}
			}()
			_ = Parse("bad", []byte(doc)).Check([]byte(`1`))
		}()
	}
}

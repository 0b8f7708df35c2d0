package apisix

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/model"
)

func TestCheck(t *testing.T) {
	c := New(Options{Vars: func(e json.RawMessage) error {
		if strings.Contains(string(e), `"="`) {
			return errors.New("invalid operator '='")
		}
		return nil
	}})
	const (
		r, s, u, co, cr = model.KindRoute, model.KindService, model.KindUpstream, model.KindConsumer, model.KindCredential
		inv             = "invalid configuration: "
	)
	active := func(checks string) string {
		return `{"uri":"/a","upstream":{"nodes":{"a:80":1},"checks":{"active":` + checks + `}}}`
	}
	const atActive = inv + `property "upstream" validation failed: property "checks" validation failed: property "active" validation failed: `
	long := strings.Repeat("x", 257)
	for _, tc := range []struct {
		kind      model.Kind
		doc, want string
	}{
		{r, `{"uri":"/a","plugins":{}}`, ""},
		{r, `{"uri":"/a","upstream":{"nodes":{"127.0.0.1:8080":1},"type":"roundrobin"},"id":1,"vars":[["uri","==","/a"]],"desc":"d","labels":{"a":"b"},
			"methods":["GET"],"hosts":["*.a.b","*"],"remote_addrs":["127.0.0.0/8","::1","fe80::/10","10.0.0.1"],"priority":-1,"status":0,"enable_websocket":true}`, ""},
		{r, `{"uris":["/a","/b"],"service_id":1}`, ""},
		{r, `{"uri":"/a","upstream_id":"$env://UP"}`, ""},
		{r, `{"uri":"/a","host":"a","hosts":["b"],"plugins":{}}`, "only one of host or hosts is allowed"},
		{r, `{"uri":"/a","remote_addr":"1.1.1.1","remote_addrs":["1.1.1.1"],"plugins":{}}`, "only one of remote_addr or remote_addrs is allowed"},
		{r, `{"uri":"/a","remote_addr":"127.0.0.","plugins":{}}`, inv + `property "remote_addr" validation failed: object matches none of the required`},
		{r, `{"uri":"/a","plugins":{},"x":1}`, inv + "additional properties forbidden, found x"},
		{r, `{"plugins":{}}`, inv + "allOf 1 failed: value should match only one schema, but matches none"},
		{r, `{"uri":"/a","uris":["/b"],"plugins":{}}`, inv + "allOf 1 failed: value should match only one schema, but matches both schemas 1 and 2"},
		{r, `{"uri":"/a","script":"0123456789","plugins":{}}`, inv + "value wasn't supposed to match schema"},
		{r, `{"uri":"/a","script":"0123456789"}`, "failed to load 'script' string: Lua is not supported by this version of Weir"},
		{r, `{"uri":"/a","filter_func":"function() end","plugins":{}}`, "failed to load 'filter_func' string: Lua is not supported by this version of Weir"},
		{r, `{"uri":"/a","id":"a/b","plugins":{}}`, inv + `property "id" validation failed: object matches none of the required`},
		{r, `{"uri":"/a","id":"` + strings.Repeat("1", 65) + `","plugins":{}}`, inv + `property "id" validation failed: object matches none of the required`},
		{r, `{"uri":"/a","name":"` + long + `","plugins":{}}`, inv + `property "name" validation failed: string too long, expected at most 256, got 257`},
		{r, `{"uri":"/a","methods":["GETX"],"plugins":{}}`, inv + `property "methods" validation failed: failed to validate item 1: matches none of the enum values`},
		{r, `{"uri":"","plugins":{}}`, inv + `property "uri" validation failed: string too short, expected at least 1, got 0`},
		{r, `{"uris":[],"plugins":{}}`, inv + `property "uris" validation failed: expect array to have at least 1 items`},
		{r, `{"uris":["/a","/a"],"plugins":{}}`, inv + `property "uris" validation failed: expected unique items but items 1 and 2 are equal`},
		{r, `{"uri":"/a","status":2,"plugins":{}}`, inv + `property "status" validation failed: matches none of the enum values`},
		{r, `{"uri":"/a","timeout":{"connect":0,"send":1,"read":1},"plugins":{}}`, inv + `property "timeout" validation failed: property "connect" validation failed: expected 0 to be greater than 0`},
		{r, `{"uri":"/a","labels":"x","plugins":{}}`, inv + `property "labels" validation failed: wrong type: expected object, got string`},
		{r, `{"uri":"/a","labels":{"env":["x"]},"plugins":{}}`, inv + `property "labels" validation failed: failed to validate env (matching ".*"): wrong type: expected string, got table`},
		{r, `{"uri":"/a","vars":[["a","=","b"]],"plugins":{}}`, "failed to validate the 'vars' expression: invalid operator '='"},
		{r, active(`{"type":"httpx"}`), atActive + `property "type" validation failed: matches none of the enum values`},
		{r, active(`{"unhealthy":{"http_failures":3.1}}`), atActive + `property "unhealthy" validation failed: property "http_failures" validation failed: wrong type: expected integer, got number`},
		{r, active(`{"healthy":{"successes":255}}`), atActive + `property "healthy" validation failed: property "successes" validation failed: expected 255 to be at most 254`},
		{r, active(`{"healthy":{"http_statuses":[200,200]}}`), atActive + `property "healthy" validation failed: property "http_statuses" validation failed: expected unique items but items 1 and 2 are equal`},
		{r, active(`{"req_headers":["a",1]}`), atActive + `property "req_headers" validation failed: failed to validate item 2: wrong type: expected string, got number`},
		{r, `{"uri":"/a","upstream":{"nodes":{"a:80":1},"checks":{"passive":{}}}}`, inv + `property "upstream" validation failed: property "checks" validation failed: object matches none of the required: ["active"] or ["active","passive"]`},
		{r, `{"uri":"/a","upstream":{"nodes":{"a:80":1},"type":"chash"}}`, "missing key"},
		{r, `{"uri":"/a","upstream":{"nodes":[{"host":"::1","port":1,"weight":1}]}}`, "invalid configuration: IPv6 address must be enclosed with '[' and ']'"},
		{s, `{}`, ""},
		{s, `{"hosts":["a.b"],"upstream":{"nodes":{}},"plugins":{}}`, ""},
		{s, `{"hosts":["a b"]}`, inv + `property "hosts" validation failed: failed to validate item 1: failed to match pattern "^\\*$|^\\*?[0-9a-zA-Z-._\\[\\]:]+$" with "a b"`},
		{s, `{"uri":"/a"}`, inv + "additional properties forbidden, found uri"},
		{s, `{"upstream":{"nodes":{"a:0":1}}}`, "invalid port 0"},
		{u, `{"nodes":{"a:80":1}}`, ""},
		{u, `{"nodes":{}}`, ""},
		{u, `{"nodes":[]}`, ""},
		{u, `{"nodes":[{"host":"[::1]","weight":1,"metadata":{"a":1}}],"keepalive_pool":{},"retries":0,"tls":{"verify":true}}`, ""},
		{u, `{"service_name":"a","discovery_type":"dns"}`, ""},
		{u, `{"type":"roundrobin"}`, inv + "value should match only one schema, but matches none"},
		{u, `{"nodes":{"a:80":-1}}`, inv + `property "nodes" validation failed: object matches none of the required`},
		{u, `{"nodes":[{"host":"a"}]}`, inv + `property "nodes" validation failed: object matches none of the required`},
		{u, `{"nodes":[{"host":"::1","port":80,"weight":1}],"x":1}`, inv + "IPv6 address must be enclosed with '[' and ']'"},
		{u, `{"nodes":{"a:65536":1}}`, "invalid port 65536"},
		{u, `{"nodes":{"a:80":1},"retries":-1}`, inv + `property "retries" validation failed: expected -1 to be at least 0`},
		{u, `{"nodes":{"a:80":1},"pass_host":"rewrite"}`, "`upstream_host` can't be empty when `pass_host` is `rewrite`"},
		{u, `{"nodes":{"a:80":1},"pass_host":"rewrite","upstream_host":"b"}`, ""},
		{u, `{"nodes":{"a:80":1},"type":"chash"}`, "missing key"},
		{u, `{"nodes":{"a:80":1},"type":"chash","hash_on":"consumer"}`, ""},
		{u, `{"nodes":{"a:80":1},"type":"chash","key":"remote_addr"}`, ""},
		{u, `{"nodes":{"a:80":1},"type":"chash","key":"arg_x-y"}`, ""},
		{u, `{"nodes":{"a:80":1},"type":"chash","hash_on":"vars_combinations","key":"$a$b"}`, ""},
		{u, `{"nodes":{"a:80":1},"type":"chash","key":"not_support"}`,
			inv + `failed to match pattern "^((uri|server_name|server_addr|request_uri|remote_port|remote_addr|query_string|host|hostname|mqtt_client_id)|arg_[0-9a-zA-z_-]+)$" with "not_support"`},
		{u, `{"nodes":{"a:80":1},"type":"chash","hash_on":"header","key":"$#^@"}`, inv + `failed to match pattern "^[a-zA-Z0-9-_]+$" with "$#^@"`},
		{u, `{"nodes":{"a:80":1},"type":"chash","hash_on":"x","key":"a"}`, inv + `property "hash_on" validation failed: matches none of the enum values`},
		{u, `{"nodes":{"a:80":1},"tls":{"client_cert":"` + strings.Repeat("x", 128) + `"}}`,
			inv + `property "tls" validation failed: failed to validate dependent schema for "client_cert": property "client_key" is required`},
		{u, `{"nodes":{"a:80":1},"tls":{"client_cert":"` + strings.Repeat("x", 128) + `","client_key":"` + strings.Repeat("x", 64) + `"}}`,
			"failed to parse cert: PEM_read_bio_X509_AUX() failed"},
		{u, `[1]`, inv + `wrong type: expected object, got table`},
		{u, `{"nodes":`, inv + `Expected value but found T_END at character 10`},
		{co, `{"username":"jack_1-a","plugins":{"key-auth":{"key":"k"}},"group_id":"g","desc":"d","labels":{"a":"b"}}`, ""},
		{co, `{"plugins":{}}`, inv + `property "username" is required`},
		{co, `{"username":"a.b"}`, inv + `property "username" validation failed: failed to match pattern "^[a-zA-Z0-9_\\-]+$" with "a.b"`},
		{co, `{"username":"jack","name":"x"}`, inv + "additional properties forbidden, found name"},
		{cr, `{"id":"c1","plugins":{"key-auth":{"key":"k"}}}`, ""},
		{cr, `{"id":"jack/credentials/c1"}`, ""},
		{cr, `{"plugins":{"a":{},"b":{}}}`, inv + `property "plugins" validation failed: expect object to have at most 1 properties`},
		{model.KindGlobalRule, `{"id":"1"}`, inv + `property "plugins" is required`},
		{model.KindConsumerGroup, `{"id":"1","plugins":{},"name":"g"}`, ""},
		{model.KindPluginConfig, `{"id":"1","plugins":{},"name":""}`, ""},
		{model.KindProto, `{"content":""}`, inv + `property "content" validation failed: string too short, expected at least 1, got 0`},
		{model.KindSSL, `{"cert":"` + strings.Repeat("x", 128) + `","key":"` + strings.Repeat("x", 64) + `"}`, inv + "then clause did not match"},
		{model.KindSSL, `{"sni":"a.b","cert":"$secret://vault/1/a/b","key":"$env://KEY"}`, ""},
		{model.KindSSL, `{"sni":"a.b","cert":"$secret://vault/1/a/b","key":"$env://KEY","certs":["` + strings.Repeat("x", 128) + `"]}`, "mismatched number of certs and keys"},
		{model.KindStreamRoute, `{"server_port":9100,"upstream":{"nodes":{"a:1":1},"scheme":"tls"},"protocol":{"name":"redis","logger":[{"name":"a","conf":{}}]}}`, ""},
		{model.KindStreamRoute, `{"remote_addr":"1::/200"}`, "invalid remote_addr: 1::/200"},
		{model.KindCostDecoration, `{"field_path":"Query.a","add_value":0}`, ""},
		{model.KindCostDecoration, `{"field_path":"Query..a"}`, inv + `property "field_path" validation failed: failed to match pattern "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$" with "Query..a"`},
		{model.KindPlugins, `[{"name":"a","stream":true}]`, ""},
		{model.KindPluginMetadata, `{"anything":1}`, ""},
	} {
		got := ""
		if err := c.Check(tc.kind, []byte(tc.doc)); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%v %.100s\ngot  %s\nwant %s", tc.kind, tc.doc, got, tc.want)
		}
	}
}

func TestCheckSecret(t *testing.T) {
	c := New(Options{})
	for _, tc := range []struct{ manager, doc, want string }{
		{"vault", `{"uri":"http://127.0.0.1:8200","prefix":"kv","token":"t","id":"vault/1"}`, ""},
		{"vault", `{"uri":"127","prefix":"kv","token":"t"}`, `invalid configuration: property "uri" validation failed: failed to match pattern "^[^\\/]+:\\/\\/([\\da-zA-Z.-]+|\\[[\\da-fA-F:]+\\])(:\\d+)?" with "127"`},
		{"aws", `{"access_key_id":"a"}`, `invalid configuration: property "secret_access_key" is required`},
		{"gcp", `{}`, "invalid configuration: value should match only one schema, but matches none"},
		{"x", `{}`, "invalid secret manager: x"},
	} {
		if got := fmt.Sprint(c.CheckSecret(tc.manager, []byte(tc.doc))); got != tc.want && (tc.want != "" || got != "<nil>") {
			t.Errorf("%s %s: got %s, want %s", tc.manager, tc.doc, got, tc.want)
		}
	}
}

func TestSchemas(t *testing.T) {
	c := New(Options{})
	for _, name := range []string{"route", "service", "upstream", "consumer", "credential", "consumer_group", "plugin_config", "global_rule", "ssl",
		"proto", "stream_route", "plugins", "plugin_injected_schema", "graphql_cost_decoration"} {
		doc, ok := c.Schema(name)
		if !ok || !json.Valid(doc) {
			t.Errorf("%s: %v, %.40s", name, ok, doc)
		}
	}
	if _, ok := c.Schema("none"); ok {
		t.Error("there is a schema called none")
	}
	for kind := range model.KindCount {
		if err := c.CheckSchema(kind, []byte(`1`)); (err == nil) != (c.kinds[kind] == nil) {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(uint8(0), []byte(`{"uri":"/a","upstream":{"nodes":[{"host":"a","weight":1}],"type":"chash","key":1,"tls":{"client_cert":1}}}`))
	f.Add(uint8(2), []byte(`{"nodes":{"a:1":1},"tls":{"client_cert":{"a":1},"client_key":[]}}`))
	f.Add(uint8(9), []byte(`{"cert":"x","key":"y","certs":{},"keys":1,"client":2}`))
	c := New(Options{Vars: func(json.RawMessage) error { return nil }})
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		k := model.Kind(kind % uint8(model.KindCount))
		if c.Check(k, raw) != nil || !json.Valid(raw) {
			return
		}
		switch k { // what is valid can be decoded
		case model.KindRoute:
			if _, err := Route("r", raw); err != nil && !strings.Contains(err.Error(), "remote_addr") {
				t.Errorf("%s: %v", raw, err)
			}
		case model.KindService:
			if _, err := Service("s", raw); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
		case model.KindUpstream:
			if _, err := Upstream("u", raw); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
		case model.KindConsumer:
			if _, err := Consumer("c", raw); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
		}
	})
}

package admin

import (
	"strings"
	"testing"
)

// A step is a call and what it gets. The clock moves a second with each.
type step struct {
	call   string // method and path below /apisix/admin/
	body   string
	status int
	want   string // the whole body without the line feed; "…" at its ends: what it contains
}

func (b *bench) run(t *testing.T, steps []step) {
	t.Helper()
	for i, s := range steps {
		method, path, _ := strings.Cut(s.call, " ")
		w := b.send(method, "/apisix/admin/"+path, s.body)
		got, want := strings.TrimSuffix(w.Body.String(), "\n"), s.want
		same := got == want
		if part, ok := strings.CutPrefix(want, "…"); ok {
			same = strings.Contains(got, strings.TrimSuffix(part, "…"))
		}
		if w.Code != s.status || !same {
			t.Errorf("step %d: %s %.80s\ngot  %d %s\nwant %d %s", i+1, s.call, s.body, w.Code, got, s.status, want)
		}
		b.now++
	}
}

const (
	missing  = `{"message":"Key not found"}`
	okRoute  = `{"uri":"/a","plugins":{}}`
	keyAuthA = `"plugins":{"key-auth":{"key":"auth-one"}}`
	sealedA  = `"plugins":{"key-auth":{"key":"4y+JvURBE6ZwRbbgaryrhg=="}}`
)

func TestVerbs(t *testing.T) {
	for name, steps := range map[string][]step{
		"put": {
			{"PUT routes/1", `{"uri":"/a","upstream":{"nodes":{"127.0.0.1:1980":1},"type":"roundrobin"},"desc":"new"}`, 201,
				`{"key":"/apisix/routes/1","value":{"id":"1","uri":"/a","upstream":{"nodes":{"127.0.0.1:1980":1},"type":"roundrobin"},"desc":"new","create_time":1000,"update_time":1000}}`},
			{"PUT routes/1", `{"uri":"/b","plugins":{}}`, 200, `{"key":"/apisix/routes/1","value":{"id":"1","uri":"/b","plugins":{},"create_time":1000,"update_time":1001}}`},
			{"GET routes/1", ``, 200, `{"key":"/apisix/routes/1","value":{"id":"1","uri":"/b","plugins":{},"create_time":1000,"update_time":1001},"createdIndex":1,"modifiedIndex":2}`},
			{"PUT routes", `{"id":7,"uri":"/b","plugins":{}}`, 201, `{"key":"/apisix/routes/7","value":{"id":7,"uri":"/b","plugins":{},"create_time":1003,"update_time":1003}}`},
			{"PUT routes/8", `{"uri":"/b","id":8,"plugins":{}}`, 201, `…"id":"8"…`},
			{"PUT routes", okRoute, 400, `{"error_msg":"missing route id"}`},
			{"PUT routes/1", `{"id":"2","uri":"/a","plugins":{}}`, 400, `{"error_msg":"wrong route id"}`},
			{"PUT routes/1", `{"id":{},"uri":"/a","plugins":{}}`, 400, `{"error_msg":"wrong route id"}`},
			{"PUT routes", `{"id":{},"uri":"/a","plugins":{}}`, 400, `{"error_msg":"invalid configuration: property \"id\" validation failed: object matches none of the required"}`},
			{"PUT routes/a*b", okRoute, 400, `{"error_msg":"invalid configuration: property \"id\" validation failed: object matches none of the required"}`},
			{"PUT routes/1", `{"uri":"/a","create_time":1,"plugins":{}}`, 400, `{"error_msg":"the property is forbidden:  create_time"}`},
			{"PUT routes/1", `{"uri":"/a","upstream":{"update_time":1}}`, 400, `{"error_msg":"the property is forbidden:  upstream.update_time"}`},
			{"PUT routes/1", `{"uri":"/a","plugins":{"create_time":1}}`, 400, `{"error_msg":"the property is forbidden:  plugins.create_time"}`},
			{"PUT routes//1/", okRoute, 200, `…"key":"/apisix/routes/1"…`},
			{"PUT routs/1", okRoute, 404, `{"error_msg":"Unsupported resource type: routs"}`},
			{"PUT ", okRoute, 404, `{"error_msg":"Unsupported resource type: "}`},
			{"PUT routes/1?ttl=x", okRoute, 400, `{"error_msg":"invalid argument ttl: should be a number"}`},
			{"PUT routes/1?ttl=0", okRoute, 400, `…invalid argument ttl: should be greater than 0…`},
			{"GET routes?ttl=x", ``, 400, `{"error_msg":"invalid argument ttl: should be a number"}`},
			{"PUT routes/1?ttl=1.5", okRoute, 200, `…"create_time":1000…`},
		},
		"post": {
			{"POST routes", okRoute, 201, `{"key":"/apisix/routes/00000000000000000001","value":{"id":"00000000000000000001","uri":"/a","plugins":{},"create_time":1000,"update_time":1000}}`},
			{"POST routes/1", okRoute, 400, `{"error_msg":"wrong route id, do not need it"}`},
			{"POST services", `{"id":1}`, 400, `{"error_msg":"wrong service id, do not need it"}`},
			{"POST upstreams", ``, 400, `{"error_msg":"missing configurations"}`},
			{"POST upstreams", `{"nodes":{}}`, 201, `…"key":"/apisix/upstreams/00000000000000000003"…`},
			{"POST consumers", `{"username":"jack"}`, 405, "{\"error_msg\":\"not supported `POST` method for consumer\"}"},
			{"POST consumers/jack/credentials", `{}`, 405, "{\"error_msg\":\"not supported `POST` method for credential\"}"},
			{"POST consumer_groups", `{}`, 405, "{\"error_msg\":\"not supported `POST` method for consumer group\"}"},
			{"POST plugin_configs", `{}`, 405, "{\"error_msg\":\"not supported `POST` method for plugin config\"}"},
			{"POST global_rules", `{}`, 405, "{\"error_msg\":\"not supported `POST` method for global rule\"}"},
			{"POST plugin_metadata/key-auth", `{}`, 405, "{\"error_msg\":\"not supported `POST` method for plugin_metadata\"}"},
			{"POST secrets/vault/1", `{}`, 405, "{\"error_msg\":\"not supported `POST` method for secret\"}"},
		},
		"delete": {
			{"DELETE routes/1", ``, 404, missing},
			{"DELETE routes", ``, 400, `{"error_msg":"missing route id"}`},
			{"PUT routes/1", okRoute, 201, `…"id":"1"…`},
			{"DELETE routes/1", ``, 200, `{"deleted":"1","key":"/apisix/routes/1"}`},
			{"GET routes/1", ``, 404, missing},
		},
		"patch": {
			{"PATCH routes/1", `{"uri":"/b"}`, 404, missing},
			{"PUT routes/1", `{"uri":"/a","upstream":{"nodes":{"a:80":1,"b:80":1}},"methods":["GET"],"desc":"d"}`, 201, `…"id":"1"…`},
			{"PATCH routes/1", `{"methods":null,"upstream":{"nodes":{"a:80":null,"c:80":2},"retries":1}}`, 200,
				`{"key":"/apisix/routes/1","value":{"id":"1","uri":"/a","upstream":{"nodes":{"b:80":1,"c:80":2},"retries":1},"desc":"d","create_time":1001,"update_time":1002}}`},
			{"PATCH routes/1", `{"create_time":5,"update_time":6}`, 200, `…"create_time":5,"update_time":6}…`},
			{"PATCH routes/1", `{"update_time":null,"create_time":null}`, 200, `…"create_time":1004,"update_time":1004}…`},
			{"PATCH routes/1/upstream/nodes", `{"d:80":1}`, 200, `…"nodes":{"d:80":1}…`},
			{"PATCH routes/1/upstream/nodes/e:80", `3`, 200, `…"nodes":{"d:80":1,"e:80":3}…`},
			{"PATCH routes/1/labels/env", `"dev"`, 200, `…"labels":{"env":"dev"}…`},
			{"PATCH routes/1/desc/x", `1`, 400, `{"error_msg":"invalid sub-path: /desc"}`},
			{"PATCH routes/1/uri", `1`, 400, `{"error_msg":"invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number"}`},
			{"PATCH routes/1/x/", okRoute, 200, `…{"id":"1","uri":"/a","plugins":{},"create_time":1010,"update_time":1010}…`},
			{"PATCH routes/1", `{"id":"2"}`, 400, `{"error_msg":"wrong route id"}`},
			{"PATCH routes/1", ``, 400, `{"error_msg":"missing new configuration"}`},
			{"PATCH routes/1", `"a"`, 400, `{"error_msg":"invalid configuration"}`},
			{"PATCH routes/1/x/", `1`, 400, `{"error_msg":"invalid configuration"}`},
			{"PATCH routes", `{}`, 400, `{"error_msg":"missing route id"}`},
			{"PATCH routes/1", `{"uri":null}`, 400, `{"error_msg":"invalid configuration: allOf 1 failed: value should match only one schema, but matches none"}`},
			{"PATCH consumers/jack", `{}`, 405, "{\"error_msg\":\"not supported `PATCH` method for consumer\"}"},
			{"PATCH stream_routes/1", `{}`, 400, `{"error_msg":"stream mode is disabled, can not add stream routes"}`},
			{"PATCH protos/1", `{}`, 405, "{\"error_msg\":\"not supported `PATCH` method for proto\"}"},
		},
		"services and upstreams": {
			{"PUT services/s", `{"upstream":{"nodes":[{"host":"a","port":80,"weight":1}]},"hosts":["a.b"]}`, 201,
				`{"key":"/apisix/services/s","value":{"id":"s","upstream":{"nodes":[{"host":"a","port":80,"weight":1}]},"hosts":["a.b"],"create_time":1000,"update_time":1000}}`},
			{"PUT services/s", `{}`, 200, `…{"id":"s","create_time":1000,"update_time":1001}…`},
			{"PUT upstreams/u", `{"nodes":{"a:80":1},"type":"chash"}`, 400, `{"error_msg":"missing key"}`},
			{"PUT upstreams/u", `{"nodes":{"a:80":1}}`, 201, `…"id":"u"…`},
			{"PATCH upstreams/u/nodes", `[]`, 200, `…"nodes":[]…`},
			{"PUT upstreams", `{"nodes":{}}`, 400, `{"error_msg":"missing upstream id"}`},
		},
	} {
		t.Run(name, func(t *testing.T) { newBench(t, nil).run(t, steps) })
	}
}

func TestReferences(t *testing.T) {
	newBench(t, nil).run(t, []step{
		{"PUT routes/r", `{"uri":"/a","upstream_id":"u"}`, 400, `{"error_msg":"failed to fetch upstream info by upstream id [u], response code: 404"}`},
		{"PUT routes/r", `{"uri":"/a","service_id":9}`, 400, `{"error_msg":"failed to fetch service info by service id [9], response code: 404"}`},
		{"PUT routes/r", `{"uri":"/a","plugins":{},"plugin_config_id":"p"}`, 400, `{"error_msg":"failed to fetch plugin config info by plugin config id [p], response code: 404"}`},
		{"PUT services/s", `{"upstream_id":"u"}`, 400, `{"error_msg":"failed to fetch upstream info by upstream id [u], response code: 404"}`},
		{"PUT consumers", `{"username":"jack","group_id":"g"}`, 400, `{"error_msg":"failed to fetch consumer group info by consumer group id [g], response code: 404"}`},
		{"PUT upstreams/u", `{"nodes":{},"tls":{"client_cert_id":"c"}}`, 400, `{"error_msg":"failed to fetch ssl info by ssl id [c], response code: 404"}`},
		{"PUT upstreams/u", `{"nodes":{}}`, 201, `…"id":"u"…`},
		{"PUT upstreams/9", `{"nodes":{}}`, 201, `…"id":"9"…`},
		{"PUT services/9", `{"upstream_id":"9"}`, 201, `…"id":"9"…`},
		{"PUT plugin_configs/p", `{"plugins":{}}`, 201, `…"id":"p"…`},
		{"PUT consumer_groups/g", `{"plugins":{}}`, 201, `…"id":"g"…`},
		{"PUT routes/r", `{"uri":"/a","upstream_id":"u","service_id":9,"plugin_config_id":"p"}`, 201, `…"id":"r"…`},
		{"PUT consumers", `{"username":"jack","group_id":"g"}`, 201, `…"username":"jack"…`},
		{"DELETE upstreams/u", ``, 400, `{"error_msg":"can not delete this upstream, route [r] is still using it now"}`},
		{"DELETE upstreams/9", ``, 400, `{"error_msg":"can not delete this upstream, service [9] is still using it now"}`},
		{"DELETE services/9", ``, 400, `{"error_msg":"can not delete this service directly, route [r] is still using it now"}`},
		{"DELETE plugin_configs/p", ``, 400, `{"error_msg":"can not delete this plugin config, route [r] is still using it now"}`},
		{"DELETE consumer_groups/g", ``, 400, `{"error_msg":"can not delete this consumer group, consumer [jack] is still using it now"}`},
		{"DELETE upstreams/9?force=1", ``, 400, `{"error_msg":"can not delete this upstream, service [9] is still using it now"}`},
		{"DELETE upstreams/9?force=true", ``, 200, `{"deleted":"1","key":"/apisix/upstreams/9"}`},
		{"DELETE routes/r", ``, 200, `{"deleted":"1","key":"/apisix/routes/r"}`},
		{"DELETE services/9", ``, 200, `{"deleted":"1","key":"/apisix/services/9"}`},
		{"PUT routes/r", `{"uri":"/a","plugins":{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":"u"}]}]}}}`, 201, `…"id":"r"…`},
		{"DELETE upstreams/u", ``, 400, `{"error_msg":"can not delete this upstream, plugin in route [r] is still using it now"}`},
		{"DELETE routes/r", ``, 200, `…"deleted":"1"…`},
		{"PUT global_rules/g", `{"plugins":{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":"u"}]}]}}}`, 201, `…"id":"g"…`},
		{"DELETE upstreams/u", ``, 400, `{"error_msg":"can not delete this upstream, plugin in global_rules [g] is still using it now"}`},
	})
}

func TestPluginChecks(t *testing.T) {
	newBench(t, nil).run(t, []step{
		{"PUT routes/r", `{"uri":"/a","plugins":{"nothing":{}}}`, 400, `{"error_msg":"unknown plugin [nothing]"}`},
		{"PUT routes/r", `{"uri":"/a","plugins":{"cors":{}}}`, 400, `{"error_msg":"plugin [cors] is not supported by this version of Weir yet"}`},
		{"PUT routes/r", `{"uri":"/a","plugins":{"limit-count":"x"}}`, 400, `{"error_msg":"invalid plugin conf \"x\" for plugin [limit-count]"}`},
		{"PUT routes/r", `{"uri":"/a","plugins":{"limit-count":{"count":0}}}`, 400,
			`{"error_msg":"failed to check the configuration of plugin limit-count err: property \"count\" validation failed: expected 0 to be at least 1"}`},
		{"PUT routes/r", `{"uri":"/a","plugins":{"limit-count":{"count":1}},"vars":[["a","=","b"]]}`, 400, `{"error_msg":"failed to validate the 'vars' expression: invalid operator '='"}`},
		{"PUT consumers", `{"username":"jack","plugins":{"nothing":{}}}`, 400, `{"error_msg":"invalid plugins configuration: unknown plugin [nothing]"}`},
		{"PUT consumers", `{"username":"jack","plugins":{"key-auth":{}}}`, 400,
			`{"error_msg":"invalid plugins configuration: failed to check the configuration of plugin key-auth err: property \"key\" is required"}`},
		{"PUT consumers", `{"username":"jack","plugins":{"limit-count":{"count":0}}}`, 400, `…invalid plugins configuration: failed to check the configuration of plugin limit-count…`},
		{"PUT services/s", `{"plugins":{"nothing":{}}}`, 400, `{"error_msg":"unknown plugin [nothing]"}`},
		{"PUT consumer_groups/g", `{"plugins":{"nothing":{}}}`, 400, `{"error_msg":"unknown plugin [nothing]"}`},
		{"PUT global_rules/1", `{"plugins":{"limit-count":{"count":1}}}`, 201, `…"id":"1"…`},
		{"PUT global_rules/1", `{"plugins":{"limit-count":{"count":2}}}`, 200, `…"count":2…`},
		{"PUT global_rules/2", `{"plugins":{"limit-count":{"count":1}}}`, 400, `{"error_msg":"plugin 'limit-count' already exists in global rule with id '1'"}`},
		{"PUT plugin_metadata/nothing", `{}`, 400, `{"error_msg":"invalid plugin name"}`},
		{"PUT plugin_metadata", `{}`, 400, `{"error_msg":"missing plugin name"}`},
		{"PUT plugin_metadata/http-logger", `{}`, 400, `{"error_msg":"plugin [http-logger] is not supported by this version of Weir yet"}`},
		{"PUT plugin_metadata/limit-count", `{"a":1}`, 201, `{"key":"/apisix/plugin_metadata/limit-count","value":{"id":"limit-count","a":1}}`},
	})
}

func TestConsumersAndCredentials(t *testing.T) {
	b := newBench(t, nil)
	b.run(t, []step{
		{"GET consumers", ``, 200, `{"list":[],"total":0}`},
		{"PUT consumers", `{"username":"jack",` + keyAuthA + `}`, 201, `{"key":"/apisix/consumers/jack","value":{"username":"jack",` + sealedA + `,"create_time":1001,"update_time":1001}}`},
		{"PUT consumers/jack", `{"username":"jack",` + keyAuthA + `}`, 200, `…"create_time":1001,"update_time":1002…`},
		{"GET consumers/jack", ``, 200, `{"key":"/apisix/consumers/jack","value":{"username":"jack",` + keyAuthA + `,"create_time":1001,"update_time":1002},"createdIndex":1,"modifiedIndex":2}`},
		{"PUT consumers/jill", `{"username":"jack"}`, 400, `{"error_msg":"wrong username"}`},
		{"PUT consumers", `{}`, 400, `{"error_msg":"invalid configuration: property \"username\" is required"}`},
		{"PUT consumers/jill", `{"username":"jill",` + keyAuthA + `}`, 400, `{"error_msg":"duplicate key of plugin key-auth found with consumer: jack"}`},
		{"PUT consumers/jill", `{"username":"jill"}`, 201, `…"username":"jill"…`},
		{"GET consumers/jack/credentials", ``, 404, missing},
		{"PUT consumers/nobody/credentials/c", `{}`, 404, `{"error_msg":"consumer not found"}`},
		{"PUT consumers/jack/credentials", `{}`, 400, `{"error_msg":"missing credential id"}`},
		{"PUT consumers/jack/credentials/c", `{"plugins":{"limit-count":{"count":1}}}`, 400, `{"error_msg":"only supports auth type plugins in consumer credential"}`},
		{"PUT consumers/jack/credentials/c", `{"plugins":{"limit-count":{"count":1},"key-auth":{"key":"x"}}}`, 400,
			`{"error_msg":"invalid configuration: property \"plugins\" validation failed: expect object to have at most 1 properties"}`},
		{"PUT consumers/jill/credentials/c", `{` + keyAuthA + `}`, 400, `{"error_msg":"duplicate key of plugin key-auth found with consumer: jack"}`},
		{"PUT consumers/jack/credentials/c", `{"plugins":{"key-auth":{"key":"two"}}}`, 201, `…{"key":"/apisix/consumers/jack/credentials/c","value":{"id":"c","plugins":{"key-auth":{"key":"…`},
		{"PUT consumers/jack/credentials/c", `{"plugins":{"key-auth":{"key":"two"}},"desc":"d"}`, 200, `…"create_time":1014,"update_time":1015…`},
		{"PUT consumers/jack/credentials/d", `{"plugins":{"key-auth":{"key":"two"}}}`, 400, `{"error_msg":"duplicate key of plugin key-auth found with credential: c of consumer: jack"}`},
		{"PUT consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"two"}}}`, 200, `…"username":"jack"…`},
		{"PUT consumers/jill", `{"username":"jill","plugins":{"key-auth":{"key":"$secret://vault/1/a/b"}}}`, 200, `…"username":"jill"…`},
		{"GET consumers/jack/credentials/c", ``, 200, `{"key":"/apisix/consumers/jack/credentials/c","value":{"id":"c","plugins":{"key-auth":{"key":"two"}},"desc":"d","create_time":1014,"update_time":1015},"createdIndex":4,"modifiedIndex":5}`},
		{"GET consumers/jack/credentials", ``, 200, `…{"list":[{"key":"/apisix/consumers/jack/credentials/c","value":{"id":"c","plugins":{"key-auth":{"key":"two"}}…`},
		{"GET consumers", ``, 200, `…"total":2}…`},
		{"DELETE consumers/jack/credentials", ``, 400, `{"error_msg":"missing credential id"}`},
		{"DELETE consumers/jack/credentials/x", ``, 404, missing},
		{"DELETE consumers/jack", ``, 200, `{"deleted":"1","key":"/apisix/consumers/jack"}`},
		{"GET consumers/jack/credentials/c", ``, 404, missing},
		{"GET services/s/graphql_cost_decorations", ``, 404, missing},
	})
	if got := b.store.stored("/consumers/jill"); strings.Contains(got, "$secret") || !strings.Contains(got, `"key":"`) {
		t.Errorf("stored: %s", got)
	}
}

// Without encryption objects are stored as they came.
func TestWithoutEncryption(t *testing.T) {
	b := newBench(t, func(cfg *Config, _ *Deps) { cfg.EncryptFields = false })
	b.run(t, []step{
		{"PUT consumers", `{"username":"jack",` + keyAuthA + `}`, 201, `…` + keyAuthA + `…`},
		{"GET consumers/jack", ``, 200, `…` + keyAuthA + `…`},
	})
	if got := b.store.stored("/consumers/jack"); !strings.Contains(got, keyAuthA) {
		t.Errorf("stored: %s", got)
	}
}

// A change of one member must not encrypt the others twice.
func TestPatchKeepsSecrets(t *testing.T) {
	b := newBench(t, nil)
	const open, sealed = `"tls":{"client_cert":"$env://C","client_key":"---`, `"tls":{"client_cert":"$env://C","client_key":"87r5A3Ck`
	b.run(t, []step{
		{"PUT upstreams/u", `{"nodes":{},` + open + strings.Repeat("k", 64) + `"}}`, 201, `…` + sealed + `…`},
		{"GET upstreams/u", ``, 200, `…` + sealed + `…`},
		{"PATCH upstreams/u", `{"desc":"d"}`, 200, `…` + sealed + `…`},
		{"PUT routes/r", `{"uri":"/a","plugins":{"keep":{"secrets":[{"value":"auth-one"}]}}}`, 201, `…{"value":"4y+JvURBE6ZwRbbgaryrhg=="}…`},
		{"PATCH routes/r", `{"desc":"d"}`, 200, `…{"value":"4y+JvURBE6ZwRbbgaryrhg=="}…`},
		{"PATCH routes/r/plugins/keep/secrets", `[{"value":"auth-one"},{"value":"auth-one"}]`, 200, `…[{"value":"4y+JvURBE6ZwRbbgaryrhg=="},{"value":"4y+JvURBE6ZwRbbgaryrhg=="}]…`},
		{"GET routes/r", ``, 200, `…"secrets":[{"value":"auth-one"},{"value":"auth-one"}]…`},
	})
}

func TestStreamRoutesAndOthers(t *testing.T) {
	b := newBench(t, func(cfg *Config, _ *Deps) { cfg.Stream = true })
	b.run(t, []step{
		{"GET stream_routes", ``, 200, `{"list":[],"total":0}`},
		{"PUT stream_routes/1", `{"server_port":9100,"upstream":{"nodes":{"a:1":1}}}`, 201, `…"id":"1"…`},
		{"PUT stream_routes/2", `{"plugins":{"mqtt-proxy":{}}}`, 400, `{"error_msg":"plugin [mqtt-proxy] is not supported by this version of Weir yet"}`},
		{"PUT stream_routes/2", `{"plugins":{"mqttt-proxy":{}}}`, 400, `{"error_msg":"unknown plugin [mqttt-proxy]"}`},
		{"PUT stream_routes/2", `{"protocol":{"name":"redis","superior_id":"2"}}`, 400, `{"error_msg":"stream route can not set itself as superior_id"}`},
		{"PUT stream_routes/2", `{"protocol":{"name":"redis","superior_id":"9"}}`, 400, `{"error_msg":"failed to fetch stream routes[9], response code: 404"}`},
		{"PUT stream_routes/3", `{"protocol":{"name":"dubbo"}}`, 201, `…"id":"3"…`},
		{"PUT stream_routes/2", `{"protocol":{"name":"redis","superior_id":"3"}}`, 400, `{"error_msg":"protocol mismatch: subordinate protocol [redis] does not match superior protocol [dubbo]"}`},
		{"PUT secrets", `{"id":"x"}`, 400, `{"error_msg":"missing secret type"}`},
		{"PUT secrets", `{}`, 400, `{"error_msg":"missing secret id"}`},
		{"PUT secrets/vault/1", `{"uri":"http://127.0.0.1:1","prefix":"p","token":"t"}`, 201, `…{"key":"/apisix/secrets/vault/1","value":{"id":"vault/1",…`},
		{"GET secrets/vault/1", ``, 200, `…"id":"vault/1"…`},
		{"GET secrets", ``, 200, `…"total":1}…`},
		{"PATCH secrets/vault/1/token", `"t2"`, 200, `…"token":"t2"…`},
		{"PATCH secrets/vault", `{}`, 400, `{"error_msg":"no secret id"}`},
		{"PUT secrets/x/1", `{}`, 400, `{"error_msg":"invalid secret manager: x"}`},
		{"DELETE secrets/vault/1", ``, 200, `{"deleted":"1","key":"/apisix/secrets/vault/1"}`},
		{"PUT protos/1", `{"content":"syntax = \"proto3\";"}`, 201, `…"id":"1"…`},
		{"PUT ssls/1", `{"sni":"a.b","cert":"$env://C","key":"---` + strings.Repeat("k", 64) + `"}`, 201, `…"sni":"a.b"…`},
		{"GET ssls/1", ``, 200, `{"key":"/apisix/ssls/1","value":{"id":"1","sni":"a.b","cert":"$env://C","create_time":1018,"update_time":1018},"createdIndex":7,"modifiedIndex":7}`},
		{"GET ssls", ``, 200, `…"cert":"$env://C","create_time"…`},
		{"PUT upstreams/u", `{"nodes":{},"tls":{"client_cert_id":"1"}}`, 400, `{"error_msg":"failed to fetch ssl info by ssl id [1], wrong ssl type"}`},
	})
	if got := b.store.stored("/ssls/1"); strings.Contains(got, "---k") || !strings.Contains(got, `"key":"`) {
		t.Errorf("stored: %s", got)
	}
}

func TestVersion2(t *testing.T) {
	b := newBench(t, func(cfg *Config, _ *Deps) { cfg.Version = "v2" })
	b.run(t, []step{
		{"PUT routes/1", okRoute, 201, `{"action":"set","node":{"key":"/apisix/routes/1","value":{"id":"1","uri":"/a","plugins":{},"create_time":1000,"update_time":1000}}}`},
		{"GET routes/1", ``, 200, `{"action":"get","node":{"key":"/apisix/routes/1","value":{"id":"1","uri":"/a","plugins":{},"create_time":1000,"update_time":1000}}}`},
		{"GET routes", ``, 200, `{"action":"get","node":{"dir":true,"key":"/apisix/routes","nodes":[{"key":"/apisix/routes/1","value":{"id":"1","uri":"/a","plugins":{},"create_time":1000,"update_time":1000},"createdIndex":1,"modifiedIndex":1}]}}`},
		{"PATCH routes/1", `{"desc":"d"}`, 200, `…{"action":"compareAndSwap","node":{"key":"/apisix/routes/1",…`},
		{"POST routes", okRoute, 201, `…{"action":"create","node":{"key":"/apisix/routes/0…`},
		{"DELETE routes/1", ``, 200, `{"action":"delete","deleted":"1","key":"/apisix/routes/1"}`},
	})
	if v := b.send("GET", "/apisix/admin/routes", "").Header().Get("X-API-VERSION"); v != "v2" {
		t.Errorf("X-API-VERSION is %s", v)
	}
}

func TestDescriptions(t *testing.T) {
	newBench(t, nil).run(t, []step{
		{"GET plugins/list", ``, 200, `["key-auth","limit-count","traffic-split","keep"]`},
		{"GET plugins/list?subsystem=http", ``, 200, `["key-auth","limit-count","traffic-split","keep"]`},
		{"GET plugins/list?subsystem=stream", ``, 200, `[]`},
		{"GET plugins/list?subsystem=x", ``, 400, `invalid subsystem passed`},
		{"PUT plugins/list", ``, 404, `{"error_msg":"not found"}`},
		{"GET plugins/limit-count", ``, 200, `…"count":{…`},
		{"GET schema/plugins/limit-count", ``, 200, `…"_meta":{…`},
		{"GET schema/plugins/key-auth?schema_type=consumer", ``, 200, `…"encrypt_fields":["key"]…`},
		{"GET schema/plugins/limit-count?schema_type=consumer", ``, 400, `{"error_msg":"not found schema"}`},
		{"GET plugins/nothing", ``, 404, `{"error_msg":"plugin not found in subsystem http"}`},
		{"GET plugins/limit-count?subsystem=stream", ``, 404, `{"error_msg":"plugin not found in subsystem stream"}`},
		{"GET plugins/limit-count?subsystem=asdf", ``, 400, `{"error_msg":"unsupported subsystem: asdf"}`},
		{"GET plugins?all=true", ``, 200, `…"key-auth":{"version":0.1,"priority":2500,"schema":{…`},
		{"GET plugins?all=true&subsystem=stream", ``, 200, `{}`},
		{"GET schema/route", ``, 200, `…"uris":{"type":"array"…`},
		{"GET schema/noexits", ``, 400, `{"error_msg":"not found schema: noexits"}`},
		{"POST schema/service", ``, 404, `{"error_msg":"not found"}`},
		{"POST schema/validate/routes", okRoute, 200, ``},
		{"POST schema/validate/routes", `{"uri":"/a","plugins":{"nothing":{}}}`, 200, ``},
		{"POST schema/validate/routes", `{"uri":"","plugins":{}}`, 400, `{"error_msg":"property \"uri\" validation failed: string too short, expected at least 1, got 0"}`},
		{"POST schema/validate/routes", `{"plugins":{}}`, 400, `{"error_msg":"allOf 1 failed: value should match only one schema, but matches none"}`},
		{"POST schema/validate/routs", okRoute, 404, `{"error_msg":"Unsupported resource type: routs"}`},
		{"POST schema/validate/routes", `{`, 400, `…invalid request body: …`},
		{"POST schema/validate/routes", ``, 400, `{"error_msg":"wrong type: expected object, got nil"}`},
		{"GET configs", ``, 404, `{"error_msg":"Unsupported resource type: configs"}`},
		{"POST configs/validate", `{}`, 200, `{}`},
	})
}

package transfer

import (
	"encoding/base64"
	"testing"

	"weir/internal/document"
)

func TestCompare(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"same", `routes: [{id: 1, uri: /a}]`, `routes: [{uri: /a, id: "1"}]`, ``},
		{"times", `routes: [{id: 1, uri: /a, create_time: 1, update_time: 2}]`, `routes: [{id: 1, uri: /a}]`, ``},
		{"defaults", `routes: [{id: 1, uri: /a, service_id: s}]`, `routes: [{id: 1, uri: /a, service_id: s, status: 1, priority: 0}]`, ``},
		{
			"inner defaults", `routes: [{id: 1, uri: /a, upstream: {nodes: {"a:1": 1}}}]`,
			`routes: [{id: 1, uri: /a, upstream: {nodes: {"a:1": 1}, type: roundrobin, scheme: http}}]`, ``,
		},
		{"plugin defaults", `routes: [{id: 1, uri: /a, plugins: {key-auth: {}}}]`, `routes: [{id: 1, uri: /a, plugins: {key-auth: {header: apikey}}}]`, ``},
		{"numbers", `upstreams: [{id: 1, retry_timeout: 1.50, nodes: {"a:1": 1}}]`, `upstreams: [{id: 1, retry_timeout: 15e-1, nodes: {"a:1": 1.0}}]`, ``},
		{"lists for tables", `routes: [{id: 1, uri: /a, plugins: []}]`, `routes: [{id: 1, uri: /a, plugins: {}}]`, ``},
		{"list of plugins", `plugins: [{name: a}]`, `routes: []`, ``},
		{"created, deleted", `routes: [{id: 1, uri: /a}]`, `upstreams: [{id: 1, nodes: []}]`, `-routes/1 | +upstreams/1`},
		{
			"changed", `routes: [{id: 1, uri: /a, upstream_id: u, methods: [GET, PUT]}]`, `routes: [{id: 1, uri: /b, service_id: s, upstream_id: u, methods: [GET, POST]}]`,
			`~routes/1 methods.2:"PUT">"POST" service_id:>"s" uri:"/a">"/b"`,
		},
		{"longer list", `routes: [{id: 1, uri: /a, hosts: [a]}]`, `routes: [{id: 1, uri: /a, hosts: [a, b]}]`, `~routes/1 hosts:["a"]>["a","b"]`},
		{"invalid objects", `routes: [{id: 1, nonsense: 1}]`, `routes: [{id: 1, nonsense: 2}]`, `~routes/1 nonsense:1>2`},
		{
			"sealed and open", `consumers: [{username: jack, plugins: {key-auth: {key: ` + jackByFirst + `}}}]`,
			`consumers: [{username: jack, plugins: {key-auth: {key: jack-key}}}]`, ``,
		},
		{
			"sealed with either key", `consumers: [{username: jack, plugins: {key-auth: {key: ` + jackByFirst + `}}}]`,
			`consumers: [{username: jack, plugins: {key-auth: {key: ` + jackBySecond + `}}}]`, ``,
		},
		{
			"secrets are not shown", `consumers: [{username: jack, plugins: {key-auth: {key: ` + jackByFirst + `}}}]`,
			`consumers: [{username: jack, plugins: {key-auth: {key: other}}}]`, `~consumers/jack plugins.key-auth.key:"(secret 1)">"(secret 2)"`,
		},
		{
			"secrets of plugins that are not here", `routes: [{id: 1, uri: /a, plugins: {openid-connect: {client_secret: a, x: 1}}}]`,
			`routes: [{id: 1, uri: /a, plugins: {openid-connect: {client_secret: b, x: 2}}}]`,
			`~routes/1 plugins.openid-connect.client_secret:"(secret 1)">"(secret 2)" plugins.openid-connect.x:1>2`,
		},
		{"secret managers", `secrets: [{id: vault/1, token: a}]`, `secrets: [{id: vault/1, token: b}]`, `~secrets/vault/1 token:"(secret 1)">"(secret 2)"`},
		{"a key that is not given out", `ssls: [{id: 1, sni: a, cert: c}]`, `ssls: [{id: 1, sni: a, cert: c, key: k, keys: [x]}]`, ``},
		{"a certificate without its key", `ssls: [{id: 1, sni: a, cert: c}]`, `ssls: [{id: 1, sni: a, cert: d, key: k}]`, `~ssls/1 cert:"c">"d"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shown(schemas(t).Compare(state(t, c.from), state(t, c.to))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDecimal(t *testing.T) {
	for a, b := range map[string]string{"1": "1.0", "1e3": "1000", "0": "-0.0e7", "1.50": "15E-1", "1e99999999999": "10e99999999998", "-2": "-20e-1"} {
		if decimal(a) != decimal(b) {
			t.Errorf("%s is %s, %s is %s", a, decimal(a), b, decimal(b))
		}
	}
	for a, b := range map[string]string{"1": "-1", "1e3": "1e4", "0.1": "0.01", "9007199254740993": "9007199254740992"} {
		if decimal(a) == decimal(b) {
			t.Errorf("%s equals %s", a, b)
		}
	}
}

// TestSecrets: what is sealed has the form of the specification, and opens.
func TestSecrets(t *testing.T) {
	s := schemas(t)
	const pem = "-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----\n"
	for _, c := range []struct{ path, open, sealed string }{
		{"consumers/jack", `{"plugins":{"key-auth":{"key":"jack-key"}}}`, `{"plugins":{"key-auth":{"key":"` + jackByFirst + `"}}}`},
		{"consumers/a/credentials/c", `{"plugins":{"key-auth":{"key":"jack-key"}}}`, `{"plugins":{"key-auth":{"key":"` + jackByFirst + `"}}}`},
		{"routes/1", `{"plugins":{"key-auth":{"key":"jack-key"}}}`, `{"plugins":{"key-auth":{"key":"jack-key"}}}`},
		{"routes/1", `{"plugins":{"openid-connect":{"client_secret":"top-secret"}}}`, `{"plugins":{"openid-connect":{"client_secret":"DIZIhat4An5Z81YciCmQDA=="}}}`},
		{"routes/1", `{"upstream":{"tls":{"client_key":` + document.NewString(pem).String() + `}}}`, ""},
		{"ssls/1", `{"key":` + document.NewString(pem).String() + `,"keys":[` + document.NewString(pem).String() + `]}`, ""},
		{"plugin_metadata/azure-functions", `{"master_apikey":"jack-key"}`, `{"master_apikey":"` + jackByFirst + `"}`},
	} {
		k := key(t, c.path)
		v := parse(t, c.open)
		s.Seal(k, v)
		if got := v.String(); c.sealed != "" && got != c.sealed || c.sealed == "" && got == c.open {
			t.Errorf("%s: sealed %s, want %s", c.path, got, c.sealed)
		}
		once := v.String()
		if s.Seal(k, v); v.String() != once {
			t.Errorf("%s: sealed twice %s", c.path, v)
		}
		if s.Open(k, v); v.String() != c.open {
			t.Errorf("%s: opened %s, want %s", c.path, v, c.open)
		}
	}
	// What the second key sealed is sealed with the first.
	v := parse(t, `{"plugins":{"key-auth":{"key":"`+jackBySecond+`"}}}`)
	if s.Seal(key(t, "consumers/jack"), v); dotted(v, "plugins.key-auth.key").Text != jackByFirst {
		t.Error(v)
	}
	// Without encrypt_fields only private keys are sealed.
	plain := NewSchemas(nil, newRing(t, firstKey), false)
	v = parse(t, `{"key":`+document.NewString(pem).String()+`,"plugins":{"key-auth":{"key":"jack-key"}}}`)
	plain.Seal(key(t, "ssls/1"), v)
	if _, err := base64.StdEncoding.DecodeString(v.Get("key").Text); err != nil || dotted(v, "plugins.key-auth.key").Text != "jack-key" {
		t.Error(v)
	}
}

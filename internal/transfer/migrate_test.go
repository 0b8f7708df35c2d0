package transfer

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/model"
)

func TestMigrate(t *testing.T) {
	s, err := File{}.parse(dumped(storedAPISIX(t)))
	if err != nil {
		t.Fatal(err)
	}
	k := func(path string) model.Key { return key(t, path) }
	verdict := Verdict{
		Faults: []Fault{
			{k("routes/2"), "unknown plugin [openid-connect]", false},
			{k("routes/3"), "filter_func and script (Lua): not supported yet", true},
			{k("routes/6"), "failed to check the configuration of plugin key-auth err: _meta.pre_function is not supported", false},
			{k("routes/7"), `upstream : scheme "kafka": not supported yet`, true},
			{k("upstreams/kafka"), `upstream kafka: scheme "kafka": not supported yet`, true},
			{k("routes/10"), "failed to check x", false},
			{k("routes/1"), "unknown plugin [key-auth]", false}, // config.yaml does not list it
			{k("consumers/jack"), "its key of plugin key-auth belongs to several; x holds it", false},
		},
		Idle: []model.Kind{model.KindProto, model.KindStreamRoute},
	}
	settings := []Setting{{"apisix.events", "one process"}, {"nginx_config.http_configuration_snippet", "nginx text cannot be run"}}
	const twoKeys = "one key of plugin key-auth"
	want := map[string]string{
		"plugins: key-auth: the route answers 503":                                                                                                  "routes/1",
		"plugins: openid-connect: the route answers 503":                                                                                            "routes/2",
		"plugins: skywalking: its metadata has no effect":                                                                                           "plugin_metadata/skywalking",
		"plugins: tencent-cloud-cls: what uses it does not serve":                                                                                   "services/logs",
		"plugins: zipkin: every request answers 503":                                                                                                "global_rules/1",
		"lua: _meta.pre_function: the route answers 503":                                                                                            "routes/6",
		"lua: filter_func: the route answers 503":                                                                                                   "routes/3",
		"lua: script: the route answers 503":                                                                                                        "routes/4",
		"lua: plugin serverless-pre-function: the route answers 503":                                                                                "routes/5",
		"lua: plugin our-own, which is not one of APISIX's own: the route answers 503":                                                              "routes/8",
		`upstreams: scheme "kafka": the route answers 503`:                                                                                          "routes/7",
		`upstreams: scheme "kafka": what uses it does not serve`:                                                                                    "upstreams/kafka",
		"compile: failed to check x: it does not run":                                                                                               "routes/10",
		"kinds: protos: they have no effect on traffic":                                                                                             "protos/1",
		"store: Expected value but found T_END at character 17: it is skipped, as in APISIX":                                                        "routes/9",
		"config: apisix.events: one process":                                                                                                        "",
		"nginx: nginx_config.http_configuration_snippet: nginx text cannot be run":                                                                  "",
		"duplicates: " + twoKeys + ": the one that was created first has it; the Admin API refuses to write another":                                "consumers/ann/credentials/c1 consumers/jack",
		"secrets: private key: the certificate cannot be used; the keys belong into apisix.data_encryption.keyring":                                 "ssls/1",
		"secrets: secret of plugin key-auth: its stored form is taken for the secret; the keys belong into apisix.data_encryption.keyring":          "consumers/eve",
		"secrets: secret of plugin tencent-cloud-cls: its stored form is taken for the secret; the keys belong into apisix.data_encryption.keyring": "services/logs",
	}
	rank := -1
	for _, f := range schemas(t).Migrate(s, verdict, settings) {
		name := fmt.Sprintf("%s: %s: %s", f.Group, f.What, f.Effect)
		objects, expected := want[name]
		if got := strings.Join(f.Objects, " "); !expected || got != objects {
			t.Errorf("%q: %s, want %q", name, got, objects)
		}
		delete(want, name)
		for i, g := range Groups() {
			if g[0] == f.Group {
				if i < rank {
					t.Errorf("group %s comes too late", f.Group)
				}
				rank = i
			}
		}
	}
	for name := range want {
		t.Errorf("not found: %s", name)
	}
}

// TestMigrateKeyring: with the key that was missing all secrets open.
func TestMigrateKeyring(t *testing.T) {
	s, err := File{}.parse(dumped(storedAPISIX(t)))
	if err != nil {
		t.Fatal(err)
	}
	all := NewSchemas(schemas(t).plugins, newRing(t, firstKey, secondKey, foreignKey), true)
	for _, f := range all.Migrate(s, Verdict{}, nil) {
		if f.Group == GroupSecrets {
			t.Errorf("%+v", f)
		}
	}
}

func TestStored(t *testing.T) {
	s := state(t, "consumers: [{username: jack}, {id: jack/credentials/c, plugins: {}}]\nsecrets: [{id: vault/1}]\nplugins: [{name: a}]")
	var got []string
	for _, o := range s.Stored() {
		got = append(got, fmt.Sprintf("%s %d %s", o.Key, o.Created, o.Raw))
	}
	want := `consumers/jack 1 {"username":"jack"} | consumers/jack/credentials/c 2 {"id":"c","plugins":{}} | secrets/vault/1 3 {"id":"vault/1"} | plugins 4 [{"name":"a"}]`
	if text := strings.Join(got, " | "); text != want {
		t.Errorf("got %s", text)
	}
}

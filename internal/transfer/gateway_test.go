package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"weir/internal/app"
	"weir/internal/config"
	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/etcd"
	"weir/internal/transfer"
)

const adminKey = "abc"

// said is what a gateway says.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *said) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// A gateway is one in this process with its own store.
type gateway struct {
	*app.Gateway
	proxy, admin, etcd string
}

// startGateway starts one; role is more of its deployment.
func startGateway(t *testing.T, role ...string) gateway {
	t.Helper()
	dir := t.TempDir()
	c, err := config.Parse("test", fmt.Appendf(nil, `
apisix: {node_listen: [{ip: 127.0.0.1, port: 0}], ssl: {enable: false}, enable_control: false}
nginx_config: {error_log: %[1]s/error.log, http: {access_log: %[1]s/access.log}}
deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: admin, key: %[2]s, role: admin}]}%[3]s}
weir: {store: {dir: %[1]s/data, listen: "127.0.0.1:0"}}`, dir, adminKey, strings.Join(role, "")), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := new(said)
	g, err := app.Start(t.Context(), app.Options{Config: c, Version: "test", Out: out})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	_, after, _ := strings.Cut(out.b.String(), "etcd     ")
	url, _, _ := strings.Cut(after, " ")
	return gateway{g, "http://" + g.Data()[0].String(), "http://" + g.Admin().String(), url}
}

func buildSchemas(t *testing.T) *transfer.Schemas {
	t.Helper()
	c, err := config.Parse("test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := app.Schemas(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openAdmin(t *testing.T, url, key string, s *transfer.Schemas) *transfer.Admin {
	t.Helper()
	a, err := transfer.NewAdmin(transfer.AdminConfig{URL: url, Key: key, Schemas: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func openEtcd(t *testing.T, url, prefix string, s *transfer.Schemas, now int64) *transfer.Etcd {
	t.Helper()
	e, err := transfer.OpenEtcd(transfer.EtcdConfig{
		Config:  etcd.Config{Endpoints: []string{url}, Prefix: prefix, Timeout: 5 * time.Second},
		Schemas: s, Now: func() time.Time { return time.Unix(now, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

type reader interface {
	Read(context.Context) (*transfer.State, error)
}

func read(t *testing.T, r reader) *transfer.State {
	t.Helper()
	s, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// file is a standalone document with the text.
func file(t *testing.T, text string) *transfer.State {
	t.Helper()
	path := t.TempDir() + "/apisix.yaml"
	writeFile(t, path, text+"\n#END\n")
	return read(t, transfer.File{Path: path})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type place interface {
	reader
	transfer.Target
}

// bring makes a place have a configuration and returns how many changes that
// took.
func bring(t *testing.T, s *transfer.Schemas, at place, want *transfer.State) int {
	t.Helper()
	changes := s.Compare(read(t, at), want)
	last := 0
	r, err := transfer.Apply(t.Context(), at, changes, func(n int) { last = n })
	if err != nil || len(r.Failed)+len(r.Left) > 0 || last != len(changes) {
		t.Fatalf("%v, failed %v, %d left, progress %d of %d", err, r.Failed, len(r.Left), last, len(changes))
	}
	return len(changes)
}

func status(t *testing.T, url, key string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("apikey", key)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// TestRoundTrip moves a configuration file → Admin API → etcd → another
// gateway's etcd, and looks whether that gateway serves it.
func TestRoundTrip(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer origin.Close()
	s := buildSchemas(t)
	want := file(t, fmt.Sprintf(`
upstreams: [{id: u, type: roundrobin, nodes: {%q: 1}}]
services: [{id: s, upstream_id: u}]
plugin_configs: [{id: p, plugins: {key-auth: {}}}]
consumer_groups: [{id: gold, plugins: {}}]
consumers:
  - {username: jack, group_id: gold, plugins: {key-auth: {key: 1jhUSuP5Dz3oF/IEiJ1SAg==}}} # sealed
  - {username: ann}
  - {id: ann/credentials/c1, plugins: {key-auth: {key: ann-key}}}
routes: [{id: r, uri: /r, service_id: s, plugin_config_id: p}, {id: 7, uri: /seven, upstream_id: u, status: 1}]
protos: [{id: x, content: 'syntax = "proto3";'}]
secrets: [{id: vault/1, uri: "http://127.0.0.1", prefix: kv, token: t}]`, origin.Listener.Addr()))

	one := startGateway(t)
	byAdmin, byEtcd := openAdmin(t, one.admin, adminKey, s), openEtcd(t, one.etcd, "/apisix", s, 100)
	if n := bring(t, s, byAdmin, want); n != 11 {
		t.Errorf("%d changes", n)
	}
	for _, key := range []string{"jack-key", "ann-key"} {
		if got := status(t, one.proxy+"/r", key); got != 200 {
			t.Errorf("key %s: %d", key, got)
		}
	}
	for name, at := range map[string]reader{"Admin API": byAdmin, "etcd": byEtcd} {
		if left := s.Compare(read(t, at), want); len(left) > 0 {
			t.Errorf("%s: a second import would change %+v", name, left)
		}
	}

	exported := read(t, byEtcd)
	text, err := exported.AppendStandalone(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "ann-key") || !strings.Contains(string(text), "1jhUSuP5Dz3oF/IEiJ1SAg==") {
		t.Errorf("secrets are not as they are stored:\n%s", text)
	}
	two := startGateway(t)
	other := openEtcd(t, two.etcd, "/apisix", s, 100)
	path := t.TempDir() + "/export.yaml"
	writeFile(t, path, string(text))
	again := read(t, transfer.File{Path: path})
	if failures := s.Check(read(t, other), s.Compare(read(t, other), again), nil); len(failures) > 0 {
		t.Error(failures)
	}
	if n := bring(t, s, other, again); n != 11 {
		t.Errorf("%d changes", n)
	}
	awaitStatus(t, two.proxy+"/r", "ann-key", 200)
	if left := s.Compare(read(t, openAdmin(t, two.admin, adminKey, s)), again); len(left) > 0 {
		t.Errorf("the second gateway differs: %+v", left)
	}

	if n := bring(t, s, byAdmin, file(t, "routes: []")); n != 11 {
		t.Errorf("%d deletions", n)
	}
	if left := read(t, byEtcd); len(left.Objects) != 0 {
		t.Errorf("left: %v", left.Keys())
	}
}

// awaitStatus waits until a write into the store is live.
func awaitStatus(t *testing.T, url, key string, want int) {
	t.Helper()
	for range 1000 {
		if status(t, url, key) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s does not answer %d", url, want)
}

// TestManyObjects imports 5,000 objects with progress, then changes one.
func TestManyObjects(t *testing.T) {
	const n = 5000
	s := buildSchemas(t)
	g := startGateway(t)
	at := openAdmin(t, g.admin, adminKey, s)
	var doc strings.Builder
	doc.WriteString("upstreams: [{id: u, nodes: {\"127.0.0.1:1\": 1}}]\nroutes:\n")
	for i := range n - 1 {
		fmt.Fprintf(&doc, "- {id: %d, uri: /%[1]d, upstream_id: u}\n", i)
	}
	want := file(t, doc.String())
	if got := bring(t, s, at, want); got != n {
		t.Errorf("%d changes", got)
	}
	if got := s.Compare(read(t, at), want); len(got) != 0 {
		t.Errorf("a second import would make %d changes", len(got))
	}
	changed := file(t, strings.Replace(doc.String(), "uri: /777,", "uri: /changed,", 1))
	if got := bring(t, s, at, changed); got != 1 {
		t.Errorf("%d changes", got)
	}
}

// TestEtcdPut looks at what is in the store after writing directly.
func TestEtcdPut(t *testing.T) {
	s := buildSchemas(t)
	g := startGateway(t)
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{g.etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	const prefix = "/mine"
	put := func(now int64, key model.Key, text string) {
		t.Helper()
		v, err := document.Parse([]byte(text))
		if err == nil {
			err = openEtcd(t, g.etcd, prefix, s, now).Put(t.Context(), key, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(path, want string) {
		t.Helper()
		res, err := raw.Get(t.Context(), prefix+"/"+path)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(res.Kvs) > 0 {
			got = string(res.Kvs[0].Value)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	route, jack := model.Key{Kind: model.KindRoute, ID: "1"}, model.Key{Kind: model.KindConsumer, ID: "jack"}
	cred := model.Key{Kind: model.KindCredential, ID: "jack/credentials/c"}
	put(100, route, `{"uri":"/a"}`)
	expect("routes/1", `{"id":"1","uri":"/a","create_time":100,"update_time":100}`)
	put(200, route, `{"uri":"/b"}`)
	expect("routes/1", `{"id":"1","uri":"/b","create_time":100,"update_time":200}`)
	put(100, jack, `{"username":"jack","plugins":{"key-auth":{"key":"jack-key"}}}`)
	expect("consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"1jhUSuP5Dz3oF/IEiJ1SAg=="}},"create_time":100,"update_time":100}`)
	put(100, cred, `{"plugins":{}}`)
	expect("consumers/jack/credentials/c", `{"id":"c","plugins":{},"create_time":100,"update_time":100}`)
	put(100, model.Key{Kind: model.KindSecret, ID: "vault/1"}, `{"token":"t"}`)
	expect("secrets/vault/1", `{"id":"vault/1","token":"t","create_time":100,"update_time":100}`)
	put(100, model.Key{Kind: model.KindPluginMetadata, ID: "syslog"}, `{"log_format":{}}`)
	expect("plugin_metadata/syslog", `{"id":"syslog","log_format":{}}`)
	if err := openEtcd(t, g.etcd, prefix, s, 0).Delete(t.Context(), jack); err != nil {
		t.Fatal(err)
	}
	expect("consumers/jack", "")
	expect("consumers/jack/credentials/c", "")
}

func TestTrouble(t *testing.T) {
	s := buildSchemas(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	g := startGateway(t)
	for _, c := range []struct{ name, url, key, want string }{
		{"nobody there", closed.URL, "", "cannot be reached: dial tcp"},
		{"no key", g.admin, "", "GET /routes: status 401: failed to check token: missing apikey"},
		{"wrong key", g.admin, "x", "GET /routes: status 401: failed to check token: wrong apikey"},
		{"another server", answer(404, "not here"), "", "is not an Admin API"},
		{"not JSON", answer(200, "<html>"), "", "the answer is not JSON"},
		{"another version", answer(200, `{"node":{}}`), "", "admin_api_version v2 is not understood"},
		{"strange key", answer(200, `{"list":[{"key":"/x/","value":{}}]}`), "", `the key "/x/" names no route`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openAdmin(t, c.url, c.key, s).Read(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	var gone *transfer.Unreachable
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	e, err := transfer.OpenEtcd(transfer.EtcdConfig{Schemas: s, Config: etcd.Config{
		Endpoints: []string{"http://" + l.Addr().String()}, Timeout: 200 * time.Millisecond, DialTimeout: 100 * time.Millisecond,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Read(t.Context()); !errors.As(err, &gone) || gone.Place != "etcd://"+l.Addr().String()+"/apisix" {
		t.Error(err)
	}
}

// TestPush brings a gateway up to date that takes its configuration as a whole.
func TestPush(t *testing.T) {
	s := buildSchemas(t)
	g := startGateway(t, ", role_traditional: {config_provider: yaml}")
	at := openAdmin(t, g.admin, adminKey, s)
	have := read(t, at)
	if !at.Pushed() || len(have.Objects) != 0 {
		t.Fatal(have.Objects)
	}
	want := file(t, `
consumers: [{username: jack, plugins: {key-auth: {key: 1jhUSuP5Dz3oF/IEiJ1SAg==}}}]
routes: [{id: r, uri: /r, plugins: {key-auth: {}}, upstream: {nodes: {"127.0.0.1:1": 1}}}]`)
	if err := at.Push(t.Context(), have.With(s.Compare(have, want))); err != nil {
		t.Fatal(err)
	}
	if got := status(t, g.proxy+"/r", "jack-key"); got != 502 { // nobody listens there
		t.Errorf("%d", got)
	}
	have = read(t, at)
	if left := s.Compare(have, want); len(left) > 0 {
		t.Errorf("%+v", left)
	}
	if refused, err := at.Validate(t.Context(), s.Compare(have, file(t, "routes: [{id: bad, uri: 1}, {id: r, uri: /s}]"))); err != nil || len(refused) != 2 {
		t.Error(refused, err)
	}
	if err := at.Push(t.Context(), file(t, "routes: [{id: bad, uri: 1}]")); err == nil || !strings.Contains(err.Error(), "PUT /configs: status 400") {
		t.Error(err)
	}
}

// TestValidate asks a gateway about more than fits into one request.
func TestValidate(t *testing.T) {
	s := buildSchemas(t)
	at := openAdmin(t, startGateway(t).admin, adminKey, s)
	var doc strings.Builder
	doc.WriteString("consumers: [{username: a, plugins: {key-auth: {key: 1}}}, {id: a/credentials/c, plugins: {}}]\nroutes:\n")
	for i := range 1200 {
		uri := "/a"
		if i == 7 || i == 1100 {
			uri = "''"
		}
		fmt.Fprintf(&doc, "- {id: %d, uri: %s, upstream: {nodes: {%s: 1}}}\n", i, uri, strings.Repeat("x", 1000))
	}
	refused, err := at.Validate(t.Context(), s.Compare(file(t, "routes: []"), file(t, doc.String())))
	var got []string
	for _, f := range refused {
		got = append(got, fmt.Sprintf("%s %s: %v", f.Action, f.Key, f.Err))
	}
	want := `created routes/1100: invalid configuration: property "uri" validation failed: string too short, expected at least 1, got 0 | ` +
		`created routes/7: invalid configuration: property "uri" validation failed: string too short, expected at least 1, got 0 | ` +
		`created consumers/a: invalid plugins configuration: failed to check the configuration of plugin key-auth err: property "key" validation failed: wrong type: expected string, got number`
	if text := strings.Join(got, " | "); err != nil || text != want {
		t.Errorf("got %s, %v", text, err)
	}
}

// TestPushed reads a gateway whose configuration is pushed as a whole.
func TestPushed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apisix/admin/configs" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"routes_conf_version":1,"routes":[{"id":"1","uri":"/a","modifiedIndex":3}],"X-Digest":"x","X-Last-Modified":1}`))
	}))
	defer server.Close()
	s := read(t, openAdmin(t, server.URL, "", buildSchemas(t)))
	if v := s.Objects[model.Key{Kind: model.KindRoute, ID: "1"}]; len(s.Objects) != 1 || v == nil || v.String() != `{"uri":"/a"}` {
		t.Error(s.Objects)
	}
}

func TestEffective(t *testing.T) {
	s := buildSchemas(t)
	g := startGateway(t)
	at := openAdmin(t, g.admin, adminKey, s)
	bring(t, s, at, file(t, `
upstreams: [{id: u, nodes: {"127.0.0.1:1": 1}}]
services: [{id: s, upstream_id: u, hosts: [a.b], enable_websocket: true, plugins: {key-auth: {header: service}}}]
plugin_configs: [{id: p, plugins: {key-auth: {header: config}}}]
routes:
  - {id: own, uri: /own, service_id: s, plugin_config_id: p, plugins: {key-auth: {header: route}}}
  - {id: config, uris: [/c], service_id: s, plugin_config_id: p}
  - {id: service, uri: /s, host: x.y, service_id: s}`))
	for _, c := range []struct{ route, want string }{
		{"own", `{"route":"own","uris":["/own"],"hosts":["a.b"],"enable_websocket":true,"service_id":"s","plugin_config_id":"p","global_rules":[],` +
			`"plugins":[{"name":"key-auth","from":"routes/own","priority":2500,"config":{"header":"route"}}],` +
			`"upstream":{"from":"upstreams/u","config":{"nodes":{"127.0.0.1:1":1}}}}`},
		{"config", `"plugins":[{"name":"key-auth","from":"plugin_configs/p",`},
		{"service", `{"route":"service","uris":["/s"],"hosts":["x.y"],`},
		{"service", `"plugins":[{"name":"key-auth","from":"services/s",`},
	} {
		v, err := at.Effective(t.Context(), c.route, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.route, got, c.want)
		}
	}
	var no *transfer.Refusal
	if _, err := at.Effective(t.Context(), "none", false); !errors.As(err, &no) || no.Status != http.StatusNotFound {
		t.Error(err)
	}
}

// TestMigrateEtcd reads the etcd of an APISIX and lets the real compiler judge.
func TestMigrateEtcd(t *testing.T) {
	s := buildSchemas(t)
	g := startGateway(t)
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{g.etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	text, err := os.ReadFile("testdata/apisix.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, err := raw.Put(t.Context(), "/old"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	state := read(t, openEtcd(t, g.etcd, "/old/apisix", s, 0))
	c, err := config.Parse("test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	judge, err := app.NewJudge(c)
	if err != nil {
		t.Fatal(err)
	}
	defer judge.Close()
	var got []string
	for _, f := range s.Migrate(state, judge.Verdict(state.Stored()), nil) {
		for _, o := range f.Objects {
			got = append(got, f.Group+" "+f.What+" "+o)
		}
	}
	text2 := strings.Join(got, "\n")
	for _, want := range []string{
		"plugins openid-connect routes/2", "plugins tencent-cloud-cls services/logs", "plugins zipkin global_rules/1",
		"plugins skywalking plugin_metadata/skywalking",
		"lua filter_func routes/3", "lua script routes/4", "lua plugin serverless-pre-function routes/5",
		"lua _meta.pre_function routes/6", "lua plugin our-own, which is not one of APISIX's own routes/8",
		`upstreams scheme "kafka" routes/7`, `upstreams scheme "kafka" upstreams/kafka`,
		`property "header" validation failed: wrong type: expected string, got number routes/10`,
		"duplicates one key of plugin key-auth consumers/ann/credentials/c1", "duplicates one key of plugin key-auth consumers/jack",
		"secrets private key ssls/1", "secrets secret of plugin key-auth consumers/eve", "store Expected value but found T_END at character 17 routes/9",
	} {
		if n := strings.Count(text2+"\n", want+"\n"); n != 1 {
			t.Errorf("%q is there %d times", want, n)
		}
	}
	for _, fine := range []string{"routes/1\n", "services/1\n", "upstreams/1\n", "ssls/2 ", "gold"} {
		for line := range strings.Lines(text2 + "\n") {
			if strings.HasSuffix(line, fine) && !strings.HasPrefix(line, "kinds") {
				t.Errorf("%s", line)
			}
		}
	}
	if t.Failed() {
		t.Log(text2)
	}
}

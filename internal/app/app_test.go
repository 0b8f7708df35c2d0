package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/control"
	"weir/internal/leaktest"
)

func TestMain(m *testing.M) {
	if file := os.Getenv("WEIR_TEST_CHILD"); file != "" {
		if err := child(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// output is what a gateway says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// options are those of a gateway on free ports with its files below dir. more
// is laid over that configuration.
func options(t testing.TB, dir, more string) (Options, *output) {
	t.Helper()
	source := fmt.Sprintf(`
apisix:
  node_listen: [{ip: 127.0.0.1, port: 0}]
  ssl: {enable: false}
  control: {port: 0}
  status: {ip: 127.0.0.1, port: 0}
nginx_config:
  error_log: %[1]s/error.log
  http: {access_log: %[1]s/access.log, access_log_format: "$request $status $upstream_status $consumer_name"}
weir: {store: {dir: %[1]s/data, listen: "off"}}
%[2]s
`, dir, more)
	if !strings.Contains(more, "deployment:") {
		source += "deployment: {admin: {admin_listen: {port: 0}}}\n"
	}
	if !strings.Contains(more, "plugin_attr:") {
		source += "plugin_attr: {prometheus: {enable_export_server: false}}\n"
	}
	c, err := config.Parse("test", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := new(output)
	return Options{Config: c, Version: "1.2.3", Out: out}, out
}

func start(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func stop(t *testing.T, g *Gateway) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Error("stop:", err)
	}
}

// get returns the status and the body of a GET with headers given as pairs.
func get(t *testing.T, url string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1] // net/http passes over the field
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestExample(t *testing.T) {
	dir := t.TempDir()
	o, out := options(t, dir, "")
	o.Example = true
	g := start(t, o)
	proxy := "http://" + g.Data()[0].String()

	for _, tc := range []struct {
		key    string
		status int
		body   string
	}{
		{"", 401, "Missing API key in request"},
		{"wrong", 401, "Invalid API key in request"},
		{exampleKey, 200, `"X-Consumer-Username"`},
	} {
		status, body := get(t, proxy+"/hello", "apikey", tc.key)
		if tc.key == "" {
			status, body = get(t, proxy+"/hello")
		}
		if status != tc.status || !strings.Contains(body, tc.body) {
			t.Errorf("key %q: %d %s", tc.key, status, body)
		}
	}

	file := filepath.Join(dir, "data", "admin.key")
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}
	route := g.adminURL() + "/routes/example"
	if status, body := get(t, route); status != 401 {
		t.Errorf("Admin API without a key: %d %s", status, body)
	}
	if status, body := get(t, route, "X-API-KEY", strings.TrimSpace(string(key))); status != 200 {
		t.Errorf("Admin API: %d %s", status, body)
	}
	if strings.Contains(out.String(), strings.TrimSpace(string(key))) || !strings.Contains(out.String(), file) {
		t.Error("shows the key, or not where it is: ", out)
	}

	checkRevision(t, g)
	stop(t, g)
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil || !strings.HasSuffix(string(log), "GET /hello HTTP/1.1 200 200 jack\n") {
		t.Errorf("access log %q, %v", log, err)
	}

	// What was stored is there after another start.
	o, out = options(t, dir, "")
	g = start(t, o)
	if want := ": 1 routes, 1 upstreams, 1 consumers"; !strings.Contains(out.String(), want) {
		t.Errorf("%s lacks %q", out, want)
	}
	if status, _ := get(t, "http://"+g.Data()[0].String()+"/hello"); status != 401 {
		t.Error("status", status)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, key) {
		t.Error("another key", err)
	}
	stop(t, g)
}

func checkRevision(t *testing.T, g *Gateway) {
	t.Helper()
	_, body := get(t, "http://"+g.Control().String()+"/v1/revision")
	var r control.Revision
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if r.Applied < 4 || r.Lag != r.Store-r.Applied || r.Objects["routes"] != 1 || r.Compiled["routes"] != 1 || !r.Connected {
		t.Errorf("%s", body)
	}
	if status, body := get(t, "http://"+g.Status().String()+"/status/ready"); status != 200 {
		t.Error(status, body)
	}
}

func TestOneGatewayPerData(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "")
	g := start(t, o)
	defer stop(t, g)
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Error(err)
	}
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, _ := options(t, t.TempDir(), "")
	o.Config.APISIX.HTTP.NodeListen[0].Port = l.Addr().(*net.TCPAddr).Port
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Error(err)
	}
}

func TestUnreachableStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	o, _ := options(t, t.TempDir(), "deployment: {etcd: {host: ['http://"+l.Addr().String()+"']}, admin: {admin_listen: {port: 0}}}")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, o); err == nil {
		t.Error("started without its store")
	}
}

func TestRefusedProvider(t *testing.T) {
	o, _ := options(t, t.TempDir(), "deployment: {role: data_plane, role_data_plane: {config_provider: xds}}")
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "config_provider xds is not supported") {
		t.Error(err)
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "")
	g := start(t, o)
	for _, name := range []string{"access.log", "error.log"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, name+".1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	get(t, "http://"+g.Data()[0].String()+"/nowhere")
	stop(t, g)
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil || string(log) != "GET /nowhere HTTP/1.1 404 - -\n" {
		t.Errorf("%q, %v", log, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "error.log")); err != nil {
		t.Error(err)
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "a.key")
	first, err := keyFile(path)
	if err != nil || len(first) < 20 {
		t.Fatal(first, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := keyFile(path)
	st, statErr := os.Stat(path)
	if err != nil || statErr != nil || second != first || st.Mode().Perm() != 0o600 {
		t.Error(second, err, statErr)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyFile(path); err == nil {
		t.Error("an empty key was taken")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
}

func TestConfiguredKey(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: admin, key: abc, role: admin}, {name: v, key: def, role: viewer}]}}")
	g := start(t, o)
	defer stop(t, g)
	for key, want := range map[string]int{"abc": 200, "def": 200, "": 401} {
		if status, body := get(t, g.adminURL()+"/routes", "X-API-KEY", key); status != want {
			t.Errorf("key %q: %d %s", key, status, body)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "admin.key")); !os.IsNotExist(err) {
		t.Error("a key was made:", err)
	}
}

package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/control"
	"weir/internal/source/etcd"
)

// authority makes certificates for 127.0.0.1 and lays them into a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.issue("ca", nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// issue makes NAME.pem and NAME-key.pem, signed by the authority; the first is
// the authority itself.
func (a *authority) issue(name string, usage []x509.ExtKeyUsage) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: usage, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	if c.IsCA {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name: {Type: "CERTIFICATE", Bytes: der}, name + "-key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// client trusts the authority and shows the named certificate, if there is one.
func (a *authority) client(name string) *http.Client {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	t := &tls.Config{RootCAs: pool}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.file(name), a.file(name+"-key"))
		if err != nil {
			a.t.Fatal(err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: t}}
	a.t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestAdminTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	a.issue("client", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	other := newAuthority(t)
	other.issue("client", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	files := fmt.Sprintf("admin_ssl_cert: %s, admin_ssl_cert_key: %s", a.file("server"), a.file("server-key"))
	for name, more := range map[string]string{"tls": "", "mtls": ", admin_ssl_ca_cert: " + a.file("ca")} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o, _ := options(t, dir, "deployment: {admin: {admin_listen: {port: 0}, https_admin: true, admin_api_mtls: {"+files+more+"}, admin_key: [{name: a, key: abc, role: admin}]}}")
			g := start(t, o)
			defer stop(t, g)
			call := func(c *http.Client) (int, error) {
				req, err := http.NewRequest("GET", "https://"+g.Admin().String()+"/apisix/admin/routes", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-API-KEY", "abc")
				res, err := c.Do(req)
				if err != nil {
					return 0, err
				}
				defer res.Body.Close()
				return res.StatusCode, nil
			}
			if status, err := call(a.client("client")); status != 200 {
				t.Errorf("with a certificate: %d, %v", status, err)
			}
			if status, err := call(a.client("")); (status == 200) != (more == "") {
				t.Errorf("without a certificate: %d, %v", status, err)
			}
			stranger := a.client("")
			pair, err := tls.LoadX509KeyPair(other.file("client"), other.file("client-key"))
			if err != nil {
				t.Fatal(err)
			}
			stranger.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			if status, err := call(stranger); (status == 200) != (more == "") {
				t.Errorf("with a stranger's certificate: %d, %v", status, err)
			}
			res, err := http.Get("http://" + g.Admin().String() + "/apisix/admin/routes")
			if err == nil {
				res.Body.Close()
				if res.StatusCode == 200 {
					t.Error("it answers without TLS")
				}
			}
		})
	}
	for name, more := range map[string]string{
		"no file":        "admin_ssl_cert: /nowhere, admin_ssl_cert_key: /nowhere",
		"no authority":   files + ", admin_ssl_ca_cert: /nowhere",
		"an empty one":   files + ", admin_ssl_ca_cert: " + a.file("client-key"),
		"another's key":  fmt.Sprintf("admin_ssl_cert: %s, admin_ssl_cert_key: %s", a.file("server"), a.file("client-key")),
		"key as the crt": fmt.Sprintf("admin_ssl_cert: %s, admin_ssl_cert_key: %s", a.file("server-key"), a.file("server")),
	} {
		o, _ := options(t, t.TempDir(), "deployment: {admin: {admin_listen: {port: 0}, https_admin: true, admin_api_mtls: {"+more+"}}}")
		if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "deployment.admin.admin_api_mtls: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// do sends an Admin API request with the key "abc" and returns status and body.
func do(t *testing.T, g *Gateway, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, g.adminURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", "abc")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

const withKey = "deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: boss, key: abc, role: admin}]}}\n"

func TestAudit(t *testing.T) {
	const secret = "secret-of-jack"
	for name, c := range map[string]struct{ setting, file string }{
		"error log": {"", "error.log"}, "own file": {"audit_log: DIR/audit.log", "audit.log"}, "off": {"audit_log: \"off\"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o, _ := options(t, dir, withKey)
			o.Config.Weir.AuditLog = strings.Trim(strings.TrimPrefix(strings.ReplaceAll(c.setting, "DIR", dir), "audit_log: "), `"`)
			g := start(t, o)
			do(t, g, "PUT", "/consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"`+secret+`"}}}`)
			do(t, g, "PATCH", "/consumers/jack", `{}`)
			do(t, g, "GET", "/consumers/jack", ``)
			do(t, g, "PUT", "/routes/1", `{"uri":1}`)
			do(t, g, "DELETE", "/consumers/jack", ``)
			do(t, g, "POST", "/upstreams", `{"nodes":{}}`)
			stop(t, g)
			var all string
			files, err := filepath.Glob(filepath.Join(dir, "*.log"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if lines := strings.Count(string(b), "admin: changed"); filepath.Base(f) == c.file && lines != 3 || filepath.Base(f) != c.file && lines != 0 {
					t.Errorf("%s: %d changes: %s", f, lines, b)
				}
				all += string(b)
			}
			if strings.Contains(all, secret) || strings.Contains(all, "abc") {
				t.Error("a secret is told: ", all)
			}
			want := "[notice] admin: changed object=consumers/jack action=set key=boss peer=127.0.0.1:"
			if c.file != "" && !strings.Contains(all, want) {
				t.Errorf("%s lacks %q", all, want)
			}
		})
	}
}

// reloaded is a gateway that reads its config.yaml from a file.
func reloaded(t *testing.T, dir, more string) (g *Gateway, rewrite func(string)) {
	t.Helper()
	path := filepath.Join(dir, "config.yaml")
	rewrite = func(more string) {
		text := fmt.Sprintf("apisix: {node_listen: [{ip: 127.0.0.1, port: 0}], ssl: {enable: false}, control: {port: 0}}\n"+
			"nginx_config: {error_log: %[1]s/error.log, http: {enable_access_log: false}}\nweir: {store: {dir: %[1]s/data, listen: \"off\"}}\n%[2]s%[3]s", dir, withKey, more)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(more)
	c, err := config.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, Options{Config: c, Version: "1.2.3", Out: new(output)}), rewrite
}

// The list of plugins in config.yaml is read again on demand, and shared with
// other gateways through the store.
func TestReloadPlugins(t *testing.T) {
	dir := t.TempDir()
	g, rewrite := reloaded(t, dir, "")
	up := origin(t)
	do(t, g, "PUT", "/routes/1", `{"uri":"/a","plugins":{"key-auth":{}},"upstream":{"nodes":{"`+up+`":1},"type":"roundrobin"}}`)
	proxy := "http://" + g.Data()[0].String() + "/a"
	is := func(what string, want int) {
		t.Helper()
		if status, body := get(t, proxy); status != want {
			t.Errorf("%s: %d %s, want %d", what, status, body, want)
		}
	}
	is("at first", 401)
	rewrite("plugins: [cors, limit-count]\n")
	if status, body := do(t, g, "PUT", "/plugins/reload", ""); status != 200 || body != "done" {
		t.Errorf("%d %s", status, body)
	}
	is("its guard is switched off", 503)
	if status, body := do(t, g, "PUT", "/routes/2", `{"uri":"/b","plugins":{"key-auth":{}}}`); status != 400 || !strings.Contains(body, "unknown plugin [key-auth]") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := do(t, g, "GET", "/plugins/list", ""); strings.Contains(body, "key-auth") {
		t.Error(body)
	}
	stored := func() string {
		kv, _, err := g.store.Get(t.Context(), pluginsKey)
		if err != nil {
			t.Fatal(err)
		}
		if kv == nil {
			return ""
		}
		return string(kv.Value)
	}
	if got := stored(); !strings.HasPrefix(got, `[{"name":"cors"},{"name":"limit-count"},{"name":"ip-restriction","stream":true}`) {
		t.Errorf("the store has %s", got)
	}
	rewrite("plugins: [\n")
	if status, body := do(t, g, "PUT", "/plugins/reload", ""); status != 503 || !strings.Contains(body, "config.yaml") {
		t.Errorf("a broken file: %d %s", status, body)
	}
	is("a broken file", 503)
	rewrite("plugins: [key-auth]\n")
	req, err := http.NewRequest("PUT", "http://"+g.Control().String()+"/v1/plugins/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != 200 {
		t.Error(res, err)
	} else {
		res.Body.Close()
	}
	is("by the Control API", 401)
	stop(t, g)

	// What config.yaml says when the gateway starts holds, whatever was reloaded.
	g, rewrite = reloaded(t, dir, "plugins: [cors]\n")
	proxy = "http://" + g.Data()[0].String() + "/a"
	is("another list at the start", 503)
	if got := stored(); !strings.HasPrefix(got, `[{"name":"cors"},{"name":"ip-`) {
		t.Errorf("the store has %s", got)
	}
	rewrite("")
	do(t, g, "PUT", "/plugins/reload", "")
	is("no list", 401)
	if got := stored(); got != "" {
		t.Errorf("the store has %s", got)
	}
	stop(t, g)
}

func TestControlObjects(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, withKey)
	g := start(t, o)
	defer stop(t, g)
	a := newAuthority(t)
	text := func(name string) string {
		b, err := os.ReadFile(a.file(name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), "\n", `\n`)
	}
	if status, body := do(t, g, "PUT", "/routes/1", `{"uri":"/a","plugins":{"key-auth":{}},"upstream":{"nodes":{"127.0.0.1:80":1},"type":"roundrobin","tls":{"client_cert":"`+text("ca")+`","client_key":"`+text("ca-key")+`"}}}`); status != 201 {
		t.Fatal(status, body)
	}
	do(t, g, "PUT", "/upstreams/u", `{"nodes":{"a.test":1},"type":"roundrobin"}`)
	do(t, g, "PUT", "/plugin_metadata/key-auth", `{"x":1}`)
	if _, err := g.store.Put(t.Context(), "/routes/broken", []byte(`{"uri":"/b","plugins":{"nothing":{}}}`), etcd.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the broken route", func() bool { return g.state.Current().Exists(0, "broken") })
	url := "http://" + g.Control().String() + "/v1/"
	for path, want := range map[string]struct {
		status int
		parts  []string
	}{
		"routes":                   {200, []string{`"key":"/apisix/routes/1"`, `"fault":"unknown plugin [nothing]"`, `"nodes":[{"host":"127.0.0.1","port":80,"weight":1}]`}},
		"route/1":                  {200, []string{`"id":"1"`, `"hash_on":"vars"`, `"header":"apikey"`, `"_meta":{}`, `"has_domain":false`, `"createdIndex":`, `"clean_handlers":{}`, `"priority":0`}},
		"route/2":                  {404, []string{`{"error_msg":"route[2] not found"}`}},
		"service/2":                {404, []string{`{"error_msg":"service[2] not found"}`}},
		"services":                 {200, []string{`[]`}},
		"upstream/u":               {200, []string{`"nodes":[{"host":"a.test","weight":1}]`, `"has_domain":true`}},
		"upstream/":                {404, []string{`upstream[] not found`}},
		"plugin_metadatas":         {200, []string{`[{"id":"key-auth","x":1}]`}},
		"plugin_metadata/key-auth": {200, []string{`{"id":"key-auth","x":1}`}},
		"plugin_metadata/none":     {404, []string{`{"error_msg":"plugin metadata[none] not found"}`}},
		"schema":                   {200, []string{`"upstream_hash_vars_schema":{"type":"string"`, `"basic-auth":{"version":0.1`, `"consumer_schema":`, `"stream_plugins":{`}},
		"server_info":              {200, []string{`"version":"1.2.3"`, `"etcd_version":"3.`, `"hostname":"`, `"id":"` + g.id}},
		"status":                   {200, []string{`"ready":true`, `"source":"etcd"`, `"faults":[{"object":"routes/broken","error":"unknown plugin [nothing]"}]`}},
	} {
		status, body := get(t, url+path)
		if status != want.status || path != "schema" && strings.Contains(body, "client_key") {
			t.Errorf("%s: %d %s", path, status, body)
		}
		for _, part := range want.parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s: %s lacks %s", path, body, part)
			}
		}
	}
	res, err := http.Post(url+"gc", "", nil)
	if err != nil || res.StatusCode != 200 {
		t.Error(res, err)
	} else {
		res.Body.Close()
	}
	for _, method := range []string{"GET", "POST"} {
		req, err := http.NewRequest(method, url+"plugins/reload", nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err = http.DefaultClient.Do(req); err != nil || res.StatusCode != 404 {
			t.Error(method, res, err)
		} else {
			res.Body.Close()
		}
	}
}

// /status/ready fails while everything is still served.
func TestReadyFailsFirst(t *testing.T) {
	o, _ := options(t, t.TempDir(), "")
	o.Config.Weir.ShutdownDelay = time.Hour
	g := start(t, o)
	proxy, ready := "http://"+g.Data()[0].String(), "http://"+g.Status().String()+"/status/ready"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Stop(ctx) }()
	until(t, "that it is not ready", func() bool {
		status, body := get(t, ready)
		return status == 503 && strings.Contains(body, "the gateway is stopping")
	})
	if status, _ := get(t, proxy+"/nowhere"); status != 404 {
		t.Error("status", status)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(proxy); err == nil {
		t.Error("it is still served")
	}
}

func TestInstanceID(t *testing.T) {
	dir := t.TempDir()
	c := &config.Config{File: filepath.Join(dir, "conf", "config.yaml")}
	c.Weir.Store.Dir = filepath.Join(dir, "data")
	first, err := instanceID(c)
	if err != nil || len(first) != 36 || first[14] != '4' {
		t.Fatal(first, err)
	}
	c.APISIX.ID = "named"
	if again, err := instanceID(c); err != nil || again != first {
		t.Errorf("%s, %v; want the one that was kept", again, err)
	}
	if err := os.Remove(filepath.Join(dir, "data", instanceFile)); err != nil {
		t.Fatal(err)
	}
	if id, err := instanceID(c); err != nil || id != "named" {
		t.Error(id, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "conf"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "conf", instanceFile), []byte(" of-apisix\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := instanceID(c); err != nil || id != "of-apisix" {
		t.Error(id, err)
	}
	c.File, c.Weir.Store.Dir = "", "/dev/null/x"
	if id, err := instanceID(c); err == nil || id == "" {
		t.Error(id, err)
	}
}

// What in a file is no object, and what does not run, is shown.
func TestStatusOfFile(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}\n")
	o.Config.File = filepath.Join(dir, "config.yaml")
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "apisix.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("routes: [{id: 1, uri: /a, plugins: {nothing: {}}}, text, {id: 2, uri: /b, upstream_id: u}]\n#END")
	g := start(t, o)
	defer stop(t, g)
	status := func() (r control.Report, text string) {
		_, body := get(t, "http://"+g.Control().String()+"/v1/status")
		if err := json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r, body
	}
	_, text := status()
	for _, part := range []string{`"source":"file"`, `{"object":"routes/1","error":"unknown plugin [nothing]"}`, `{"object":"routes/2","error":"it refers to upstreams/u, which is not there"}`, `"skipped":[{"object":"routes/arr_2","error":"invalid configuration: wrong type: expected object, got string"}]`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %s", text, part)
		}
	}
	if got, _ := get(t, "http://"+g.Data()[0].String()+"/a"); got != 503 {
		t.Errorf("a route of an unknown plugin: %d", got)
	}
	write("routes: [\n#END")
	until(t, "what is wrong with the file", func() bool {
		r, _ := status()
		return strings.Contains(r.Problem, "apisix.yaml") && strings.Contains(r.Problem, "line")
	})
}

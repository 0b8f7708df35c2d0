package app

// Secrets of every kind are planted, everything that can be said about them is
// provoked, and all that the process wrote or showed is searched for them.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planted begins every secret of these tests; nothing else has it.
const planted = "xPLANTEDx"

// leaks returns the surroundings of secrets in text, in plain or in base64.
func leaks(text string) []string {
	var found []string
	for _, form := range []string{planted, base64.StdEncoding.EncodeToString([]byte(planted))[:10], "PRIVATE KEY"} {
		for rest := text; ; {
			_, after, is := strings.Cut(rest, form)
			if !is {
				break
			}
			at := len(text) - len(after)
			found = append(found, text[max(0, at-160):min(len(text), at+60)])
			rest = after
		}
	}
	return found
}

// searched fails for secrets in text.
func searched(t *testing.T, where, text string) {
	t.Helper()
	for i, leak := range leaks(text) {
		if i == 5 {
			t.Errorf("%s: and more", where)
			return
		}
		t.Errorf("%s has a secret: …%s…", where, leak)
	}
}

// searchedLogs fails for secrets in the log files below dir, and if there is none.
func searchedLogs(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".log") {
			return err
		}
		text, err := os.ReadFile(path)
		n += len(text)
		searched(t, filepath.Base(path), string(text))
		return err
	})
	if err != nil || n == 0 {
		t.Errorf("%d bytes of logs, %v", n, err)
	}
}

// plantedPlugins are configurations that hold secrets and call places where nobody is.
const plantedPlugins = `{
	"http-logger": {"uri":"http://127.0.0.1:1/l?token=` + planted + `-url","auth_header":"` + planted + `-auth","batch_max_size":1,"max_retry_count":0},
	"clickhouse-logger": {"endpoint_addr":"http://127.0.0.1:1","user":"u","password":"` + planted + `-click","database":"d","logtable":"t","batch_max_size":1,"max_retry_count":0},
	"limit-count": {"count":1,"time_window":60,"policy":"redis","redis_host":"127.0.0.1","redis_port":1,"redis_username":"u","redis_password":"` + planted + `-redis","allow_degradation":true},
	"forward-auth": {"uri":"http://u:` + planted + `-url@127.0.0.1:1/auth?key=` + planted + `-url","allow_degradation":true},
	"proxy-mirror": {"host":"http://127.0.0.1:1"},
	"csrf": {"key":"` + planted + `-csrf"}
}`

func plantedObjects(t *testing.T, echo string) map[string]string {
	a := newAuthority(t)
	text := func(name string) string {
		b, err := os.ReadFile(a.file(name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), "\n", `\n`)
	}
	return map[string]string{
		"consumers/jack":                `{"username":"jack","plugins":{"key-auth":{"key":"` + planted + `-key"},"basic-auth":{"username":"jack","password":"` + planted + `-basic"}}}`,
		"consumers/jack/credentials/c1": `{"plugins":{"jwt-auth":{"key":"jack","secret":"` + planted + `-jwt"}}}`,
		"consumers/jack/credentials/c2": `{"plugins":{"hmac-auth":{"key_id":"jack","secret_key":"` + planted + `-hmac"}}}`,
		"routes/1":                      `{"uri":"/key","plugins":{"key-auth":{}},"upstream":{"nodes":{"` + echo + `":1}}}`,
		"routes/2":                      `{"uri":"/basic","plugins":{"basic-auth":{}},"upstream":{"nodes":{"` + echo + `":1}}}`,
		"routes/3":                      `{"uri":"/jwt","plugins":{"jwt-auth":{}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
		"routes/4":                      `{"uri":"/hmac","plugins":{"hmac-auth":{}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
		"routes/5":                      `{"uri":"/calls","plugins":` + plantedPlugins + `,"upstream":{"nodes":{"` + echo + `":1}}}`,
		"routes/6":                      `{"uri":"/tls","upstream":{"scheme":"https","nodes":{"` + echo + `":1},"tls":{"client_cert":"` + text("ca") + `","client_key":"` + text("ca-key") + `"}}}`,
		"ssls/1":                        `{"sni":"a.test","cert":"` + text("ca") + `","key":"` + text("ca-key") + `"}`,
	}
}

// Members of a document that do not run, each with a secret near the mistake.
var plantedMistakes = map[string]string{
	"consumers/a": `{"username":"a","plugins":{"key-auth":{"key":["` + planted + `-list"]}}}`,
	"consumers/b": `{"username":"b","plugins":{"key-auth":{"key":{"x":"` + planted + `-object"}}}}`,
	"consumers/c": `{"username":"c","plugins":{"hmac-auth":{"key_id":"c","secret_key":"` + planted + strings.Repeat("x", 300) + `"}}}`,
	"consumers/d": `{"username":"d","plugins":{"jwt-auth":{"key":"d","algorithm":"` + planted + `-enum"}}}`,
	"consumers/f": `{"username":"f","plugins":{"jwt-auth":{"key":"f","base64_secret":true,"secret":"` + planted + `-%%not base64"}}}`,
	"routes/b1":   `{"uri":"/b1","plugins":{"limit-count":{"count":1,"time_window":60,"policy":"redis","redis_host":"h","redis_password":["` + planted + `"]}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
	"routes/b2":   `{"uri":"/b2","plugins":{"http-logger":{"uri":"ftp://u:` + planted + `@h","auth_header":["` + planted + `"]}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,

	"routes/b7":      `{"uri":"/b7","plugins":{"clickhouse-logger":{"endpoint_addr":"u:` + planted + `@h","user":"u","password":"` + planted + `","database":"d","logtable":"t"}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
	"routes/b8":      `{"uri":"/b8","plugins":{"forward-auth":{"uri":"ftp://u:` + planted + `@h"}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
	"routes/b9":      `{"uri":"/b9","plugins":{"http-logger":{"uri":"http://u:` + planted + `@h:port"}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
	"routes/b3":      `{"uri":"/b3","plugins":{"forward-auth":{"uri":"http://u:` + planted + `@[::bad/"}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
	"routes/b4":      `{"uri":"/b4","plugins":{"csrf":{"key":["` + planted + `"]}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`,
	"routes/b5":      `{"uri":"/b5","upstream":{"nodes":{"127.0.0.1:1":1},"tls":{"client_cert":"` + strings.Repeat("c", 128) + `","client_key":"` + strings.Repeat(planted, 20) + `"}}}`,
	"ssls/a":         `{"sni":"b.test","cert":"` + strings.Repeat("c", 128) + `","key":"` + strings.Repeat(planted, 20) + `"}`,
	"consumers/long": `{"username":"long","plugins":{"key-auth":{"key":"$env://` + planted + `-env"}}}`,
}

// clientSecrets are what clients send and the logs must not have.
func clientSecrets(t *testing.T, base string) {
	for _, path := range []string{"/key", "/basic", "/jwt", "/hmac", "/calls", "/tls", "/none", "/b1", "/b2"} {
		for _, field := range [][2]string{
			{"apikey", planted + "-wrong"},
			{"apikey", planted + "-key"},
			{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("jack:"+planted+"-basic"))},
			{"Authorization", "Basic " + planted},
			{"Authorization", "Bearer " + planted + "." + planted + "." + planted},
			{"Authorization", `Signature keyId="jack",algorithm="hmac-sha256",headers="@request-target",signature="` + planted + `"`},
			{"Cookie", "jwt=" + planted},
			{"Proxy-Authorization", "Basic " + planted},
		} {
			if status, body := get(t, base+path, field[0], field[1]); status != 200 {
				searched(t, "answer of "+path, body)
			}
		}
	}
}

// shown are the places of the Control API that do not show objects as such.
var shown = []string{
	"/v1/status", "/v1/revision", "/v1/healthcheck", "/v1/server_info", "/v1/schema", "/v1/ssls", "/v1/routes", "/v1/services",
	"/v1/upstreams", "/v1/consumers", "/v1/plugin_metadatas", "/v1/explain?url=/key&header=apikey:" + "jack", "/v1/explain?url=/calls",
	"/v1/calls?seconds=0.1", "/v1/discovery/consul/dump", "/v1/discovery/eureka/dump", "/v1/discovery/nacos/dump", "/v1/discovery/kubernetes/dump",
}

const plantedDiscovery = `
discovery:
  consul: {servers: ["http://127.0.0.1:1"], token: ` + planted + `-consul, fetch_interval: 1}
  eureka: {host: ["http://u:` + planted + `-eureka@127.0.0.1:1"], prefix: "/eureka/"}
  nacos: {host: ["http://u:` + planted + `-nacos@127.0.0.1:1"], access_key: a, secret_key: ` + planted + `-sk}
`

func TestNoSecretIsSaid(t *testing.T) {
	dir := t.TempDir()
	o, out := options(t, dir, `
deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: `+planted+`-admin, role: admin}]}}
plugin_attr: {prometheus: {export_addr: {ip: 127.0.0.1, port: 0}}}
`+plantedDiscovery)
	o.Config.Nginx.ErrorLogLevel = "debug"
	o.Config.Weir.AuditLog = dir + "/audit.log"
	g := start(t, o)
	echo := origin(t)
	admin := func(method, path, key, doc string) (int, string) {
		req, err := http.NewRequest(method, "http://"+g.Admin().String()+"/apisix/admin/"+path, strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	objects := plantedObjects(t, echo)
	for _, path := range slices.Sorted(maps.Keys(objects)) {
		if status, body := admin("PUT", path, planted+"-admin", objects[path]); status >= 300 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(plantedMistakes)) {
		_, body := admin("PUT", path, planted+"-admin", plantedMistakes[path])
		if !strings.Contains(body, `"value"`) { // what was stored is shown to who stored it
			searched(t, "refusal of "+path, body)
		}
	}
	for _, path := range []string{"routes", "routes/1?api_key=" + planted} {
		if status, body := admin("GET", path, planted+"-wrong", ""); status != 401 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	base := "http://" + g.Data()[0].String()
	clientSecrets(t, base)
	searchedControl(t, g)
	_, metrics := get(t, "http://"+g.Metrics().String()+"/apisix/prometheus/metrics")
	searched(t, "metrics", metrics)
	stop(t, g)
	searched(t, "output", out.String())
	searchedLogs(t, dir)
	searchedStore(t, filepath.Join(dir, "data"))
}

// searchedStore fails for secrets in what the store keeps on the disk.
func searchedStore(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		n += len(b)
		searched(t, path, strings.ReplaceAll(string(b), planted+"-url", ""))
		return err
	})
	if err != nil || n == 0 {
		t.Errorf("%d bytes in the store, %v", n, err)
	}
}

func searchedControl(t *testing.T, g *Gateway) {
	t.Helper()
	for _, path := range shown {
		_, body := askControl(t, g, "GET", path)
		if path == "/v1/routes" || strings.HasPrefix(path, "/v1/explain") { // objects as they are stored: URLs are not encrypted
			body = strings.ReplaceAll(body, planted+"-url", "")
		}
		searched(t, path, body)
	}
	_, body := askControl(t, g, "POST", "/v1/profile?seconds=0.1&type=alloc")
	searched(t, "profile", body)
}

// Mistakes in a file, which nobody refuses, are faults.
func TestNoSecretInFaults(t *testing.T) {
	dir := t.TempDir()
	byKind := map[string][]json.RawMessage{}
	for path, doc := range plantedMistakes {
		kind, id, _ := strings.Cut(path, "/")
		if kind != "consumers" {
			doc = `{"id":"` + id + `",` + doc[1:]
		}
		byKind[kind] = append(byKind[kind], json.RawMessage(doc))
	}
	text, err := json.Marshal(byKind)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "apisix.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	o, out := options(t, dir, "deployment: {role: data_plane, role_data_plane: {config_provider: json}}\n"+plantedDiscovery)
	o.Config.File = filepath.Join(dir, "config.yaml")
	o.Config.Nginx.ErrorLogLevel = "debug"
	g := start(t, o)
	clientSecrets(t, "http://"+g.Data()[0].String())
	_, status := askControl(t, g, "GET", "/v1/status")
	for path := range plantedMistakes {
		if path != "consumers/long" && !strings.Contains(status, path) {
			t.Errorf("%s runs: %s", path, status)
		}
	}
	searched(t, "/v1/status", status)
	_, body := askControl(t, g, "GET", "/v1/explain?url=/b1")
	searched(t, "/v1/explain", body)
	stop(t, g)
	searched(t, "output", out.String())
	searchedLogs(t, dir)
}

// The portal's token, credentials of issuers and services, and what policies have.
func TestNoSecretOfProducts(t *testing.T) {
	dir := t.TempDir()
	product := `{"id":7,"system_name":"seven","backend_version":%s,"backend_authentication_type":"service_token","backend_authentication_value":"` + planted + `-st","proxy":{
		"hosts":[%q],"api_backend":"http://127.0.0.1:1","secret_token":"` + planted + `-proxy","backend":{"endpoint":"http://127.0.0.1:1"},
		"oidc_issuer_endpoint":"http://id:` + planted + `-oidc@127.0.0.1:1/realm","authentication_method":%q,
		"proxy_rules":[{"http_method":"ANY","pattern":"/","metric_system_name":"hits","delta":1}],
		"policy_chain":[%s{"name":"apicast","version":"builtin","configuration":{}}]}}`
	policies := []string{
		`{"name":"rate_limit","version":"builtin","configuration":{"redis_url":"redis://:` + planted + `-redis@127.0.0.1:1/0","fixed_window_limiters":[{"key":{"name":"k"},"count":1,"window":10}]}},`,
		`{"name":"token_introspection","version":"builtin","configuration":{"auth_type":"client_id+client_secret","introspection_url":"http://u:` + planted + `@127.0.0.1:1/i?x=` + planted + `","client_id":"c","client_secret":"` + planted + `-ti"}},`,
		`{"name":"http_proxy","version":"builtin","configuration":{"all_proxy":"http://u:` + planted + `-hp@127.0.0.1:1"}},`,
		`{"name":"camel","version":"builtin","configuration":{"all_proxy":"http://u:` + planted + `-hp@127.0.0.1:1"}},`,
		`{"name":"upstream_mtls","version":"builtin","configuration":{"certificate_type":"embedded","certificate":"data:x,no","certificate_key_type":"embedded","certificate_key":"data:x,` + planted + `"}},`,
		`{"name":"jwt_parser","version":"builtin","configuration":{"issuer_endpoint":"http://u:` + planted + `@127.0.0.1:1/realm?x=` + planted + `","required":true}},`,
		`{"name":"upstream","version":"builtin","configuration":{"rules":[{"regex":"/","url":"http://u:` + planted + `@127.0.0.1:1"}]}},`,
		`{"name":"logging","version":"builtin","configuration":{"enable_access_logs":true}},`,
	}
	one := func(id int, version, host, method, chain string) string {
		return strings.Replace(fmt.Sprintf(product, version, host, method, chain), `"id":7`, fmt.Sprintf(`"id":%d`, id), 1)
	}
	services := []string{
		one(1, `"1"`, "one.test", "1", ""), one(2, `"2"`, "two.test", "2", ""), one(3, `"oauth"`, "three.test", "oidc", ""),
		one(6, `"1"`, "six.test", "1", `{"name":"`+"unknown"+`","configuration":{"x":"`+planted+`"}},`),
		one(8, `"1"`, "eight.test", "1", `{"name":"rate_limit","version":"builtin","configuration":{"redis_url":["`+planted+`"]}},`),
		one(9, `"1"`, "nine.test", "1", `{"name":"rate_limit","version":"builtin","configuration":{"redis_url":"nonsense://u:`+planted+`@h:port","fixed_window_limiters":[{"key":{"name":"k"},"count":1,"window":10}]}},`),
	}
	hosts := []string{"one.test", "two.test", "three.test", "six.test", "eight.test", "nine.test", "none.test"}
	for i, p := range policies {
		host := fmt.Sprintf("policy%d.test", i)
		services = append(services, one(100+i, `"1"`, host, "1", p))
		hosts = append(hosts, host)
	}
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list []string
		for _, s := range services {
			list = append(list, `{"proxy_config":{"version":1,"environment":"production","content":`+s+`}}`)
		}
		fmt.Fprintf(w, `{"proxy_configs":[%s]}`, strings.Join(list, ","))
	}))
	defer portal.Close()
	endpoint := strings.Replace(portal.URL, "http://", "http://"+planted+"-portal@", 1)
	o, out := accountOptions(t, dir, "", "THREESCALE_PORTAL_ENDPOINT="+endpoint, "APICAST_LOG_LEVEL=debug", "APICAST_MANAGEMENT_API=debug",
		"APICAST_CONFIGURATION_LOADER=boot", "APICAST_EXTENDED_METRICS=true", "REDIS_URL=redis://:"+planted+"-env@127.0.0.1:1", "APICAST_UNKNOWN="+planted+"-unknown")
	g := start(t, o)
	for _, host := range hosts {
		for _, h := range []http.Header{{"User_key": {planted + "-uk"}, "User-Key": {planted + "-uk"}}, {"App-Id": {"a"}, "App-Key": {planted + "-ak"}}, {"Authorization": {"Bearer " + planted + ".a.b"}}, {}} {
			_, body := send(t, g, "POST", host, "/x", "user_key="+planted+"-body", h)
			searched(t, "answer of "+host, body)
		}
	}
	for _, at := range []string{"/status/live", "/status/ready", "/status/info", "/policies/", "/status/products"} {
		_, body := get(t, "http://"+g.Management().String()+at)
		searched(t, at, body)
	}
	_, status := get(t, "http://"+g.Management().String()+"/status/products")
	if !strings.Contains(status, `"6","8"`) {
		t.Errorf("no fault: %s", status)
	}
	_, metrics := get(t, "http://"+g.ProductMetrics().String()+"/metrics")
	searched(t, "metrics", metrics)
	if status, body := post(t, "http://"+g.Management().String()+"/boot"); status != 200 {
		searched(t, "boot", body)
	}
	portal.Close() // what is said when the portal is gone
	_, body := post(t, "http://"+g.Management().String()+"/boot")
	searched(t, "boot without portal", body)
	stop(t, g)
	searched(t, "output", out.String())
	searchedLogs(t, dir)
}

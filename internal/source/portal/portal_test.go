package portal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/dialect/apicast"
	"weir/internal/leaktest"
	"weir/internal/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A bench is a source and what it has delivered.
type bench struct {
	*Source
	t    *testing.T
	stop func()
	end  chan error

	mu       sync.Mutex
	log      bytes.Buffer
	deltas   []model.Delta
	products map[string]string // by id
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bench) logged(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.log.String(), text)
}

// start runs a source until the test ends.
func start(t *testing.T, cfg Config) *bench {
	t.Helper()
	b := &bench{t: t, products: map[string]string{}, end: make(chan error, 1)}
	cfg.Log = slog.New(slog.NewTextHandler(b, nil))
	if cfg.Transport == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		cfg.Transport = transport
	}
	if cfg.Environment == "" {
		cfg.Environment = "production"
	}
	var err error
	if b.Source, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		b.end <- b.Run(ctx, func(d model.Delta) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.deltas = append(b.deltas, d)
			for _, o := range d.Put {
				b.products[o.ID] = string(o.Raw)
			}
			for _, k := range d.Del {
				delete(b.products, k.ID)
			}
			return nil
		})
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-b.end; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

func (b *bench) steps() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.deltas)
}

func (b *bench) last() model.Delta {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deltas[len(b.deltas)-1]
}

// ids are those of the products that were delivered.
func (b *bench) ids() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(b.products)), " ")
}

func (b *bench) product(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.products[id]
}

func (b *bench) until(what string, f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s; products %s, status %+v, log %s", what, b.ids(), b.Status(), b.log.String())
		}
	}
}

// started waits for the first step.
func (b *bench) started() *bench {
	b.t.Helper()
	b.until("started", func() bool { return b.steps() > 0 })
	return b
}

func (b *bench) want(host string) error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return b.Want(ctx, host)
}

func (b *bench) reload() {
	b.t.Helper()
	if err := b.Reload(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

// A porta is the portal of a test.
type porta struct {
	*httptest.Server
	mu       sync.Mutex
	services map[string]string // by id, as in proxy_configs
	order    []string
	status   int // answers everything; 0: none
	garbage  string
	etags    bool
	asked    []string // path and query
	header   http.Header
	hold     chan struct{} // of answers; nil: not held
}

func newPorta(t *testing.T, docs ...string) *porta {
	p := &porta{services: map[string]string{}}
	p.set(docs...)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// set replaces the services.
func (p *porta) set(docs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = nil
	clear(p.services)
	for _, d := range docs {
		e, err := apicast.ReadEntry(json.RawMessage(d))
		if err != nil {
			panic(err)
		}
		p.order = append(p.order, e.ID)
		p.services[e.ID] = d
	}
}

func (p *porta) edit(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// requests are those since the last call.
func (p *porta) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func (p *porta) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.URL.Path+"?"+r.URL.Query().Encode())
	p.header = r.Header.Clone()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
		return
	case p.garbage != "":
		fmt.Fprint(w, p.garbage)
		return
	}
	body := p.answer(r)
	if body == "" {
		http.NotFound(w, r)
		return
	}
	if p.etags {
		tag := `"` + strconv.Itoa(len(body)) + body[max(0, len(body)-40):] + `"`
		tag = strconv.QuoteToASCII(tag)
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	fmt.Fprint(w, body)
}

func (p *porta) answer(r *http.Request) string {
	q := r.URL.Query()
	config := func(d string) string { return `{"proxy_config":{"id":1,"version":2,"content":` + d + `}}` }
	if id, version, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/admin/api/services/"), "/proxy/configs/production/"); found {
		if d := p.services[id]; d != "" {
			return config(strings.Replace(d, "VERSION", strings.TrimSuffix(version, ".json"), 1))
		}
		return ""
	}
	var docs []string
	for _, id := range p.order {
		e, _ := apicast.ReadEntry(json.RawMessage(p.services[id]))
		if h := q.Get("host"); h == "" || slices.Contains(e.Hosts, h) {
			docs = append(docs, p.services[id])
		}
	}
	page := func(wrap func(string) string) string {
		n, _ := strconv.Atoi(q.Get("page"))
		per, _ := strconv.Atoi(q.Get("per_page"))
		if per == 0 {
			n, per = 1, len(docs)
		}
		var out []string
		for _, d := range docs[min((n-1)*per, len(docs)):min(n*per, len(docs))] {
			out = append(out, wrap(d))
		}
		return strings.Join(out, ",")
	}
	switch r.URL.Path {
	case "/admin/api/account/proxy_configs/production.json", "/config/production.json":
		return `{"proxy_configs":[` + page(config) + `]}`
	case "/admin/api/services.json":
		return `{"services":[` + page(func(d string) string { return `{"service":` + d + `}` }) + `]}`
	}
	return ""
}

func boot(p *porta) Config { return Config{Endpoint: p.URL, TTL: time.Hour, Timeout: time.Second} }
func lazy(p *porta, ttl time.Duration) Config {
	return Config{Endpoint: p.URL, Lazy: true, TTL: ttl, Timeout: 10 * time.Millisecond}
}

func TestForms(t *testing.T) {
	versions := map[string]string{"2": "42"}
	pinned := []string{svc(1, "a", `,"secret_token":"VERSION"`), svc(2, "b", `,"secret_token":"VERSION"`), svc(3, "c", "")}
	for name, c := range map[string]struct {
		path   string
		config func(*Config)
		lazy   bool
		want   string // paths and queries
		ids    string
		token  string // in product 2
	}{
		"all":      {want: "/admin/api/account/proxy_configs/production.json?page=1&per_page=500&version=latest", ids: "1 2 3"},
		"a host":   {lazy: true, want: "/admin/api/account/proxy_configs/production.json?host=b&page=1&per_page=500&version=latest", ids: "2"},
		"path":     {path: "/config", want: "/config/production.json?", ids: "1 2 3"},
		"slash":    {path: "/", want: "/admin/api/account/proxy_configs/production.json?page=1&per_page=500&version=latest", ids: "1 2 3"},
		"of host":  {path: "/config/", lazy: true, want: "/config/production.json?host=b", ids: "2"},
		"versions": {config: func(c *Config) { c.Versions = versions }, ids: "1 2 3", token: "42", want: "/admin/api/services.json?page=1&per_page=500 /admin/api/services/1/proxy/configs/production/latest.json? /admin/api/services/2/proxy/configs/production/42.json? /admin/api/services/3/proxy/configs/production/latest.json?"},
		"versions of a list": {config: func(c *Config) {
			c.Versions, c.Services, c.Filter.IDs = versions, []string{"2", "9"}, map[string]bool{"2": true, "9": true}
		}, lazy: true, ids: "2", token: "42", want: "/admin/api/services/2/proxy/configs/production/42.json? /admin/api/services/9/proxy/configs/production/latest.json?"},
		"versions of hosts": {config: func(c *Config) { c.Versions, c.Filter.Host = versions, func(h string) bool { return h == "c" } }, ids: "3",
			want: "/admin/api/services.json?page=1&per_page=500 /admin/api/services/1/proxy/configs/production/latest.json? /admin/api/services/2/proxy/configs/production/42.json? /admin/api/services/3/proxy/configs/production/latest.json?"},
		"a list":   {config: func(c *Config) { c.Filter.IDs = map[string]bool{"1": true} }, ids: "1", want: "/admin/api/account/proxy_configs/production.json?page=1&per_page=500&version=latest"},
		"nothing":  {config: func(c *Config) { c.Filter.None = true }, ids: "", want: "/admin/api/account/proxy_configs/production.json?page=1&per_page=500&version=latest"},
		"as a URL": {config: func(c *Config) { c.Configuration, c.Endpoint = c.Endpoint, "" }, ids: "1 2 3", want: "/admin/api/account/proxy_configs/production.json?page=1&per_page=500&version=latest"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPorta(t, pinned...)
			cfg := boot(p)
			if c.lazy {
				cfg = lazy(p, time.Hour)
			}
			cfg.Endpoint = strings.Replace(p.URL, "http://", "http://tok%40en@", 1) + c.path
			cfg.UserAgent = "APIcast/3.16.0 (Linux; x64; env:production)"
			if c.config != nil {
				c.config(&cfg)
			}
			b := start(t, cfg).started()
			if c.lazy {
				if err := b.want("b"); err != nil {
					t.Fatal(err)
				}
			}
			asked := p.requests()
			slices.Sort(asked)
			if got := strings.Join(asked, " "); got != c.want {
				t.Errorf("asked %s, want %s", got, c.want)
			}
			if b.ids() != c.ids || !strings.Contains(b.product("2"), c.token) {
				t.Errorf("products %s, want %s; %s", b.ids(), c.ids, b.product("2"))
			}
			user, pass, _ := (&http.Request{Header: p.header}).BasicAuth()
			if user != "tok@en" || pass != "" || p.header.Get("User-Agent") != cfg.UserAgent {
				t.Errorf("%q %q, %s", user, pass, p.header.Get("User-Agent"))
			}
		})
	}
}

func TestPinnedPath(t *testing.T) {
	p := newPorta(t)
	cfg := boot(p)
	cfg.Endpoint += "/config"
	cfg.Environment = "production"
	cfg.Versions = map[string]string{"1": "2"}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "cannot be used when proxy config path is provided") {
		t.Error(err)
	}
}

func TestPages(t *testing.T) {
	var docs []string
	for i := range 1256 {
		docs = append(docs, svc(i+1, fmt.Sprintf("h%d", i+1), ""))
	}
	p := newPorta(t, docs...)
	b := start(t, boot(p)).started()
	if n := len(p.requests()); n != 3 || b.Len() != 1256 {
		t.Errorf("%d requests, %d products", n, b.Len())
	}
	p.set(docs[:1000]...)
	b.reload()
	if n := len(p.requests()); n != 3 || b.Len() != 1000 || len(b.last().Del) != 256 {
		t.Errorf("%d requests, %d products, %d deleted", n, b.Len(), len(b.last().Del))
	}
	cfg := boot(p)
	cfg.Versions = map[string]string{"7": "1"}
	b = start(t, cfg).started()
	if n := len(p.requests()); n != 3+1000 || b.Len() != 1000 {
		t.Errorf("%d requests, %d products", n, b.Len())
	}
}

func TestDifference(t *testing.T) {
	for _, etags := range []bool{false, true} {
		p := newPorta(t, svc(1, "a", ""), svc(2, "b", ""))
		p.etags = etags
		b := start(t, boot(p)).started()
		b.reload()
		b.reload()
		if n := b.steps(); n != 1 {
			t.Errorf("%d steps for nothing", n)
		}
		if got := b.Status().Traffic; etags != (got.NotModified == 2) || got.Requests != 3 {
			t.Errorf("%+v", got)
		}
		p.set(svc(1, "a", ""), svc(2, "b", `,"secret_token":"s"`), svc(3, "c", ""))
		b.reload()
		if got := sum(b.last()); got != "2 3" {
			t.Error(got)
		}
		if st := b.Status(); st.Revision != 2 || st.Loads != 4 || st.Problem != "" || !st.Configured {
			t.Errorf("%+v", st)
		}
	}
}

// Whatever the portal does, what was good last stays.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(*porta)
		problem string
	}{
		"down":      {func(p *porta) { p.CloseClientConnections(); p.Listener.Close() }, "refused"},
		"500":       {func(p *porta) { p.status = 500 }, "invalid status: 500"},
		"403":       {func(p *porta) { p.status = 403 }, "invalid status: 403 (Forbidden)"},
		"redirect":  {func(p *porta) { p.status = 301 }, "invalid status: 301"},
		"no JSON":   {func(p *porta) { p.garbage = "{Hello, world}" }, "Expected object key string but found invalid token at character 2"},
		"a list":    {func(p *porta) { p.garbage = "[]" }, "an object is expected, not a list"},
		"no config": {func(p *porta) { p.garbage = `{"proxy_configs":[{}]}` }, "proxy_configs[0] has no proxy_config"},
		"an error":  {func(p *porta) { p.garbage = `{"error":"Access denied"}` }, "there is no proxy_configs in it"},
		"blank":     {func(p *porta) { p.garbage = "\n" }, "T_END"},
		"null":      {func(p *porta) { p.garbage = "null" }, "there is no proxy_configs in it"},
		"empty":     {func(p *porta) { p.garbage = "{}" }, "there is no proxy_configs in it"},
		"null list": {func(p *porta) { p.garbage = `{"proxy_configs":null}` }, "there is no proxy_configs in it"},
		"cut":       {func(p *porta) { p.garbage = `{"proxy_configs":[{"proxy_config":{"content":` }, "T_END"},
		"slow":      {func(p *porta) { p.hold = make(chan struct{}) }, "Timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPorta(t, svc(1, "a", ""))
			cfg := boot(p)
			cfg.Timeout = 10 * time.Millisecond
			b := start(t, cfg).started()
			b.origin.client.Timeout = 100 * time.Millisecond
			b.origin.v2.client = b.origin.client
			p.edit(func() { c.do(p) })
			err := b.Reload(context.Background())
			if p.hold != nil {
				close(p.hold)
			}
			if err == nil || !strings.Contains(err.Error(), c.problem) || b.Status().Problem != err.Error() {
				t.Errorf("%v, want %s; %+v", err, c.problem, b.Status())
			}
			if !b.logged("not refreshed, what was loaded before stays in force") {
				t.Error("the log does not say so")
			}
			if b.ids() != "1" || b.steps() != 1 {
				t.Errorf("products %s, %d steps", b.ids(), b.steps())
			}
		})
	}
}

// Credentials in URLs are in no message.
func TestSecrets(t *testing.T) {
	for _, endpoint := range []string{"http://tok3n:pa55@127.0.0.1:1", "http://tok3n:pa55@127.0.0.1:1/\x7f", "http://tok3n:pa55@host:port"} {
		s, err := New(Config{Endpoint: endpoint, Environment: "production", TTL: time.Hour, Timeout: time.Millisecond})
		if err == nil {
			err = s.Run(t.Context(), nil)
		}
		if err == nil || strings.Contains(err.Error(), "tok3n") || strings.Contains(err.Error(), "pa55") {
			t.Error(err)
		}
	}
}

func TestStart(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no file":   {Config{File: filepath.Join(t.TempDir(), "config.json"), TTL: 1}, "config.json: no such file or directory"},
		"empty":     {Config{File: empty, TTL: 1}, "failed to load configuration: missing configuration"},
		"no JSON":   {Config{Configuration: "data:application/json,not", TTL: 1}, "Expected value but found invalid token at character 1"},
		"nothing":   {Config{TTL: 1}, "missing configuration: no portal is configured"},
		"cache off": {Config{Configuration: "data:application/json,{}"}, ErrCacheOff.Error()},
	} {
		s, err := New(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), c.want) || (c.want == ErrCacheOff.Error()) != errors.Is(err, ErrCacheOff) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Row 73 of the field reports: a long list of services starts.
func TestLongList(t *testing.T) {
	p := newPorta(t, svc(1999, "a", ""), svc(5000, "b", ""))
	cfg := boot(p)
	cfg.Filter.IDs = map[string]bool{}
	for i := range 2000 {
		id := strconv.Itoa(i)
		cfg.Services, cfg.Filter.IDs[id] = append(cfg.Services, id), true
	}
	if b := start(t, cfg).started(); b.ids() != "1999" {
		t.Error(b.ids())
	}
}

func TestOldPortal(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.URL.Path == "/admin/api/nginx/spec.json" || r.URL.Path == "/spec" {
			fmt.Fprint(w, `{"services":[`+svc(1, "a", "")+`,`+svc(1, "b", "")+`]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer s.Close()
	for path, want := range map[string]string{
		"":      "/admin/api/account/proxy_configs/production.json /admin/api/nginx/spec.json",
		"/spec": "/spec/production.json /spec",
	} {
		asked = nil
		b := start(t, Config{Endpoint: s.URL + path, TTL: time.Hour, Timeout: time.Second}).started()
		if got := strings.Join(asked, " "); b.ids() != "1" || got != want {
			t.Errorf("%s, %s", b.ids(), got)
		}
		b.stop()
	}
}

// The portal may come later than the gateway.
func TestWaitForPortal(t *testing.T) {
	p := newPorta(t)
	addr := p.Listener.Addr().String()
	p.Close()
	s, err := New(Config{Endpoint: "http://" + addr, Environment: "x", TTL: time.Hour, Timeout: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	doc := `{"services":[{"id":7,"proxy":{"hosts":["a"]}}]}`
	y := "services:\n- id: 7\n  proxy:\n    hosts: [a]\n    api_backend: ~\n    on: yes\n"
	b64 := "eyJzZXJ2aWNlcyI6W3siaWQiOjcsInByb3h5Ijp7Imhvc3RzIjpbImEiXX19XX0="
	for name, cfg := range map[string]Config{
		"file":        {File: write("a.json", doc)},
		"a path":      {Configuration: write("b.json", doc), File: "nowhere"},
		"file URL":    {Configuration: "file:" + write("c.json", doc)},
		"file slash":  {Configuration: "file://" + write("d.json", doc)},
		"YAML":        {File: write("e.yaml", y)},
		"data":        {Configuration: "data:application/json," + doc},
		"escaped":     {Configuration: "data:application/json;charset=utf-8,%7B%22services%22%3A[{\"id\":7}]}"},
		"base64":      {Configuration: "data:application/json;base64," + b64},
		"data YAML":   {Configuration: "data:application/yaml," + strings.ReplaceAll(y, "\n", "%0A")},
		"lazy":        {File: write("f.json", doc), Lazy: true},
		"lazy as URL": {Configuration: "data:application/json," + doc, Lazy: true},
	} {
		cfg.TTL = max(cfg.TTL, time.Hour)
		b := start(t, cfg).started()
		if err := b.want("a"); err != nil {
			t.Error(name, err)
		}
		if b.ids() != "7" || !strings.HasPrefix(b.product("7"), `{"service":{"id":7`) {
			t.Errorf("%s: %s %s", name, b.ids(), b.product("7"))
		}
		b.stop()
	}
	for _, u := range []string{"data:application/json", "data:text/plain,{}", "data:application/json;base64,!", "data:application/json,%zz", "data:application/yaml,[", "data:application/yaml,a: *b"} {
		if _, err := New(Config{Configuration: u}); err == nil {
			t.Error(u)
		}
	}
}

func TestFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"services":[` + svc(1, "a", "") + `]}`)
	b := start(t, Config{File: path, TTL: time.Hour}).started()
	write(`{"services":[` + svc(1, "a", "") + `,` + svc(2, "b", "") + `]}`)
	b.reload()
	if b.ids() != "1 2" || sum(b.last()) != "2" {
		t.Error(b.ids())
	}
	for _, text := range []string{`{"services":`, `{}`, `null`, `{"services":null}`, `{"service":[]}`, `{"services":{"id":1}}`} {
		write(text)
		if err := b.Reload(context.Background()); err == nil || b.ids() != "1 2" || b.Status().Problem == "" {
			t.Error(text, err, b.ids())
		}
	}
	write(`{"services":{}}`)
	if b.reload(); b.ids() != "" {
		t.Error(b.ids())
	}
}

func TestManagement(t *testing.T) {
	p := newPorta(t, svc(1, "a", ""))
	b := start(t, boot(p)).started()
	d, err := apicast.Read([]byte(`{"services":[` + svc(42, "z", "") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.Replace(context.Background(), d); n != 1 || err != nil || b.ids() != "42" {
		t.Error(n, err, b.ids())
	}
	if got := string(b.Document(false)); got != `{"services":[`+svc(42, "z", "")+`]}` {
		t.Error(got)
	}
	if err := b.Clear(context.Background()); err != nil || b.ids() != "" || b.Document(false) != nil || b.Status().Configured {
		t.Error(err, b.ids(), string(b.Document(false)))
	}
	b.reload()
	if b.ids() != "1" || !b.Status().Configured {
		t.Error(b.ids())
	}
	b.stop()
	if err := b.Reload(context.Background()); !errors.Is(err, errEnded) {
		t.Error(err)
	}
}

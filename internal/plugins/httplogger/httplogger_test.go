package httplogger

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A sink is a log server.
type sink struct {
	*httptest.Server
	status atomic.Int64 // to answer with; 0: 200
	mu     sync.Mutex
	heads  []http.Header
	bodies []string
}

func newSink(t *testing.T) *sink {
	s := new(sink)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.heads = append(s.heads, r.Header)
	s.bodies = append(s.bodies, r.Method+" "+r.RequestURI+" "+string(b))
	s.mu.Unlock()
	if n := s.status.Load(); n != 0 {
		w.WriteHeader(int(n))
	}
	fmt.Fprint(w, "said")
}

// got waits for n requests.
func (s *sink) got(t *testing.T, n int) []string {
	t.Helper()
	for range 2000 {
		s.mu.Lock()
		b := append([]string(nil), s.bodies...)
		s.mu.Unlock()
		if len(b) >= n {
			return b
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d requests came, want %d", len(s.bodies), n)
	return nil
}

// A gateway compiles configurations as one that runs does.
type gateway struct {
	t      *testing.T
	keeper plugin.Keeper
	env    plugin.Env
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{t: t, env: plugintest.Env(time.Now)}
	g.env.Keep = g.keeper.Uses()
	t.Cleanup(g.keeper.Close)
	return g
}

func (g *gateway) compile(conf, meta string) plugin.Phases {
	g.t.Helper()
	env := g.env
	if meta != "" {
		env.Metadata = []byte(meta)
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		g.t.Fatal(err)
	}
	return ph
}

func request(id string) *plugin.Ctx {
	c := plugintest.NewCtx("/")
	c.Route = &plugin.Route{ID: id}
	return c
}

func TestConcat(t *testing.T) {
	for _, c := range []struct{ name, more, kind, want string }{
		{"array", `"batch_max_size":2`, "application/json", `[{"route_id":"1"},{"route_id":"2"}]`},
		{"object", `"batch_max_size":1`, "application/json", `{"route_id":"1"}`},
		{"lines", `"batch_max_size":2,"concat_method":"new_line"`, "text/plain", "{\"route_id\":\"1\"}\n{\"route_id\":\"2\"}"},
		{"a line", `"batch_max_size":1,"concat_method":"new_line"`, "text/plain", `{"route_id":"1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, g := newSink(t), newGateway(t)
			ph := g.compile(fmt.Sprintf(`{"uri":%q,"auth_header":"Basic x",%s}`, s.URL+"/log?a=b", c.more), `{"log_format":{"none":"$none"}}`)
			ph.Log(request("1"))
			if strings.Contains(c.more, "2") {
				ph.Log(request("2"))
			}
			got := s.got(t, 1)[0]
			ph.Close()
			if got != "POST /log?a=b "+c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if h := s.heads[0]; h.Get("Content-Type") != c.kind || h.Get("Authorization") != "Basic x" {
				t.Errorf("%v", h)
			}
		})
	}
}

// TestChange: what was collected when the configuration changes or the gateway
// stops is sent.
func TestChange(t *testing.T) {
	s, g := newSink(t), newGateway(t)
	old := g.compile(fmt.Sprintf(`{"uri":%q,"log_format":{}}`, s.URL), "")
	for i := range 10 {
		old.Log(request(fmt.Sprint(i)))
	}
	next := g.compile(fmt.Sprintf(`{"uri":%q,"log_format":{"v":2}}`, s.URL), "")
	next.Log(request("x"))
	old.Close()
	next.Close()
	g.keeper.Close()
	all := strings.Join(s.got(t, 2), "")
	if strings.Count(all, "route_id") != 11 || !strings.Contains(all, `"v":2`) {
		t.Errorf("got %s", all)
	}
}

func TestRetry(t *testing.T) {
	s, g := newSink(t), newGateway(t)
	s.status.Store(503)
	ph := g.compile(fmt.Sprintf(`{"uri":%q,"batch_max_size":1,"max_retry_count":5,"retry_delay":0,"log_format":{}}`, s.URL), "")
	ph.Log(request("1"))
	s.got(t, 2)
	s.status.Store(0)
	ph.Close()
	g.keeper.Close()
	for _, b := range s.bodies {
		if !strings.HasSuffix(b, `{"route_id":"1"}`) {
			t.Error(b)
		}
	}
}

func TestVerify(t *testing.T) {
	s := new(sink)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	for verify, want := range map[bool]int{false: 1, true: 0} {
		g := newGateway(t)
		before := len(s.bodies)
		ph := g.compile(fmt.Sprintf(`{"uri":%q,"batch_max_size":1,"ssl_verify":%v}`, s.URL, verify), "")
		ph.Log(request("1"))
		ph.Close()
		g.keeper.Close()
		if got := len(s.bodies) - before; got != want {
			t.Errorf("verify %v: %d batches came, want %d", verify, got, want)
		}
	}
}

func TestEntry(t *testing.T) {
	s, g := newSink(t), newGateway(t)
	ph := g.compile(fmt.Sprintf(`{"uri":%q,"batch_max_size":1,"include_req_body":true,"include_resp_body":true}`, s.URL), "")
	c := request("")
	c.Route, c.Request.Length = nil, 3
	ph.Access(c)
	for _, tap := range c.Taps() {
		tap.See([]byte("abc"))
	}
	ph.Log(c)
	ph.Close()
	g.keeper.Close()
	var doc struct {
		RouteID string `json:"route_id"`
		Request struct{ Body string }
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(s.bodies[0], "POST / ")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.RouteID != "no-matched" || doc.Request.Body != "abc" {
		t.Errorf("%+v", doc)
	}
}

// TestGauge: entries that wait show in the metrics, as long as there is somebody
// to collect them.
func TestGauge(t *testing.T) {
	s, g := newSink(t), newGateway(t)
	ph := g.compile(fmt.Sprintf(`{"uri":%q}`, s.URL), "")
	metrics := func() string {
		var b strings.Builder
		if err := g.env.Meter.Expose(&b, "apisix_"); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for range 3 {
		ph.Log(request("1"))
	}
	if got := metrics(); !strings.Contains(got, `apisix_batch_process_entries{name="http logger",route_id="1",server_addr="127.0.0.1"} 3`) {
		t.Error(got)
	}
	ph.Close()
	if got := metrics(); got != "" {
		t.Error(got)
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "no uri", Config: `{}`, Invalid: `property "uri" is required`},
		{Name: "uri", Config: `{"uri":"127.0.0.1"}`, Invalid: `property "uri" validation failed: failed to match pattern`},
		{Name: "timeout", Config: `{"uri":"http://a","timeout":0}`, Invalid: `property "timeout" validation failed: expected 0 to be at least 1`},
		{Name: "concat_method", Config: `{"uri":"http://a","concat_method":"x"}`, Invalid: `property "concat_method" validation failed: matches none of the enum values`},
		{Name: "condition", Config: `{"uri":"http://a","include_resp_body_expr":[["a","=","b"]]}`, Invalid: `failed to validate the 'include_resp_body_expr' expression: invalid operator '='`},
	})
}

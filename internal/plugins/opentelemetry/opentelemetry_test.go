package opentelemetry

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A collecting server takes spans by either protocol.
type collecting struct {
	collector.UnimplementedTraceServiceServer
	mu       sync.Mutex
	spans    []*otlp.Span
	resource map[string]string
	headers  http.Header
	path     string
}

func (s *collecting) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		s.resource = texts(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			s.spans = append(s.spans, ss.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (s *collecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m := new(collector.ExportTraceServiceRequest)
	if err != nil || proto.Unmarshal(body, m) != nil || !strings.HasSuffix(r.URL.Path, "/v1/traces") {
		w.WriteHeader(400)
		return
	}
	s.mu.Lock()
	s.headers, s.path = r.Header, r.URL.Path
	s.mu.Unlock()
	_, _ = s.Export(r.Context(), m)
}

func (s *collecting) byName() map[string]*otlp.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]*otlp.Span{}
	for _, x := range s.spans {
		m[x.Name] = x
	}
	return m
}

func texts(list []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		m[kv.Key] = strings.Trim(kv.Value.String()[strings.IndexByte(kv.Value.String(), ':')+1:], `"`)
	}
	return m
}

// traced compiles a configuration and sends a request through it. close sends the
// spans.
func traced(t *testing.T, conf, metadata string, change func(*plugin.Ctx)) (c *plugin.Ctx) {
	t.Helper()
	var keeper plugin.Keeper
	env := plugintest.Env(time.Now)
	env.Keep, env.Context = keeper.Uses(), t.Context()
	if metadata != "" {
		env.Metadata = json.RawMessage(metadata)
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		t.Fatal(err)
	}
	c = plugintest.NewCtx("/api/users?x=1")
	c.Request.Host, c.Start = "api.test:8080", time.Now()
	c.Route, c.MatchedPath = &plugin.Route{ID: "1", Name: "users", ServiceID: "2", ServiceName: "svc"}, "/api/*"
	c.Request.Header.Add("User-Agent", "test/1")
	if change != nil {
		change(c)
	}
	if ph.Rewrite != nil {
		ph.Rewrite(c)
		ph.BeforeProxy(c)
		c.Response = &wire.Response{Status: 502}
		ph.Header(c)
		c.Sent.Tries = append(c.Sent.Tries,
			plugin.Try{Addr: "127.0.0.1:1", Scheme: "http", Status: 502, Total: time.Millisecond},
			plugin.Try{Addr: "127.0.0.1:2", Scheme: "http", Status: 502, Header: 2 * time.Millisecond, Total: 3 * time.Millisecond})
		c.Sent.Status, c.Sent.End, c.Sent.Source = 502, time.Now(), plugin.FromUpstream
		ph.Log(c)
	}
	env.Keep.Release()
	if n := keeper.Len(); n != 0 {
		t.Errorf("%d values are kept", n)
	}
	return c
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraces(t *testing.T) {
	for _, protocol := range []string{"http", "grpc"} {
		s := new(collecting)
		address := ""
		if protocol == "http" {
			server := httptest.NewServer(s)
			defer server.Close()
			address = server.URL
		} else {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			collector.RegisterTraceServiceServer(server, s)
			go server.Serve(l)
			defer server.Stop()
			address = l.Addr().String()
		}
		metadata := `{"collector":{"address":"` + address + `","protocol":"` + protocol + `","request_headers":{"x-token":"t"}},` +
			`"resource":{"service.name":"mine","n":1},"set_ngx_var":true}`
		c := traced(t, `{"sampler":{"name":"always_on"},"additional_attributes":["arg_x"],"additional_header_prefix_attributes":["x-my-*","other"]}`, metadata,
			func(c *plugin.Ctx) {
				for name, value := range map[string]string{"traceparent": parent, "X-My-A": "1", "Other": "2", "Others": "3"} {
					c.Request.Header.Add(name, value)
				}
			})
		spans := s.byName()
		if got := slices.Sorted(maps.Keys(spans)); !slices.Equal(got, []string{"GET /api/*", "weir.phase.request", "weir.phase.response", "weir.upstream"}) {
			t.Fatalf("%s: spans %q", protocol, got)
		}
		root := spans["GET /api/*"]
		want := map[string]string{
			"net.host.name": "api.test", "http.method": "GET", "http.target": "/api/users?x=1", "url.path": "/api/users", "http.user_agent": "test/1",
			"apisix.route_id": "1", "apisix.route_name": "users", "http.route": "/api/*", "apisix.service_id": "2", "apisix.service_name": "svc",
			"apisix.response_source": "upstream", "http.status_code": "502", "arg_x": "1", "x-my-a": "1", "other": "2",
		}
		got := texts(root.Attributes)
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", protocol, key, got[key], value)
			}
		}
		if _, there := got["others"]; there {
			t.Error("a header that was not asked for is an attribute")
		}
		if hexed(root.TraceId) != parent[3:35] || hexed(root.ParentSpanId) != parent[36:52] || root.Kind != otlp.Span_SPAN_KIND_SERVER || root.Status.Code != otlp.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: root %v", protocol, root)
		}
		if up := spans["weir.upstream"]; string(up.ParentSpanId) != string(root.SpanId) || texts(up.Attributes)["server.address"] != "127.0.0.1:2" {
			t.Errorf("%s: upstream %v", protocol, up)
		}
		sent, _ := c.Header("traceparent")
		if sent != "00-"+hexed(root.TraceId)+"-"+hexed(root.SpanId)+"-01" {
			t.Errorf("%s: the upstream is told %q", protocol, sent)
		}
		if v, _ := c.Var("opentelemetry_context_traceparent"); v != sent {
			t.Errorf("%s: variable %q", protocol, v)
		}
		if s.resource["service.name"] != "mine" {
			t.Errorf("%s: resource %v", protocol, s.resource)
		}
		if protocol == "http" && s.headers.Get("X-Token") != "t" {
			t.Errorf("headers %v", s.headers)
		}
	}
}

func hexed(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteString("0123456789abcdef"[c>>4:][:1] + "0123456789abcdef"[c&15:][:1])
	}
	return s.String()
}

func TestSampling(t *testing.T) {
	s := new(collecting)
	server := httptest.NewServer(s)
	defer server.Close()
	metadata := `{"collector":{"address":"` + server.URL + `"},"trace_id_source":"x-request-id"}`
	for _, c := range []struct {
		sampler, parent, id string
		sent                bool
	}{
		{`{}`, "", "", false},
		{`{"name":"always_off"}`, parent, "", false},
		{`{"name":"trace_id_ratio","options":{"fraction":1}}`, "", "", true},
		{`{"name":"trace_id_ratio","options":{"fraction":0}}`, "", "", false},
		{`{"name":"parent_base"}`, parent, "", true},
		{`{"name":"parent_base"}`, "", "", false},
		{`{"name":"parent_base","options":{"root":{"name":"always_on"}}}`, strings.Replace(parent, "-01", "-00", 1), "", false},
		{`{"name":"parent_base","options":{"root":{"name":"always_on"}}}`, "", "0af76519-16cd-43dd-8448-eb211c80319c", true},
	} {
		s.spans = nil
		ctx := traced(t, `{"sampler":`+c.sampler+`}`, metadata, func(x *plugin.Ctx) {
			if c.parent != "" {
				x.Request.Header.Add("traceparent", c.parent)
			}
			if c.id != "" {
				x.Request.Header.Add("X-Request-Id", c.id)
			}
		})
		root := s.byName()["GET /api/*"]
		if (root != nil) != c.sent {
			t.Errorf("%+v: span %v", c, root)
		}
		if tp, _ := ctx.Header("traceparent"); strings.HasSuffix(tp, "-01") != c.sent {
			t.Errorf("%+v: the upstream is told %q", c, tp)
		}
		if c.id != "" && root != nil && hexed(root.TraceId) != strings.ReplaceAll(c.id, "-", "") {
			t.Errorf("trace %x", root.TraceId)
		}
	}
}

// A collector may be anywhere below its address.
func TestCollectorPath(t *testing.T) {
	s := new(collecting)
	server := httptest.NewServer(s)
	defer server.Close()
	for below, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/otlp": "/otlp/v1/traces", "/a/b/": "/a/b/v1/traces"} {
		traced(t, `{"sampler":{"name":"always_on"}}`, `{"collector":{"address":"`+server.URL+below+`"}}`, nil)
		if s.path != want {
			t.Errorf("%q: the spans went to %s, want %s", below, s.path, want)
		}
	}
}

// Without metadata nothing runs; a collector that is not there costs nobody anything.
func TestWithoutCollector(t *testing.T) {
	if c := traced(t, `{"sampler":{"name":"always_on"}}`, "", nil); c.State(nil) != nil {
		t.Error("something ran")
	}
	traced(t, `{"sampler":{"name":"always_on"}}`, `{"collector":{"address":"127.0.0.1:1","request_timeout":1}}`, nil)
}

func TestConfig(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "sampler", Config: `{"sampler":{"name":"sometimes"}}`, Invalid: `property "name" validation failed`},
		{Name: "attributes", Config: `{"additional_attributes":[]}`, Invalid: `property "additional_attributes" validation failed`},
	})
}

var _ trace.IDGenerator = ids{}

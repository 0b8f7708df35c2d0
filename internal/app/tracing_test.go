package app

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// spans takes what is exported.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu      sync.Mutex
	byName  map[string]*otlp.Span
	service string
}

func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				s.service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, x := range ss.Spans {
				s.byName[x.Name] = x
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// OPENTELEMETRY traces every request to a product.
func TestProductsTraced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sink := &spans{byName: map[string]*otlp.Span{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, sink)
	go server.Serve(l)
	defer server.Stop()
	parents := make(chan string, 1)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parents <- r.Header.Get("traceparent") }))
	defer up.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "otel.toml")
	host, port, _ := net.SplitHostPort(l.Addr().String())
	toml := fmt.Sprintf("processor = \"simple\"\n[exporters.otlp]\nhost = %q\nport = %s\n[service]\nname = \"mine\"\n", host, port)
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	product := fmt.Sprintf(`{"id":1,"proxy":{"hosts":["one.test"],"policy_chain":[{"name":"upstream","configuration":{"rules":[{"regex":"/","url":%q}]}}]}}`, up.URL)
	o, _ := accountOptions(t, dir, "data:application/json,"+productsOf(product), "OPENTELEMETRY=1", "OPENTELEMETRY_CONFIG="+file)
	g := start(t, o)
	if status, _ := askProduct(t, g, "one.test", "/a?b=c"); status != 200 {
		t.Error(status)
	}
	parent := <-parents
	stop(t, g) // sends what waits
	sink.mu.Lock()
	defer sink.mu.Unlock()
	root := sink.byName["apicast"]
	if root == nil || sink.service != "mine" || sink.byName["weir.upstream"] == nil {
		t.Fatalf("spans %v of %s", sink.byName, sink.service)
	}
	if want := hex.EncodeToString(root.TraceId) + "-" + hex.EncodeToString(root.SpanId); !strings.Contains(parent, want) {
		t.Errorf("the upstream is told %q, want %q in it", parent, want)
	}
	uri := ""
	for _, a := range root.Attributes {
		if a.Key == "original_request_uri" {
			uri = a.Value.GetStringValue()
		}
	}
	if uri != "http://one.test/a?b=c" {
		t.Error(uri)
	}
}

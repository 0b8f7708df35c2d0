// Package discoverytest helps to test kinds of discovery against registries that
// fail in the ways that registries do.
package discoverytest

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/discovery"
	"weir/internal/model"
	"weir/internal/upstream"
)

// Env is one in which nothing takes long.
func Env(t testing.TB) discovery.Env {
	return discovery.Env{Retry: 5 * time.Millisecond, Linger: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(logWriter{t}, nil))}
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// Start starts r and ends it with the test.
func Start(t testing.TB, r *discovery.Registry, err error) *discovery.Registry {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// Use follows a service until the test ends.
func Use(t testing.TB, r *discovery.Registry, service, args string) upstream.Service {
	t.Helper()
	s, err := r.Discovery(&model.Upstream{ServiceName: service, DiscoveryArgs: []byte(args)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Nodes are the nodes that are known, as host:port*weight in order; nil: none are
// known, empty: there are none.
func Nodes(s upstream.Service) []string {
	list := s.Known(time.Now())
	if list == nil {
		return nil
	}
	return format(list.Nodes)
}

func format(nodes []model.Node) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, fmt.Sprintf("%s:%d*%d", n.Host, n.Port, n.Weight))
	}
	return out
}

// Await waits until the nodes are those of want, in any order.
func Await(t testing.TB, s upstream.Service, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	var got []string
	Until(t, func() bool {
		got = Nodes(s)
		return got != nil && slices.Equal(slices.Sorted(slices.Values(got)), want)
	}, func() string { return fmt.Sprintf("nodes %v, want %v", got, want) })
}

// Until waits for done.
func Until(t testing.TB, done func() bool, what func() string) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what())
		}
	}
}

// A Fault is a way in which a registry fails.
type Fault int32

// The faults.
const (
	None    Fault = iota
	Refuse        // closes connections
	Hang          // does not answer
	Garbage       // is no JSON
	Empty         // an answer without a body
	Cut           // the answer ends in its middle
	Denied        // 403
	Broken        // 500
	Faults        // how many there are
)

// A Server is a registry that may fail.
type Server struct {
	*httptest.Server
	fault    atomic.Int32
	Requests atomic.Int64
}

// Serve starts a Server that answers with h.
func Serve(t testing.TB, h http.Handler) *Server {
	s := new(Server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		s.serve(h, w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Fail makes the server fail from now on. Connections are cut, so that queries
// under way fail, too.
func (s *Server) Fail(f Fault) {
	s.fault.Store(int32(f))
	if f != None {
		s.CloseClientConnections()
	}
}

func (s *Server) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch Fault(s.fault.Load()) {
	case Refuse:
		panic(http.ErrAbortHandler)
	case Hang:
		<-r.Context().Done()
	case Garbage:
		fmt.Fprint(w, "<html>[}")
	case Empty:
	case Cut:
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `[{"`)
	case Denied:
		http.Error(w, "no", http.StatusForbidden)
	case Broken:
		http.Error(w, "no", http.StatusInternalServerError)
	default:
		h.ServeHTTP(w, r)
	}
}

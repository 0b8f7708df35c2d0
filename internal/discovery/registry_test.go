package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/discovery"
	"weir/internal/discovery/discoverytest"
	"weir/internal/leaktest"
	"weir/internal/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// scripted is a Backend whose services the test moves.
type scripted struct {
	mu      sync.Mutex
	feeds   map[string]*discovery.Feed
	started map[string]int
	closed  bool
}

func newScripted() *scripted {
	return &scripted{feeds: map[string]*discovery.Feed{}, started: map[string]int{}}
}

func (b *scripted) Target(m *model.Upstream) (discovery.Target, error) {
	service := m.ServiceName
	if service == "bad" {
		return discovery.Target{}, errors.New("what is that")
	}
	return discovery.Target{Key: service, Follow: func(ctx context.Context, f *discovery.Feed) {
		b.mu.Lock()
		b.feeds[service] = f
		b.started[service]++
		b.mu.Unlock()
		<-ctx.Done()
		b.mu.Lock()
		delete(b.feeds, service)
		b.mu.Unlock()
	}}, nil
}

func (b *scripted) Close() { b.closed = true }

func (b *scripted) feed(t *testing.T, service string) (f *discovery.Feed) {
	t.Helper()
	discoverytest.Until(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		f = b.feeds[service]
		return f != nil
	}, func() string { return service + " is not followed" })
	return f
}

func (b *scripted) following() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.feeds)
}

func start(t *testing.T, c discovery.Config) (*discovery.Registry, *scripted) {
	b := newScripted()
	c.Kind, c.Backend, c.Env = "scripted", b, discoverytest.Env(t)
	return discoverytest.Start(t, discovery.New(c), nil), b
}

func node(host string, port, weight int) discovery.Node {
	return discovery.Node{Host: host, Port: port, Weight: weight}
}

// TestSameNodes: the list is the same as long as an upstream cannot tell.
func TestSameNodes(t *testing.T) {
	r, b := start(t, discovery.Config{})
	s := discoverytest.Use(t, r, "a", "")
	if s.Known(time.Now()) != nil {
		t.Fatal("nodes out of nothing")
	}
	f := b.feed(t, "a")
	f.Set([]discovery.Node{node("h", 1, 1), node("h", 2, 1)})
	first := s.Known(time.Now())
	f.Set([]discovery.Node{node("h", 2, 1), node("h", 1, 1)})
	f.Set([]discovery.Node{{Host: "h", Port: 1, Weight: 1, Metadata: json.RawMessage(`{"a":1}`)}, node("h", 2, 1)})
	f.Fail(errors.New("down"))
	if s.Known(time.Now()) != first {
		t.Error("the list changed")
	}
	if got := string(r.Services()["a"][0].Metadata); got != `{"a":1}` {
		t.Errorf("metadata %s", got)
	}
	f.Set([]discovery.Node{node("h", 1, 1), node("h", 2, 2)})
	if s.Known(time.Now()) == first {
		t.Error("the list did not change")
	}
	if n := testing.AllocsPerRun(100, func() { s.Known(time.Now()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUnusableNodes(t *testing.T) {
	r, b := start(t, discovery.Config{})
	s := discoverytest.Use(t, r, "a", "")
	b.feed(t, "a").Set([]discovery.Node{
		node("", 1, 1), node("h", -1, 1), node("h", 65536, 1), node("h", 1, -1), node("a b", 1, 1), node("h/x", 1, 1), node("a\r\nb", 1, 1),
		node("[::1]", 1, 1), node("::2", 2, 0),
	})
	discoverytest.Await(t, s, "::1:1*1", "::2:2*0")
}

func TestWait(t *testing.T) {
	r, b := start(t, discovery.Config{})
	s := discoverytest.Use(t, r, "a", "")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Nodes(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing known: %v", err)
	}
	f := b.feed(t, "a")
	go f.Fail(errors.New("down"))
	if _, err := s.Nodes(t.Context(), time.Now()); err == nil || err.Error() != "down" {
		t.Errorf("failed: %v", err)
	}
	f.Set([]discovery.Node{node("h", 1, 1)})
	f.Fail(errors.New("down"))
	if list, err := s.Nodes(t.Context(), time.Now()); err != nil || len(list.Nodes) != 1 {
		t.Errorf("failed after an answer: %v %v", list, err)
	}
	f.Stale([]discovery.Node{node("h", 2, 1)}, errors.New("half down"))
	discoverytest.Await(t, s, "h:2*1")
	f.Set(nil)
	if list, err := s.Nodes(t.Context(), time.Now()); err != nil || len(list.Nodes) != 0 {
		t.Errorf("no nodes: %v %v", list, err)
	}
}

func TestRefused(t *testing.T) {
	r, _ := start(t, discovery.Config{})
	s := discoverytest.Use(t, r, "bad", "")
	if _, err := s.Nodes(t.Context(), time.Now()); s.Known(time.Now()) != nil || err == nil || err.Error() != "discovery scripted: what is that" {
		t.Errorf("%v", err)
	}
}

// TestLinger: a service outlives a change of its upstream, and not much more.
func TestLinger(t *testing.T) {
	r, b := start(t, discovery.Config{})
	for range 20 {
		s, err := r.Discovery(&model.Upstream{ServiceName: "a"})
		if err != nil {
			t.Fatal(err)
		}
		b.feed(t, "a").Set([]discovery.Node{node("h", 1, 1)})
		s.Close()
	}
	if n := b.started["a"]; n != 1 {
		t.Errorf("followed anew %d times", n)
	}
	discoverytest.Until(t, func() bool { return b.following() == 0 }, func() string { return "still followed" })
	if len(r.Services()) != 0 {
		t.Error("still known")
	}
	discoverytest.Use(t, r, "a", "")
	b.feed(t, "a")
}

// TestNotStarted: nothing is asked before Start.
func TestNotStarted(t *testing.T) {
	b := newScripted()
	r := discovery.New(discovery.Config{Kind: "scripted", Backend: b, Env: discoverytest.Env(t)})
	gone, err := r.Discovery(&model.Upstream{ServiceName: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	s, err := r.Discovery(&model.Upstream{ServiceName: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if b.following() != 0 {
		t.Error("followed")
	}
	r.Start()
	b.feed(t, "a").Set([]discovery.Node{node("h", 1, 1)})
	if b.started["gone"] != 0 {
		t.Error("a service that is gone is followed")
	}
	if !r.Ready() {
		t.Error("not ready")
	}
	r.Close()
	discoverytest.Await(t, s, "h:1*1")
	s.Close()
	if !b.closed {
		t.Error("the backend is open")
	}
	late, err := r.Discovery(&model.Upstream{ServiceName: "late"})
	if err != nil {
		t.Fatal(err)
	}
	late.Close()
}

func TestPace(t *testing.T) {
	env := discovery.Env{Retry: time.Microsecond, Rand: func() float64 { return 1 }}
	p := discovery.NewPace(env)
	for range 20 {
		if !p.Failed(t.Context()) {
			t.Fatal("ended")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Failed(ctx) || p.Next(ctx, time.Hour) {
		t.Error("it goes on")
	}
}

func TestControl(t *testing.T) {
	r, b := start(t, discovery.Config{Shown: json.RawMessage(`{"a":1}`)})
	discoverytest.Use(t, r, "a", "")
	b.feed(t, "a").Set([]discovery.Node{{Host: "h", Port: 1, Weight: 2, Metadata: json.RawMessage(`{"b":"c"}`)}})
	discoverytest.Use(t, r, "empty", "")
	b.feed(t, "empty").Set(nil)
	mux := http.NewServeMux()
	for pattern, h := range r.Handlers() {
		mux.Handle(pattern, h)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/v1/discovery/scripted/dump", nil))
	want := `{"config":{"a":1},"services":{"a":[{"host":"h","port":1,"weight":2,"metadata":{"b":"c"}}]}}`
	if got := strings.TrimSpace(w.Body.String()); got != want {
		t.Errorf("%s", got)
	}
}

func TestClientHidesQuery(t *testing.T) {
	c := discovery.NewClient(discovery.ClientOptions{Connect: time.Second})
	defer c.Close()
	for _, url := range []string{"http://127.0.0.1:1/p?token=secret", "http://[::1]:1/p?token=secret"} {
		r, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if _, err := c.JSON(t.Context(), r, time.Second, &v); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), ":1/p: ") {
			t.Errorf("%v", err)
		}
	}
}

// TestClientDoesNotFollow: a token must not go where a registry sends it.
func TestClientDoesNotFollow(t *testing.T) {
	s := discoverytest.Serve(t, http.RedirectHandler("/elsewhere", http.StatusFound))
	c := discovery.NewClient(discovery.ClientOptions{Connect: time.Second})
	defer c.Close()
	r, err := http.NewRequest("GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	var status *discovery.StatusError
	if _, err := c.JSON(t.Context(), r, time.Second, &v); !errors.As(err, &status) || status.Status != 302 || s.Requests.Load() != 1 {
		t.Errorf("%v", err)
	}
}

// TestChurn uses and closes services from many goroutines while they change.
func TestChurn(t *testing.T) {
	r, b := start(t, discovery.Config{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				s, err := r.Discovery(&model.Upstream{ServiceName: fmt.Sprint((i + j) % 5)})
				if err != nil {
					t.Error(err)
					return
				}
				s.Known(time.Now())
				if j%50 == 0 {
					time.Sleep(time.Millisecond)
				}
				s.Close()
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			b.mu.Lock()
			for _, f := range b.feeds {
				f.Set([]discovery.Node{node("h", 1+i%3, 1)})
			}
			b.mu.Unlock()
		}
	})
	wg.Wait()
	discoverytest.Until(t, func() bool { return b.following() == 0 }, func() string { return "still followed" })
}

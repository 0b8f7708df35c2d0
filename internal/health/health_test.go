package health

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func parsed(t testing.TB, doc string) *Checks {
	t.Helper()
	c, err := Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func addr(n int) Address {
	return Address{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 80)}
}

// The defaults are those of APISIX's schema.
func TestDefaults(t *testing.T) {
	list := func(s Statuses) string {
		var all []string
		for code := range 700 {
			if s.Has(code) {
				all = append(all, fmt.Sprint(code))
			}
		}
		return strings.Join(all, " ")
	}
	c := parsed(t, `{"active":{},"passive":{}}`)
	a := c.Active
	if a.Type != "http" || a.Timeout != time.Second || a.Concurrency != 10 || a.Method != "GET" || a.Path != "/" ||
		!a.Verify || a.Interval.Healthy != time.Second || a.Interval.Unhealthy != time.Second ||
		a.Healthy.Successes != 2 || a.Unhealthy.HTTP != 5 || a.Unhealthy.TCP != 2 || a.Unhealthy.Timeouts != 3 {
		t.Errorf("active: %+v", a)
	}
	p := c.Passive
	if p.Healthy.Successes != 5 || p.Unhealthy.TCP != 2 || p.Unhealthy.Timeouts != 7 || p.Unhealthy.HTTP != 5 {
		t.Errorf("passive: %+v", p)
	}
	for got, want := range map[string]string{
		list(a.Healthy.Statuses):   "200 302",
		list(a.Unhealthy.Statuses): "404 429 500 501 502 503 504 505",
		list(p.Healthy.Statuses):   "200 201 202 203 204 205 206 207 208 226 300 301 302 303 304 305 306 307 308",
		list(p.Unhealthy.Statuses): "429 500 503",
	} {
		if got != want {
			t.Errorf("statuses %s, want %s", got, want)
		}
	}
	if c := parsed(t, `{"active":{}}`); c.Passive != (Passive{}) {
		t.Errorf("without passive checks: %+v", c.Passive)
	}
	c = parsed(t, `{"active":{"type":"https","timeout":0.5,"concurrency":3,"host":"h","port":81,"http_method":"POST","http_path":"/p",
		"http_req_body":"b","https_verify_certificate":false,"req_headers":["A: b"],
		"healthy":{"interval":7,"http_statuses":[204],"successes":1},"unhealthy":{"interval":9,"http_statuses":[],"http_failures":1,"tcp_failures":4,"timeouts":5}},
		"passive":{"unhealthy":{"tcp_failures":0}}}`)
	a = c.Active
	if a.Type != "https" || a.Timeout != 500*time.Millisecond || a.Concurrency != 3 || a.Host != "h" || a.Port != 81 || a.Method != "POST" ||
		a.Path != "/p" || a.Body != "b" || a.Verify || len(a.Headers) != 1 || a.Interval.Healthy != 7*time.Second ||
		a.Interval.Unhealthy != 9*time.Second || list(a.Healthy.Statuses) != "204" || list(a.Unhealthy.Statuses) != "" ||
		a.Unhealthy.HTTP != 1 || a.Unhealthy.TCP != 4 || a.Unhealthy.Timeouts != 5 || c.Passive.Unhealthy.TCP != 0 || c.Passive.Unhealthy.HTTP != 5 {
		t.Errorf("%+v", c)
	}
	if _, err := Parse([]byte(`[]`)); err == nil {
		t.Error("an array is no checks")
	}
	var s Statuses
	if s.Has(-1) || s.Has(640) {
		t.Error("a status outside of the set")
	}
}

// The state machine: S a good answer, H a bad status, T a refused connection, O
// a time-out, each as a request meets it.
func TestStates(t *testing.T) {
	const doc = `{"active":{},"passive":{"healthy":{"successes":2},"unhealthy":{"http_failures":3,"tcp_failures":2,"timeouts":2}}}`
	for _, tc := range []struct{ doc, events, want string }{
		{doc, "", "healthy 0/0/0/0"},
		{doc, "SSS", "healthy 0/0/0/0"}, // nothing is counted of what is healthy
		{doc, "H", "mostly_healthy 0/1/0/0"},
		{doc, "HS", "mostly_healthy 1/0/0/0"},
		{doc, "HSS", "healthy 2/0/0/0"},
		{doc, "HSSH", "mostly_healthy 0/1/0/0"},
		{doc, "HSHSHSHS", "mostly_healthy 1/0/0/0"},
		{doc, "HHH", "unhealthy 0/3/0/0"},
		{doc, "HHHHHHTTO", "unhealthy 0/3/0/0"}, // nor of what is unhealthy
		{doc, "HHTO", "mostly_healthy 0/2/1/1"},
		{doc, "HHTT", "unhealthy 0/2/2/0"},
		{doc, "OO", "unhealthy 0/0/0/2"},
		{doc, "TTS", "mostly_unhealthy 1/0/0/0"},
		{doc, "TTST", "mostly_unhealthy 0/0/1/0"},
		{doc, "TTSTT", "unhealthy 0/0/2/0"},
		{doc, "TTSS", "healthy 2/0/0/0"},
		{doc, "TTSTSS", "healthy 2/0/0/0"},
		{doc, "?", "healthy 0/0/0/0"}, // a status that is in neither list
		{`{"active":{},"passive":{"healthy":{"successes":0},"unhealthy":{"http_failures":0,"tcp_failures":1,"timeouts":0}}}`,
			"HHHHOOOO", "healthy 0/0/0/0"},
		{`{"active":{},"passive":{"healthy":{"successes":0},"unhealthy":{"http_failures":0,"tcp_failures":1,"timeouts":0}}}`,
			"TSSSS", "unhealthy 0/0/1/0"},
		{`{"active":{}}`, "HHHHHTTTTTOOOOO", "healthy 0/0/0/0"},
	} {
		c := New(Config{}, parsed(t, tc.doc))
		target := c.Set([]Address{addr(1)})[0]
		for _, e := range tc.events {
			switch e {
			case 'S':
				target.Answered(200)
			case 'H':
				target.Answered(500)
			case 'T':
				target.Failed()
			case 'O':
				target.TimedOut()
			case '?':
				target.Answered(418)
			}
		}
		n := c.Nodes()[0]
		got := fmt.Sprintf("%s %d/%d/%d/%d", n.Status, n.Counter.Success, n.Counter.HTTP, n.Counter.TCP, n.Counter.Timeout)
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.events, got, tc.want)
		}
		if usable := !strings.Contains(tc.want, "unhealthy"); target.Healthy() != usable {
			t.Errorf("%s: usable %v", tc.events, target.Healthy())
		}
		c.Close()
	}
	var none *Target
	none.Answered(500)
	none.Failed()
	none.TimedOut()
	if !none.Healthy() {
		t.Error("what is not checked is healthy")
	}
}

// Counters and status survive a change of the other nodes and of the rules;
// what is gone is gone, and begins anew when it comes back.
func TestSet(t *testing.T) {
	c := New(Config{}, parsed(t, `{"active":{},"passive":{"unhealthy":{"tcp_failures":2}}}`))
	defer c.Close()
	first := c.Set([]Address{addr(1), addr(2), addr(1)})
	if first[0] != first[2] || first[0] == first[1] || len(c.Nodes()) != 2 {
		t.Fatal("equal addresses are one target")
	}
	first[0].Failed()
	first[1].Failed()
	first[1].Failed()
	second := c.Set([]Address{addr(2), addr(3)})
	if second[0] != first[1] || second[0].Healthy() || !second[1].Healthy() {
		t.Fatal("a node that stays keeps its status")
	}
	c.Change(parsed(t, `{"active":{},"passive":{"healthy":{"successes":1}}}`))
	if second[0].Healthy() {
		t.Fatal("new rules do not make a node healthy")
	}
	second[0].Answered(200)
	if !second[0].Healthy() {
		t.Fatal("new rules count")
	}
	first[0].Failed() // by a request that was on its way
	third := c.Set([]Address{addr(1)})
	if third[0] == first[0] || third[0].Status() != Healthy {
		t.Fatal("a node that comes back begins anew")
	}
	named := addr(1)
	named.Name = "other.test"
	if c.Set([]Address{named})[0] == third[0] {
		t.Fatal("another Host is another target")
	}
	if n := c.Nodes(); len(n) != 1 || n[0].Header != "other.test" || n[0].IP != "10.0.0.1" || n[0].Hostname != "10.0.0.1" || n[0].Port != 80 {
		t.Fatal(n)
	}
}

// A world is nodes that a checker reaches without sockets, in synctest's time.
type world struct {
	mu    sync.Mutex
	asked map[string][]time.Duration // by address, since start
	start time.Time
	does  map[string]string // ok, bad, refuse, hang; missing: ok
	busy  atomic.Int32
	most  atomic.Int32
	took  time.Duration
}

func (w *world) set(addr, does string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.does[addr] = does
}

func (w *world) times(addr string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked[addr])
}

func (w *world) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	busy := w.busy.Add(1)
	defer w.busy.Add(-1)
	for most := w.most.Load(); busy > most && !w.most.CompareAndSwap(most, busy); most = w.most.Load() {
	}
	w.mu.Lock()
	w.asked[addr] = append(w.asked[addr], time.Since(w.start))
	does, took := w.does[addr], w.took
	w.mu.Unlock()
	if took > 0 {
		time.Sleep(took)
	}
	switch does {
	case "refuse":
		return nil, errors.New("connection refused")
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		r := bufio.NewReader(there)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		status := "200 OK"
		if does == "bad" {
			status = "500 Bad"
		}
		if does == "silent" {
			_, _ = io.Copy(io.Discard, there)
			return
		}
		fmt.Fprintf(there, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
	}()
	return here, nil
}

// checking runs f with a checker of n nodes.
func checking(t *testing.T, doc string, n int, f func(w *world, c *Checker, targets []*Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{asked: map[string][]time.Duration{}, does: map[string]string{}, start: time.Now()}
		c := New(Config{Name: "upstreams/1", Dial: w.dial}, parsed(t, doc))
		var all []Address
		for i := range n {
			all = append(all, addr(i+1))
		}
		targets := c.Set(all)
		c.Start()
		synctest.Wait()
		f(w, c, targets)
		c.Close()
		synctest.Wait()
	})
}

func TestActive(t *testing.T) {
	const doc = `{"active":{"timeout":0.5,"healthy":{"interval":1,"successes":2},"unhealthy":{"interval":3,"http_failures":2,"tcp_failures":2,"timeouts":2}}}`
	for _, tc := range []struct {
		does, counter string
	}{{"bad", "{0 2 0 0}"}, {"refuse", "{0 0 2 0}"}, {"hang", "{0 0 0 2}"}, {"silent", "{0 0 0 2}"}} {
		t.Run(tc.does, func(t *testing.T) {
			checking(t, doc, 2, func(w *world, c *Checker, targets []*Target) {
				w.set("10.0.0.1:80", tc.does)
				time.Sleep(2800 * time.Millisecond)
				if n := c.Nodes()[0]; n.Status != "unhealthy" || fmt.Sprint(n.Counter) != tc.counter {
					t.Errorf("%+v", n)
				}
				if !targets[1].Healthy() {
					t.Error("the other is healthy")
				}
				w.set("10.0.0.1:80", "ok")
				at := len(w.times("10.0.0.1:80"))
				time.Sleep(10 * time.Second)
				if !targets[0].Healthy() {
					t.Errorf("%+v", c.Nodes()[0])
				}
				// Unhealthy, it was asked each 3 s until it was well, then each second.
				if n := len(w.times("10.0.0.1:80")) - at; n < 4 || n > 9 {
					t.Errorf("asked %d times in 10 s", n)
				}
				if n := len(w.times("10.0.0.2:80")); n < 12 || n > 14 {
					t.Errorf("the healthy one was asked %d times in 12.8 s", n)
				}
			})
		})
	}
}

// Type tcp only connects.
func TestTCP(t *testing.T) {
	checking(t, `{"active":{"type":"tcp","healthy":{"successes":1},"unhealthy":{"tcp_failures":1}}}`, 1, func(w *world, c *Checker, targets []*Target) {
		w.set("10.0.0.1:80", "refuse")
		time.Sleep(1500 * time.Millisecond)
		if targets[0].Healthy() {
			t.Error("refused")
		}
		w.set("10.0.0.1:80", "silent")
		time.Sleep(time.Second)
		if !targets[0].Healthy() {
			t.Errorf("%+v", c.Nodes())
		}
	})
}

// A removed node is not asked any more, even by a round that is under way; the
// others keep what is known of them (field case 64).
func TestRemoved(t *testing.T) {
	checking(t, `{"active":{"concurrency":1,"healthy":{"interval":1},"unhealthy":{"interval":1,"tcp_failures":1}}}`, 3, func(w *world, c *Checker, targets []*Target) {
		w.set("10.0.0.1:80", "refuse")
		time.Sleep(1500 * time.Millisecond)
		if targets[0].Healthy() {
			t.Fatal("the first is down")
		}
		w.mu.Lock()
		w.took = 300 * time.Millisecond
		w.mu.Unlock()
		time.Sleep(600 * time.Millisecond) // the next round asks the first
		c.Set([]Address{addr(1)})
		at := len(w.times("10.0.0.3:80"))
		time.Sleep(10 * time.Second)
		if n := len(w.times("10.0.0.3:80")); n != at {
			t.Errorf("a removed node was asked %d times", n-at)
		}
		if n := c.Nodes(); len(n) != 1 || n[0].Status != "unhealthy" {
			t.Errorf("%+v", n)
		}
	})
}

func TestConcurrency(t *testing.T) {
	checking(t, `{"active":{"concurrency":3,"healthy":{"interval":5}}}`, 10, func(w *world, _ *Checker, _ []*Target) {
		w.mu.Lock()
		w.took = 100 * time.Millisecond
		w.mu.Unlock()
		time.Sleep(7 * time.Second)
		if w.most.Load() != 3 {
			t.Errorf("%d at the same time", w.most.Load())
		}
		for i := range 10 {
			if n := len(w.times(addr(i + 1).Addr.String())); n != 2 {
				t.Errorf("node %d was asked %d times", i, n)
			}
		}
	})
}

// New intervals are in force at once, and Close ends what hangs.
func TestChange(t *testing.T) {
	checking(t, `{"active":{"timeout":1000,"healthy":{"interval":1000}}}`, 1, func(w *world, c *Checker, _ []*Target) {
		time.Sleep(10 * time.Second)
		if n := len(w.times("10.0.0.1:80")); n != 1 {
			t.Fatal(n)
		}
		w.set("10.0.0.1:80", "hang")
		c.Change(parsed(t, `{"active":{"timeout":1000,"healthy":{"interval":2}}}`))
		synctest.Wait()
		if n := len(w.times("10.0.0.1:80")); n != 2 {
			t.Fatal(n)
		}
	})
}

// Refresh comes before every round and may change what is asked.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{asked: map[string][]time.Duration{}, does: map[string]string{}, start: time.Now()}
		var c *Checker
		n := 0
		c = New(Config{Dial: w.dial, Refresh: func(context.Context) {
			n++
			c.Set([]Address{addr(n)})
		}}, parsed(t, `{"active":{}}`))
		c.Start()
		time.Sleep(2500 * time.Millisecond)
		c.Close()
		for i := 1; i <= 3; i++ {
			if len(w.times(addr(i).Addr.String())) != 1 {
				t.Error(i, w.asked)
			}
		}
	})
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	c := New(Config{Name: "upstreams/1", Log: slog.New(slog.NewTextHandler(&out, nil))},
		parsed(t, `{"active":{},"passive":{"healthy":{"successes":1},"unhealthy":{"tcp_failures":2}}}`))
	defer c.Close()
	x := c.Set([]Address{addr(1)})[0]
	for range 3 {
		x.Failed()
		x.Failed()
		x.Failed()
		x.Answered(200)
	}
	if s := out.String(); strings.Count(s, "level=WARN") != 3 || strings.Count(s, "level=INFO") != 3 || !strings.Contains(s, "upstream=upstreams/1 addr=10.0.0.1:80") {
		t.Error(s)
	}
}

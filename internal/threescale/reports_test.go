package threescale

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/upstream"
	"weir/internal/wire"
)

// A stuck backend answers when it is let.
type stuck struct {
	free  chan struct{}
	asked atomic.Int32
}

func (s *stuck) RoundTrip(c *upstream.Call) error {
	s.asked.Add(1)
	<-s.free
	return &upstream.Error{Kind: upstream.Dial}
}

func (s *stuck) Close() {}

func reporting(t *testing.T, threads int) (*Client, *stuck, func() string) {
	t.Helper()
	var mu sync.Mutex
	var log strings.Builder
	rt := NewRuntime(Settings{ReportingThreads: threads}, slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)), meter.New(0), time.Now)
	s := &stuck{free: make(chan struct{})}
	t.Cleanup(rt.Close)
	return &Client{rt: rt, backend: &backend{upstream: s}, report: "/transactions.xml?"}, s, func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// Whatever the backend does, what waits for it is bounded, and what finds no room
// is counted; when it is back, what has waited is sent.
func TestReportsAreBounded(t *testing.T) {
	k, s, log := reporting(t, 3)
	usage := Usage{{"hits", 1}}
	who := &Credentials{UserKey: "k"}
	const posted = reportsWaiting + 500
	for range posted {
		k.ReportUsage(who, usage)
	}
	eventually(t, "the workers are at it", func() bool { return s.asked.Load() == 3 })
	if n := k.rt.reporter.running.Load(); n != 3 {
		t.Errorf("%d workers", n)
	}
	lost := k.rt.reporter.lost.series.Load().Value()
	if lost < 400 || lost > 500 || !strings.Contains(log(), "find no room") && !strings.Contains(log(), "found no room") {
		t.Errorf("%d lost\n%.300s", lost, log())
	}
	close(s.free)
	eventually(t, "all are sent", func() bool { return int64(s.asked.Load())+lost == posted })
	k.rt.Close()
	if n := k.rt.reporter.running.Load(); n > 3 {
		t.Errorf("%d workers", n)
	}
}

// The end does not wait for ever for a backend that does not answer.
func TestReportsAtTheEnd(t *testing.T) {
	k, s, log := reporting(t, 1)
	for range 3 {
		k.ReportUsage(&Credentials{UserKey: "k"}, Usage{{"hits", 1}})
	}
	eventually(t, "a worker is at it", func() bool { return s.asked.Load() == 1 })
	k.rt.closed.Store(true)
	k.rt.reporter.close(20 * time.Millisecond)
	if !strings.Contains(log(), "reports=2") {
		t.Error(log())
	}
	close(s.free)
}

func TestTransactions(t *testing.T) {
	b := appendTransaction(nil, 0, &Credentials{AppID: "i d", AppKey: "k"}, Usage{{"a", 1}, {"b]", 2}})
	b = appendTransaction(b, 1, &Credentials{AccessToken: "t"}, Usage{{"a", 3}})
	want := "transactions%5B0%5D%5Bapp_id%5D=i%20d&transactions%5B0%5D%5Busage%5D%5Ba%5D=1&transactions%5B0%5D%5Busage%5D%5Bb%5D%5D=2" +
		"&transactions%5B1%5D%5Baccess_token%5D=t&transactions%5B1%5D%5Busage%5D%5Ba%5D=3"
	if string(b) != want {
		t.Errorf("%s", b)
	}
}

// Keys differ where authorizations do, however the parts are cut.
func TestAuthorizationKeys(t *testing.T) {
	product := func(id, authentication string) *Product {
		p, _ := routing(t, &model.Product{ID: id, Authentication: authentication}, Settings{})
		return p
	}
	one, two, oidc := product("1", ""), product("2", ""), product("1", "oidc")
	token := func(sum byte) *Token { return &Token{sum: [32]byte{sum}} }
	seen := map[string]string{}
	for _, r := range []*Request{
		{Product: one},
		{Product: one, Credentials: Credentials{UserKey: "ab"}},
		{Product: two, Credentials: Credentials{UserKey: "ab"}},
		{Product: one, Credentials: Credentials{AppID: "ab"}},
		{Product: one, Credentials: Credentials{AppID: "a", AppKey: "b"}},
		{Product: one, Credentials: Credentials{AppID: "", AppKey: "ab"}},
		{Product: one, Credentials: Credentials{AppID: "a", AppKey: "b"}, Usage: Usage{{"a", 1}}},
		{Product: one, Credentials: Credentials{AppID: "a", AppKey: "b"}, Usage: Usage{{"a", 2}}},
		{Product: one, Credentials: Credentials{AppID: "a", AppKey: "b"}, Usage: Usage{{"a", 1}, {"b", 1}}},
		{Product: one, Credentials: Credentials{AppID: "a", AppKey: "b"}, Usage: Usage{{"a", 1}}, Extra: []Parameter{{"b", "1"}}},
		{Product: one, Credentials: Credentials{AppID: "a", AppKey: "b"}, Usage: Usage{{"a", 1}}, Extra: []Parameter{{"b1", ""}}},
		{Product: oidc, Credentials: Credentials{AppID: "a"}, Token: token(1)},
		{Product: oidc, Credentials: Credentials{AppID: "a"}, Token: token(2)},
		{Product: one, Credentials: Credentials{AppID: "a"}, Token: token(2)},
	} {
		for _, use := range []byte{'a', 'b'} {
			what := fmt.Sprintf("%c %s %+v %v %v", use, r.Product.ID, r.Credentials, r.Usage, r.Extra)
			if use == 'b' && r.Extra != nil {
				continue
			}
			key := string(r.appendKey(nil, use))
			if other, ok := seen[key]; ok {
				t.Errorf("%s has the key of %s", what, other)
			}
			seen[key] = what
		}
	}
	a := &Request{Product: one, Usage: Usage{{"b", 1}, {"a", 2}, {"c", 3}}}
	b := &Request{Product: one, Usage: Usage{{"c", 3}, {"a", 2}, {"b", 1}}}
	if string(a.appendKey(nil, 'a')) != string(b.appendKey(nil, 'a')) {
		t.Error("the order of metrics makes a difference")
	}
}

func TestUsageOrder(t *testing.T) {
	var u Usage
	for i := range 40 {
		u.Add(fmt.Sprintf("m%02d", (i*7)%40), 1)
	}
	last := ""
	for _, i := range u.sorted(nil) {
		if u[i].Metric <= last {
			t.Fatalf("%s after %s", u[i].Metric, last)
		}
		last = u[i].Metric
	}
	if got := (Usage{{"b", 2}, {"a c", 1}}).encoded(); got != "usage%5Ba%20c%5D=1&usage%5Bb%5D=2" {
		t.Error(got)
	}
}

// What an answer says of limits (apicast.md §4.3).
func TestAnswers(t *testing.T) {
	var h wire.Response
	h.Status = 409
	for _, f := range [][2]string{{"3scale-Rejection-Reason", "limits_exceeded"}, {"3SCALE-limit-max-value", "0"}, {"3scale-limit-remaining", "x"}, {"3scale-limit-reset", "60"}} {
		h.Header.Add(f[0], f[1])
	}
	var a Answer
	if a.read(&h); a != (Answer{Status: 409, Reason: LimitsExceeded, LimitReset: 60, nothing: true}) {
		t.Errorf("%+v", a)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it does not come that ", what)
}

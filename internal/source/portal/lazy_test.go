package portal

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Row 71 of the field reports: with cache 0 the next request sees a change.
func TestLazyNoCache(t *testing.T) {
	p := newPorta(t, svc(1, "a", ""), svc(2, "b", ""))
	b := start(t, lazy(p, 0)).started()
	if n := len(p.requests()); n != 0 || b.ids() != "" || !b.Status().Configured {
		t.Errorf("%d requests, %s", n, b.ids())
	}
	for i := range 5 {
		p.edit(func() { p.services["1"] = svc(1, "a", fmt.Sprintf(`,"secret_token":"%d"`, i)) })
		if err := b.want("a"); err != nil || !strings.Contains(b.product("1"), fmt.Sprintf(`"secret_token":"%d"`, i)) {
			t.Fatal(err, b.product("1"))
		}
	}
	p.set(svc(2, "b", ""))
	if err := b.want("a"); err != nil || b.ids() != "" {
		t.Error(err, b.ids())
	}
	if err := b.want("nowhere"); err != nil || b.ids() != "" {
		t.Error(err, b.ids())
	}
}

// With cache 0 the first request after an outage sees what is there then, and one
// during it what was good last.
func TestLazyNoCacheOutage(t *testing.T) {
	p := newPorta(t, svc(1, "a", `,"secret_token":"before"`))
	b := start(t, lazy(p, 0)).started()
	if err := b.want("a"); err != nil {
		t.Fatal(err)
	}
	p.edit(func() { p.status = http.StatusBadGateway })
	for range 2 {
		if err := b.want("a"); err == nil || !strings.Contains(b.product("1"), "before") {
			t.Error(err, b.product("1"))
		}
	}
	p.edit(func() {
		p.status = 0
		p.services["1"] = svc(1, "a", `,"secret_token":"after"`)
	})
	if err := b.want("a"); err != nil || !strings.Contains(b.product("1"), "after") {
		t.Error(err, b.product("1"))
	}
}

// While a host is loaded, requests for it share a load that begins after they
// came: it sees what was changed before they did.
func TestLazyCoalesced(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		p := newPorta(t, svc(1, "a", ""))
		hold := make(chan struct{})
		p.hold = hold
		b := start(t, lazy(p, ttl)).started()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.want("a"); err != nil {
				t.Error(err)
			}
		})
		b.until("first asks", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.asked) == 1
		})
		var waiting atomic.Int32
		for range 50 {
			wg.Go(func() {
				waiting.Add(1)
				if err := b.want("a"); err != nil {
					t.Error(err)
				}
			})
		}
		b.until("all wait", func() bool { return waiting.Load() == 50 })
		time.Sleep(20 * time.Millisecond) // for those to get from there to the load
		close(hold)
		wg.Wait()
		most := 3 // late ones may have begun another
		if ttl > 0 {
			most = 1
		}
		if n := len(p.requests()); n > most {
			t.Errorf("ttl %v: %d requests to the portal", ttl, n)
		}
	}
}

func TestLazyEnds(t *testing.T) {
	p := newPorta(t)
	cfg := lazy(p, 0)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Want(context.Background(), "a"); err != errEnded {
		t.Error("before the start:", err)
	}
	b := start(t, cfg).started()
	b.stop()
	if err := b.want("a"); err != errEnded {
		t.Error("after the end:", err)
	}
}

func TestLazyGivesUp(t *testing.T) {
	p := newPorta(t, svc(1, "a", ""))
	p.hold = make(chan struct{})
	b := start(t, lazy(p, time.Hour)).started()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := b.Want(ctx, "a"); err != context.DeadlineExceeded {
		t.Error(err)
	}
	close(p.hold)
	b.until("loaded", func() bool { return b.ids() == "1" })
}

// A transport answers without a network, so that time may be the test's.
type transport func(*http.Request) (status int, body string)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func configs(docs ...string) string {
	wrapped := make([]string, len(docs))
	for i, d := range docs {
		wrapped[i] = `{"proxy_config":{"content":` + d + `}}`
	}
	return `{"proxy_configs":[` + strings.Join(wrapped, ",") + `]}`
}

func TestLazyTTL(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		after time.Duration
		loads int64
	}{
		"fresh":   {ttl: time.Minute, after: time.Minute - 1, loads: 1},
		"expired": {ttl: time.Minute, after: time.Minute, loads: 2},
		"never":   {ttl: -time.Second, after: 1000 * time.Hour, loads: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var loads atomic.Int64
			b := start(t, Config{
				Endpoint: "http://portal", Lazy: true, TTL: c.ttl,
				Transport: transport(func(*http.Request) (int, string) {
					loads.Add(1)
					return 200, configs(svc(1, "a,b", ""))
				}),
			})
			defer b.stop()
			synctest.Wait()
			for _, host := range []string{"a", "a", "b"} {
				if err := b.Want(t.Context(), host); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(c.after)
			if err := b.Want(t.Context(), "b"); err != nil {
				t.Error(err)
			}
			if loads.Load() != c.loads {
				t.Errorf("%s: %d loads, want %d", name, loads.Load(), c.loads)
			}
		})
	}
}

// The document's own time wins.
func TestDocumentTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{Configuration: `data:application/json,{"ttl":60,"services":[{"id":1}]}`, Lazy: true, TTL: time.Hour})
		defer b.stop()
		synctest.Wait()
		for i, c := range []struct {
			after time.Duration
			loads int64
		}{{0, 1}, {59 * time.Second, 1}, {time.Second, 2}} {
			time.Sleep(c.after)
			if err := b.Want(t.Context(), "localhost"); err != nil || b.Status().Loads != c.loads {
				t.Error(i, err, b.Status().Loads)
			}
		}
	})
}

// A host whose portal fails is served as it was, without making requests wait
// again, until the portal is back.
func TestLazyStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		b := start(t, Config{
			Endpoint: "http://portal", Lazy: true, TTL: time.Minute, Timeout: time.Second,
			Dial: failing,
			Transport: transport(func(*http.Request) (int, string) {
				if down.Load() {
					time.Sleep(5 * time.Second)
					return 0, ""
				}
				return 200, configs(svc(1, "a", ""))
			}),
		})
		defer b.stop()
		synctest.Wait()
		want := func(host string, fails bool, wait time.Duration) {
			t.Helper()
			began := time.Now()
			if err := b.Want(t.Context(), host); (err != nil) != fails || time.Since(began).Round(time.Second) != wait {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		want("a", false, 0)
		down.Store(true)
		time.Sleep(time.Minute)
		want("a", true, 6*time.Second)
		want("a", false, 0)
		want("b", true, 6*time.Second)
		if b.ids() != "1" {
			t.Error(b.ids())
		}
		time.Sleep(time.Minute)
		down.Store(false)
		want("a", false, 0) // asks again
		synctest.Wait()
		if st := b.Status(); st.Problem != "" || st.Loads != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// The bound of the wait.
func TestLazySlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Config{
			Endpoint: "http://portal", Lazy: true, TTL: time.Minute, Timeout: time.Second, Dial: failing,
			Transport: transport(func(*http.Request) (int, string) {
				time.Sleep(20 * time.Second)
				return 200, configs(svc(1, "a", ""))
			}),
		})
		defer b.stop()
		synctest.Wait()
		began := time.Now()
		if err := b.Want(t.Context(), "a"); err != context.DeadlineExceeded || time.Since(began) != hostWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(20 * time.Second)
		if b.ids() != "1" {
			t.Error("what came late is not served")
		}
	})
}

// A client may ask for any number of hosts that nobody has. That neither keeps a
// host waiting that is there, nor does it leave loads behind that nobody waits for.
func TestLazyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32 // for hosts that nobody has
		b := start(t, Config{
			Endpoint: "http://portal", Lazy: true, TTL: time.Second, Timeout: time.Second, Dial: failing,
			Transport: transport(func(r *http.Request) (int, string) {
				if r.URL.Query().Get("host") == "a" {
					return 200, configs(svc(1, "a", ""))
				}
				asked.Add(1)
				time.Sleep(20 * time.Second)
				return 200, configs()
			}),
		})
		defer b.stop()
		synctest.Wait()
		if err := b.Want(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		var flood sync.WaitGroup
		for i := range 10 * loadsAtOnce {
			flood.Go(func() {
				if err := b.Want(t.Context(), fmt.Sprint("nobody", i)); err != context.DeadlineExceeded {
					t.Error(err)
				}
			})
		}
		time.Sleep(2 * time.Second) // "a" is to be loaded again
		began := time.Now()
		if err := b.Want(t.Context(), "a"); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		flood.Wait()
		time.Sleep(time.Minute)
		if n := asked.Load(); n != loadsAtOnce {
			t.Errorf("%d loads that nobody waited for", n-loadsAtOnce)
		}
	})
}

// Rows 69 and 70 of the field reports: the configuration is loaded once per TTL,
// and once if that is below 0.
func TestRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		fails bool
		loads int64
	}{
		"never":   {ttl: -time.Second, loads: 1},
		"30 s":    {ttl: 30 * time.Second, loads: 1 + 120},
		"failing": {ttl: 30 * time.Second, fails: true, loads: 1 + 120},
	} {
		synctest.Test(t, func(t *testing.T) {
			var loads atomic.Int64
			b := start(t, Config{
				Endpoint: "http://portal", TTL: c.ttl, Timeout: time.Second, Dial: failing,
				Transport: transport(func(*http.Request) (int, string) {
					if loads.Add(1) > 1 && c.fails {
						return 500, ""
					}
					return 200, configs(svc(1, "a", fmt.Sprintf(`,"secret_token":"%d"`, loads.Load())))
				}),
			})
			defer b.stop()
			time.Sleep(time.Hour + time.Second)
			if loads.Load() != c.loads {
				t.Errorf("%s: %d loads, want %d", name, loads.Load(), c.loads)
			}
			if c.fails != b.logged("not refreshed") || c.fails && b.steps() != 1 {
				t.Errorf("%s: %s", name, b.log.String())
			}
		})
	}
}

// A portal that takes longer than the interval is asked once at a time, and an
// answer to an older question does not undo a newer one.
func TestSlowRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads, running, most atomic.Int64
		b := start(t, Config{
			Endpoint: "http://portal", TTL: 10 * time.Second, Timeout: time.Second, Dial: failing,
			Transport: transport(func(*http.Request) (int, string) {
				n := loads.Add(1)
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				if n == 2 {
					time.Sleep(35 * time.Second)
				}
				return 200, configs(svc(1, "a", fmt.Sprintf(`,"secret_token":"%d"`, n)))
			}),
		})
		defer b.stop()
		time.Sleep(30*time.Second + 1)
		if loads.Load() != 2 || most.Load() != 1 {
			t.Errorf("%d loads, %d at once", loads.Load(), most.Load())
		}
		if err := b.Reload(t.Context()); err != nil { // while the refresh waits
			t.Fatal(err)
		}
		time.Sleep(18 * time.Second)
		if got := b.product("1"); !strings.Contains(got, `"secret_token":"3"`) {
			t.Error(got)
		}
		time.Sleep(10 * time.Second)
		if got := b.product("1"); !strings.Contains(got, `"secret_token":"4"`) {
			t.Error(got)
		}
	})
}

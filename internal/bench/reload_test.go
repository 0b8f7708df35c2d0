package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/bench/tenant"
)

// A fakeReader behaves like a 3scale gateway as far as the bench can see, with
// faults on demand.
type fakeReader struct {
	portal  string       // its URL, with the token
	client  *http.Client // for it
	backend http.Handler // nil: it is not asked

	refresh time.Duration // 0: never
	stall   time.Duration // nothing is answered for so long after each refresh
	keeps   int           // products that fit; 0: all
	stale   bool          // what changed is never taken
	frugal  bool          // asks for what is new only

	mu       sync.Mutex
	products map[string]string // host → version
	raw      map[string]string
	compiled int64
	blocked  time.Time
	tags     map[int]string
	pages    map[int]fakePage
}

type fakePage struct {
	ProxyConfigs []struct {
		ProxyConfig json.RawMessage `json:"proxy_config"`
	} `json:"proxy_configs"`
}

func (f *fakeReader) run(ctx context.Context) error {
	f.products, f.raw = map[string]string{}, map[string]string{}
	f.tags, f.pages = map[int]string{}, map[int]fakePage{}
	return f.read(ctx)
}

// follow refreshes until ctx ends.
func (f *fakeReader) follow(ctx context.Context) {
	for f.refresh > 0 && sleepUntil(ctx, time.Now().Add(f.refresh)) {
		_ = f.read(ctx) // refused: it keeps what it has
	}
}

func (f *fakeReader) read(ctx context.Context) error {
	var all []json.RawMessage
	for page := 1; ; page++ {
		p, err := f.page(ctx, page)
		if err != nil {
			return err
		}
		for _, c := range p.ProxyConfigs {
			all = append(all, c.ProxyConfig)
		}
		if len(p.ProxyConfigs) < tenant.PerPage {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first := len(f.products) == 0
	if !first {
		f.blocked = time.Now().Add(f.stall)
	}
	for i, raw := range all {
		var doc struct {
			Content struct {
				Proxy struct {
					Hosts []string
					Chain []struct {
						Configuration struct{ Response []struct{ Value string } }
					} `json:"policy_chain"`
				}
			}
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			return err
		}
		host := doc.Content.Proxy.Hosts[0]
		if f.raw[host] == string(raw) || f.keeps > 0 && i >= f.keeps || f.stale && !first {
			continue
		}
		f.compiled++
		f.raw[host], f.products[host] = string(raw), doc.Content.Proxy.Chain[0].Configuration.Response[0].Value
	}
	return nil
}

func (f *fakeReader) page(ctx context.Context, n int) (p fakePage, err error) {
	url := fmt.Sprintf("%s/admin/api/account/proxy_configs/production.json?version=latest&per_page=500&page=%d", f.portal, n)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return p, err
	}
	if f.frugal {
		req.Header.Set("If-None-Match", f.tags[n])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case 304:
		return f.pages[n], nil
	case 200:
	default:
		return p, fmt.Errorf("status %d", resp.StatusCode)
	}
	err = json.NewDecoder(resp.Body).Decode(&p)
	f.tags[n], f.pages[n] = resp.Header.Get("ETag"), p
	return p, err
}

func (f *fakeReader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	version, known := f.products[r.Host]
	wait := time.Until(f.blocked)
	compiled := f.compiled
	f.mu.Unlock()
	if r.URL.Path == "/v1/revision" {
		fmt.Fprintf(w, `{"compiled":{"products":%d}}`, compiled)
		return
	}
	time.Sleep(max(wait, 0) + time.Millisecond)
	if !known {
		w.WriteHeader(404)
		return
	}
	if f.backend != nil {
		i := strings.TrimPrefix(r.URL.Path, "/bench/")
		f.backend.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", fmt.Sprintf(
			"/transactions/authrep.xml?service_id=%s&service_token=bench-token-%s&usage[hits]=1&user_key=%s",
			fakeServiceID(i), i, r.URL.Query().Get("user_key")), nil))
	}
	w.Header().Set(tenant.VersionHeader, version)
}

func fakeServiceID(i string) string { return "100000"[:6-len(i)] + i }

// simulateReload runs the experiment in virtual time.
func simulateReload(t *testing.T, o *reloadOptions, fault func(*fakeReader)) *ReloadReport {
	t.Helper()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	changes, err := o.changes()
	if err != nil {
		t.Fatal(err)
	}
	catalog := tenant.NewCatalog(tenant.Config{Products: o.products, Upstream: "http://127.0.0.1:9", Backend: "http://127.0.0.1:8"})
	r := &reloading{
		opts: o, changes: changes, catalog: catalog, portal: tenant.NewPortal(catalog), backend: tenant.NewBackend(catalog),
		progress: newProgress(io.Discard), wait: func(at time.Time) { time.Sleep(time.Until(at)) },
	}
	ln := newPipeListener()
	portal := &http.Server{Handler: r.portal}
	var wg sync.WaitGroup
	wg.Go(func() { _ = portal.Serve(ln) })
	r.start = func(ctx context.Context, refresh bool) (*reader, error) {
		f := &fakeReader{portal: "http://" + tenant.PortalToken + "@portal.test", backend: r.backend, client: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.dial(ctx) },
		}}}
		if refresh {
			f.refresh = o.refresh
		}
		if fault != nil {
			fault(f)
		}
		if err := f.run(ctx); err != nil {
			return nil, err
		}
		data := newPipeListener()
		server := &http.Server{Handler: f}
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(data) })
		wg.Go(func() { f.follow(ctx) })
		began := time.Now()
		return &reader{
			dial:  data.dial,
			usage: func() (usage, error) { return usage{cpu: time.Since(began) / 10, rss: 64 << 20}, nil },
			// A tenth of a core, and all of it for 200 ms after every refresh.
			cpu: func() (time.Duration, error) {
				since := time.Since(began)
				if f.refresh == 0 {
					return since / 10, nil
				}
				n := since / f.refresh
				busy := n * 180 * time.Millisecond
				if n > 0 {
					busy += min(since-n*f.refresh, 200*time.Millisecond)*9/10 - 180*time.Millisecond
				}
				return since/10 + busy, nil
			},
			compiled: func(context.Context) (int64, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.compiled, nil
			},
			stop: func() {
				cancel()
				_ = server.Close()
				wg.Wait()
				f.client.CloseIdleConnections()
			},
		}, nil
	}
	outcomes, err := r.run(t.Context())
	_ = portal.Close()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return newReloadReport(o, "fake", changes, outcomes)
}

func reloadDefaults(change func(*reloadOptions)) *reloadOptions {
	o := &reloadOptions{
		products: 600, rps: 100, conns: 16, refresh: 15 * time.Second, changed: []string{"0", "1%", "10%"}, pairs: 1,
		phase: time.Minute, settle: 2 * time.Second, timeout: 5 * time.Second, ready: time.Minute, pause: time.Second,
		format: "table", seed: 1,
	}
	change(o)
	return o
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simulateReload(t, reloadDefaults(func(o *reloadOptions) { o.pairs = 2 }), nil)
		if len(r.Phases) != 8 || !slices.Equal(r.Settings.Changed, []int{0, 6, 60}) {
			t.Fatalf("%d phases, %v", len(r.Phases), r.Settings.Changed)
		}
		for _, p := range r.Phases {
			if p.OK != 6000 || p.NotFound+p.Other+p.Timeouts+p.Errors != 0 || p.Before.OK != 600 || p.After.OK != 600 {
				t.Errorf("%s: %+v", p.name(), p)
			}
			near(t, p.name()+" p99", p.Latency.P99, 1, .01)
			f := p.Refreshes
			if want := 4; p.Refresh && (f.Count != want || f.Requests != 2*want || *f.Compiled != int64(want*p.Changed) || f.Bytes < 4*600*1000) {
				t.Errorf("%s: %+v, compiled %d", p.name(), f, *f.Compiled)
			}
			if !p.Refresh && (f.Count != 0 || *f.Compiled != 0) {
				t.Errorf("%s: %+v", p.name(), f)
			}
			for _, c := range f.CPUMS {
				near(t, p.name()+" CPU of a refresh", c, 180, .1)
			}
			if p.Backend.AuthRep != 6000 || p.Backend.Hits != 6000 {
				t.Errorf("%s: %+v", p.name(), p.Backend)
			}
		}
		for _, c := range r.Comparisons {
			near(t, "ratio", c.MedianRatio, 1, .01)
			if len(c.Ratios) != 2 || c.StallMS > c.IdleStallMS {
				t.Errorf("%+v", c)
			}
		}
	})
}

func TestReloadFindsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := reloadDefaults(func(o *reloadOptions) { o.changed = []string{"60"} })
		r := simulateReload(t, o, func(f *fakeReader) { f.stall, f.keeps, f.stale, f.frugal = 300*time.Millisecond, 198, true, true })
		var text bytes.Buffer
		if err := r.write(&text, "table"); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Phases {
			if p.Before.OK != 198 || p.Before.NotFound != 402 || p.Before.First != "product-198.bench.test: 404" || p.NotFound == 0 {
				t.Errorf("%s: %+v, %d not found", p.name(), p.Before, p.NotFound)
			}
			if !p.Refresh {
				continue
			}
			near(t, "stall", p.StallMS, 300, .05)
			if p.After.Stale == 0 || p.After.OK+p.After.Stale != 198 || !strings.Contains(p.After.First, "version 0, want 1") {
				t.Errorf("%+v", p.After)
			}
			// Only the first page changes: 60 of its 500 products each time.
			if f := p.Refreshes; f.NotModified != 4 || f.Requests != 8 || *f.Compiled != 0 {
				t.Errorf("%+v", f)
			}
		}
		c := r.Comparisons[0]
		if c.MedianRatio < 100 || c.StallMS < 290 || c.IdleStallMS > 2 {
			t.Errorf("%+v", c)
		}
		for _, want := range []string{"198 of 600 products answered as they should before the load", "changed 60: p99 with / p99 idle: median", "404"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, text.String())
			}
		}
	})
}

func TestReloadClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := reloadDefaults(func(o *reloadOptions) { o.changed, o.clients, o.format = []string{"1"}, []int{100, 200}, "json" })
		r := simulateReload(t, o, nil)
		for _, p := range r.Phases {
			// 15 s each rising to 100, at 100, rising to 200, at 200.
			if p.Sent < 7400 || p.Sent > 7700 || p.OK != uint64(p.Sent) || p.Refresh && *p.Refreshes.Compiled != 4 {
				t.Errorf("%s: %d sent, %d answered, %+v", p.name(), p.Sent, p.OK, p.Refreshes)
			}
		}
		var text bytes.Buffer
		if err := r.write(&text, o.format); err != nil {
			t.Fatal(err)
		}
		var back ReloadReport
		if err := json.Unmarshal(text.Bytes(), &back); err != nil || len(back.Phases) != 2 || !slices.Equal(back.Settings.Clients, []int{100, 200}) {
			t.Errorf("JSON does not read back: %v", err)
		}
	})
}

func reloadSmall(change func(*reloadOptions)) *reloadOptions {
	return reloadDefaults(func(o *reloadOptions) {
		o.products, o.rps, o.refresh, o.changed = 20, 50, time.Second, []string{"3"}
		o.phase, o.settle = 3500*time.Millisecond, 0
		o.portalAddr, o.backendAddr, o.originAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		change(o)
	})
}

// TestReloadStarts: gateways that are processes, over sockets.
func TestReloadStarts(t *testing.T) {
	t.Parallel()
	o := reloadSmall(func(o *reloadOptions) { o.format = "json" })
	var text bytes.Buffer
	if err := runReload(t.Context(), o, &text, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r ReloadReport
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Phases {
		f := p.Refreshes
		if p.Sent != 175 || p.OK != 175 || p.Before.OK != 20 || p.After.OK != 20 || (f.Count > 0) != p.Refresh || (*f.Compiled > 0) != p.Refresh {
			t.Errorf("%s: %+v", p.name(), p)
		}
	}
}

// TestReloadAttaches: one gateway that was there before, whose refreshes the portal
// refuses in idle phases.
func TestReloadAttaches(t *testing.T) {
	t.Parallel()
	free, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	portal := fmt.Sprintf("127.0.0.1:%d", free[0])
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	f := &fakeReader{portal: "http://" + tenant.PortalToken + "@" + portal, client: client, refresh: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		for f.run(ctx) != nil && sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
		}
		f.follow(ctx)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer serveHTTP(ln, f)()
	o := reloadSmall(func(o *reloadOptions) {
		o.portalAddr, o.attach, o.control, o.pid = portal, "http://"+ln.Addr().String(), "http://"+ln.Addr().String(), os.Getpid()
	})
	r, err := measureReload(t.Context(), o, newProgress(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Phases {
		rf := p.Refreshes
		if p.OK != 175 || p.After.OK != 20 || p.Usage == nil || (rf.Count > 0) != p.Refresh || (rf.Refused > 0) == p.Refresh || (*rf.Compiled > 0) != p.Refresh {
			t.Errorf("%s: %+v", p.name(), p)
		}
	}
	if !r.Settings.Attached {
		t.Error("not attached")
	}
}

func TestReloadRefuses(t *testing.T) {
	for _, tc := range []struct {
		change func(*reloadOptions)
		want   string
	}{
		{func(o *reloadOptions) { o.format = "xml" }, "want table or json"},
		{func(o *reloadOptions) { o.rps = 0 }, "must be positive"},
		{func(o *reloadOptions) { o.pairs = 0 }, "--pairs and --phase must be positive"},
		{func(o *reloadOptions) { o.refresh = 1500 * time.Millisecond }, "want whole seconds"},
		{func(o *reloadOptions) { o.phase = 10 * time.Second }, "too short to see a refresh every 15s"},
		{func(o *reloadOptions) { o.clients = []int{0} }, "--clients 0"},
		{func(o *reloadOptions) { o.changed = []string{"601"} }, "--changed 601: want a number of products, at most 600"},
		{func(o *reloadOptions) { o.changed = []string{"x%"} }, "--changed x%"},
		{func(o *reloadOptions) { o.changed = nil }, "at least one"},
		{func(o *reloadOptions) { o.attach = "nowhere" }, "want http://host:port"},
		{func(o *reloadOptions) { o.portalAddr = "256.0.0.1:1" }, "--portal-listen 256.0.0.1:1"},
		{func(o *reloadOptions) { o.weir = "/nonexistent" }, "no such file"},
		{func(o *reloadOptions) { o.weir = "/bin/false" }, "last output of /bin/false"},
	} {
		o := reloadDefaults(tc.change)
		if err := runReload(t.Context(), o, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}

package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// simulate runs the experiment against a fake gateway in virtual time.
func simulate(t *testing.T, f *fakeGateway, o *churnOptions) *Report {
	t.Helper()
	data, adminLn := newPipeListener(), newPipeListener()
	var wg sync.WaitGroup
	servers := []*http.Server{{Handler: http.HandlerFunc(f.data)}, {Handler: http.HandlerFunc(f.adminAPI)}}
	for i, ln := range []*pipeListener{data, adminLn} {
		wg.Go(func() { _ = servers[i].Serve(ln) })
	}
	admin := newAdminClient("http://admin.test", "secret")
	admin.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return adminLn.dial(ctx)
	}
	defer wg.Wait()
	defer func() {
		admin.http.CloseIdleConnections()
		for _, s := range servers {
			_ = s.Close()
		}
		f.late.Wait()
	}()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	pops, err := o.populations()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	e := &experiment{
		opts: o, pops: pops, phases: phases(o), progress: newProgress(io.Discard),
		origin:  origin{addr: "127.0.0.1:1", seed: o.seed},
		subject: &subject{name: "fake", dial: data.dial, admin: admin, store: f, keys: f, other: f.beside(), usage: func() (usage, error) { return usage{cpu: time.Since(began) / 4, rss: 64 << 20}, nil }},
		wait:    func(at time.Time) { time.Sleep(time.Until(at)) },
	}
	report, err := e.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func options(change func(*churnOptions)) *churnOptions {
	o := &churnOptions{
		consumers: 100, rps: 200, keys: 30, conns: 16, creates: 50, deletes: 10, concurrency: 10,
		duration: 20 * time.Second, baseline: 3 * time.Second, cooldown: 2 * time.Second, phase: 5 * time.Second,
		timeout: 5 * time.Second, ready: time.Minute, startRuns: 1, format: "table", seed: 1,
	}
	change(o)
	return o
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.3f, want %.3f within %g %%", what, got, want, share*100)
	}
}

func TestChurnOnAHealthyGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGateway()
		f.dataDelay = func(time.Duration) time.Duration { return 2 * time.Millisecond }
		f.adminDelay = 7 * time.Millisecond
		r := simulate(t, f, options(func(*churnOptions) {}))
		for i, want := range []struct {
			name string
			sent int
		}{{"baseline", 600}, {"churn", 4000}, {"cooldown", 400}} {
			p := r.Phases[i]
			if p.Name != want.name || p.Sent != want.sent || p.OK != uint64(want.sent) || p.Other+p.Timeouts+p.Errors != 0 {
				t.Errorf("%+v, want %+v", p, want)
			}
			near(t, p.Name+" p99", p.Latency.P99, 2, .01)
			near(t, p.Name+" stall", p.StallMS, 2, .01)
			near(t, p.Name+" CPU", p.Usage.CPUPercent, 25, .01)
			if p.Usage.RSSMiB != 64 || p.Usage.PeakMiB != 64 || (p.Creates != nil) != (i == 1) {
				t.Errorf("%s: usage %+v, creates %+v", p.Name, p.Usage, p.Creates)
			}
		}
		c, d := r.Phases[1].Creates, r.Phases[1].Deletes
		if c.Called != 50 || c.Acked != 50 || c.FirstRight != 50 || c.Wrong+c.Never != 0 {
			t.Errorf("creates %+v", c)
		}
		if d.Called != 10 || d.Acked != 10 || d.FirstRight != 10 || d.Wrong+d.Never != 0 {
			t.Errorf("deletes %+v", d)
		}
		near(t, "Admin API", c.API.P50, 7, .01)
		near(t, "right after", c.Until.Max, 2, .01)
		if len(f.keys) != 100+50-10 {
			t.Errorf("%d consumers left", len(f.keys))
		}
	})
}

// TestChurnDirect: idle phases have as many writes and requests as the others.
func TestChurnDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGateway()
		f.dataDelay = func(time.Duration) time.Duration { return 2 * time.Millisecond }
		r := simulate(t, f, options(func(o *churnOptions) { o.pairs, o.direct = 2, true }))
		if f.writes != 0 || f.apart != 50+10 || len(f.keys) != 100+50-10 {
			t.Errorf("%d writes through the Admin API, %d beside, %d consumers left", f.writes, f.apart, len(f.keys))
		}
		for i, p := range r.Phases {
			if churn := i%2 == 1; (p.Creates != nil) != churn || churn && (p.Creates.FirstRight != 25 || p.Deletes.FirstRight != 5) {
				t.Errorf("%s: %+v, %+v", p.Name, p.Creates, p.Deletes)
			}
		}
		near(t, "right after", r.Phases[1].Creates.Until.P50, 7, .01)
	})
}

func TestChurnFindsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGateway()
		// 1 s of settling and 3 s of baseline come first; no write falls into
		// the stall, whose probe would be delayed by it.
		const stallAt, stall = 14250 * time.Millisecond, 300 * time.Millisecond
		f.dataDelay = func(since time.Duration) time.Duration {
			if since >= stallAt && since < stallAt+stall {
				return stallAt + stall - since
			}
			return 0
		}
		f.adminFails = func(n int) bool { return n%20 == 3 } // 3, 23, 43 of 60
		f.lag = func(n int) time.Duration {
			if n%20 == 7 { // 7, 27, 47
				return 50 * time.Millisecond
			}
			if n == 30 {
				return time.Minute
			}
			return 0
		}
		r := simulate(t, f, options(func(*churnOptions) {}))
		p := r.Phases[1]
		near(t, "stall", p.StallMS, 300, .05)
		near(t, "max", p.Latency.Max, 300, .05)
		if p.Timeouts+p.Errors+p.Other != 0 {
			t.Errorf("%d timeouts, %d errors, %d other", p.Timeouts, p.Errors, p.Other)
		}
		called, acked := p.Creates.Called+p.Deletes.Called, p.Creates.Acked+p.Deletes.Acked
		first, never := p.Creates.FirstRight+p.Deletes.FirstRight, p.Creates.Never+p.Deletes.Never
		if called != 60 || acked != 57 || first != 53 || never != 1 {
			t.Errorf("called %d, acked %d, right at first %d, never %d; want 60, 57, 53, 1", called, acked, first, never)
		}
		if p.Creates.Wrong < 3 {
			t.Errorf("%d wrong answers", p.Creates.Wrong)
		}
		// Asked again at most 20 ms apart.
		if until := max(p.Creates.Until.Max, p.Deletes.Until.Max); until < 50 || until > 75 {
			t.Errorf("right after %.1f ms, want 50 to 75", until)
		}
		failure := p.Creates.Failure + p.Deletes.Failure
		if !strings.Contains(failure, "503") || !strings.Contains(failure, "no quorum") {
			t.Errorf("failure %q", failure)
		}
	})
}

func TestChurnCountsTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGateway()
		f.dataDelay = func(since time.Duration) time.Duration {
			if since >= 10*time.Second && since < 16*time.Second {
				return 16*time.Second - since
			}
			return 0
		}
		r := simulate(t, f, options(func(*churnOptions) {}))
		p := r.Phases[1]
		if p.Timeouts < 195 || p.Timeouts > 205 {
			t.Errorf("%d timeouts, want those due in the first of 6 seconds of silence: 200", p.Timeouts)
		}
		near(t, "stall", p.StallMS, 6000, .05)
	})
}

func TestPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGateway()
		f.dataDelay = func(since time.Duration) time.Duration {
			switch {
			case since < time.Second: // before the load, which starts on the second
				return 0
			case (since-time.Second)/(5*time.Second)%2 == 1:
				return 3 * time.Millisecond
			}
			return 2 * time.Millisecond
		}
		r := simulate(t, f, options(func(o *churnOptions) { o.pairs = 3; o.creates, o.deletes = 30, 12 }))
		if len(r.Phases) != 6 || r.Phases[1].Name != "churn 1" || len(r.Pairs.Ratios) != 3 {
			t.Fatalf("%d phases, ratios %v", len(r.Phases), r.Pairs.Ratios)
		}
		near(t, "median ratio", r.Pairs.MedianRatio, 1.5, .02)
		near(t, "idle p99", r.Pairs.Idle.P99, 2, .01)
		near(t, "churn p99", r.Pairs.Churn.P99, 3, .01)
		for _, p := range r.Phases {
			churn := strings.HasPrefix(p.Name, "churn")
			if churn != (p.Creates != nil) || churn && (p.Creates.Acked != 10 || p.Deletes.Acked != 4) {
				t.Errorf("%s: creates %+v deletes %+v", p.Name, p.Creates, p.Deletes)
			}
		}
	})
}

func TestEveryKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeGateway()
		r := simulate(t, f, options(func(o *churnOptions) {
			o.consumerSet = true
			o.routes, o.services, o.upstreams = 60, 60, 60
		}))
		c, d := r.Phases[1].Creates, r.Phases[1].Deletes
		if c.Acked != 50 || c.FirstRight != 50 || d.Acked != 10 || d.FirstRight != 10 || r.Phases[1].OK != 4000 {
			t.Errorf("creates %+v, deletes %+v, 2xx %d", c, d, r.Phases[1].OK)
		}
		if r.Bulk.Objects != 280 {
			t.Errorf("%d objects", r.Bulk.Objects)
		}
		// 13 creates and 3 deletes each of consumers and routes, 12 and 2 of the others.
		want := map[string]int{"consumers": 110, "services": 70, "upstreams": 70, "routes": 1 + 70 + 70 + 70}
		for dir, n := range want {
			got := 0
			for key := range f.docs {
				if strings.HasPrefix(key, dir+"/") {
					got++
				}
			}
			if got != n {
				t.Errorf("%d %s, want %d", got, dir, n)
			}
		}
	})
}

func TestFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simulate(t, newFakeGateway(), options(func(o *churnOptions) { o.pairs = 1 }))
		r.Start = &StartReport{Seconds: []float64{1, 3, 2}, Median: 2}
		var out bytes.Buffer
		if err := r.write(&out, "csv"); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil || len(rows) != 1+2+3 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		if err := r.write(&out, "json"); err != nil {
			t.Fatal(err)
		}
		var back Report
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Phases[1].Creates.Acked != 50 || back.Pairs == nil {
			t.Errorf("JSON does not read back: %v", err)
		}
		out.Reset()
		if err := r.write(&out, "table"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"idle 1", "churn 1, creates", "50/50", "median 2.000 s of 3 runs (1.000, 3.000, 2.000)", "p99 churn / p99 idle"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	})
}

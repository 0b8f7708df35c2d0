package meter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// text exposes everything and checks it with Prometheus' own parser, which
// takes no metric or series twice.
func text(t testing.TB, r *Registry) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Expose(&b, "apisix_"); err != nil {
		t.Fatal(err)
	}
	families(t, b.Bytes())
	return b.String()
}

func families(t testing.TB, doc []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	f, err := p.TextToMetricFamilies(bytes.NewReader(doc))
	if err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(string(doc), "\n") {
		if line == "" {
			continue
		}
		name := line
		if !strings.HasPrefix(line, "#") {
			name = line[:strings.LastIndexByte(line, ' ')]
		}
		if seen[name] {
			t.Fatalf("%s is there twice", name)
		}
		seen[name] = true
	}
	return f
}

func TestExpose(t *testing.T) {
	r := New(0)
	c := r.Vec(Desc{Name: "http_status", Help: "Codes, by \\ and\nmore", Labels: []string{"code", "route"}})
	h := r.Vec(Desc{Name: "latency", Help: "Latency", Kind: Histogram, Labels: []string{"type"}, Buckets: []float64{1, 2.5, 500}, Unit: 1000})
	bare := r.Vec(Desc{Name: "bare", Help: "No labels", Kind: Gauge})
	r.Vec(Desc{Name: "empty", Help: "Nothing counted"})
	r.Func(Desc{Name: "node_info", Help: "Node", Kind: Gauge, Labels: []string{"hostname"}}, func(emit func(float64, ...string)) {
		emit(1, "h")
		emit(2, "h")
		emit(0.25, "i")
	})
	s, _ := c.With(nil, "200", "a\"b\\c\nd\xff")
	s.Add(3)
	l, _ := h.With(nil, "request")
	for _, n := range []int64{0, 1000, 1001, 2500, 499_999, 500_001} {
		l.Observe(n)
	}
	g, _ := bare.With(nil)
	g.Set(-7)
	want := `# HELP apisix_http_status Codes, by \\ and\nmore
# TYPE apisix_http_status counter
apisix_http_status{code="200",route="a\"b\\c\nd` + "\uFFFD" + `"} 3
# HELP apisix_latency Latency
# TYPE apisix_latency histogram
apisix_latency_bucket{type="request",le="1"} 2
apisix_latency_bucket{type="request",le="2.5"} 4
apisix_latency_bucket{type="request",le="500"} 5
apisix_latency_bucket{type="request",le="+Inf"} 6
apisix_latency_sum{type="request"} 1004.501
apisix_latency_count{type="request"} 6
# HELP apisix_bare No labels
# TYPE apisix_bare gauge
apisix_bare -7
# HELP apisix_node_info Node
# TYPE apisix_node_info gauge
apisix_node_info{hostname="h"} 1
apisix_node_info{hostname="i"} 0.25
`
	if got := text(t, r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExposeFails(t *testing.T) {
	r := New(0)
	s, _ := r.Vec(Desc{Name: "n", Help: "n"}).With(nil)
	s.Add(1)
	bad := errors.New("no")
	if err := r.Expose(writer(func([]byte) (int, error) { return 0, bad }), ""); !errors.Is(err, bad) {
		t.Error(err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestSameSeries(t *testing.T) {
	r := New(0)
	v := r.Vec(Desc{Name: "n", Help: "n", Labels: []string{"a", "b"}})
	if r.Vec(Desc{Name: "n"}) != v {
		t.Error("a second metric of one name")
	}
	a, _ := v.With(nil, "1", "2")
	b, _ := v.With(nil, "1", "2")
	c, _ := v.With(nil, "2", "1")
	if a != b || a == c || r.Series() != 2 {
		t.Errorf("%p %p %p, %d series", a, b, c, r.Series())
	}
}

func TestLimit(t *testing.T) {
	r := New(2)
	v := r.Vec(Desc{Name: "n", Help: "n", Labels: []string{"a"}})
	for i := range 5 {
		if _, ok := v.With(nil, fmt.Sprint(i)); ok != (i < 2) {
			t.Errorf("series %d: %v", i, ok)
		}
	}
	if _, ok := v.With(nil, "1"); !ok {
		t.Error("a full registry refuses a series that it has")
	}
	if r.Series() != 2 || r.Refused() != 3 {
		t.Errorf("%d series, %d refused", r.Series(), r.Refused())
	}
	r.SetLimit(3)
	if _, ok := v.With(nil, "5"); !ok {
		t.Error("the limit was not raised")
	}
}

func TestUse(t *testing.T) {
	r := New(0)
	v := r.Vec(Desc{Name: "n", Help: "n", Kind: Gauge, Labels: []string{"a"}})
	a, _ := v.Use("1")
	b, _ := v.Use("1")
	other, _ := v.Use("2")
	a.Add(1)
	r.Sweep(time.Now().Add(24 * time.Hour))
	r.Sweep(time.Now().Add(48 * time.Hour))
	v.Drop(a)
	if a != b || r.Series() != 2 || !strings.Contains(text(t, r), `apisix_n{a="1"} 1`) {
		t.Error("a series went while somebody used it")
	}
	v.Drop(b)
	v.Drop(other)
	if r.Series() != 0 || text(t, r) != "" {
		t.Errorf("%d series left", r.Series())
	}
}

type owner struct{ gone atomic.Bool }

func (o *owner) Gone() bool { return o.gone.Load() }

func TestSweepOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(0)
		v := r.Vec(Desc{Name: "n", Help: "n", Labels: []string{"a"}})
		var o owner
		s, _ := v.With(&o, "1")
		kept, _ := v.With(nil, "2")
		step := func(d time.Duration) { time.Sleep(d); r.Sweep(time.Now()) }
		step(24 * time.Hour)
		o.gone.Store(true)
		step(time.Second) // seen to be gone
		step(goneFor / 2)
		if s.Doomed() {
			t.Fatal("dropped before its last values could be scraped")
		}
		o.gone.Store(false)
		step(goneFor)
		o.gone.Store(true)
		step(time.Second)
		step(goneFor)
		if !s.Doomed() || kept.Doomed() || r.Series() != 2 {
			t.Fatal("not doomed, or gone at once")
		}
		if strings.Contains(text(t, r), `a="1"`) {
			t.Error("a doomed series is shown")
		}
		s.Add(1)
		if !strings.Contains(text(t, r), `a="1"`) {
			t.Error("a series that is counted again is not shown")
		}
		again, _ := v.With(&o, "1")
		step(time.Second)
		if again != s || s.Doomed() {
			t.Fatal("asked for again and yet doomed")
		}
		step(goneFor)
		step(time.Second)
		if r.Series() != 1 {
			t.Fatalf("%d series", r.Series())
		}
		if fresh, _ := v.With(nil, "1"); fresh == s || fresh.Value() != 0 {
			t.Error("a dropped series came back")
		}
		text(t, r)
	})
}

func TestSweepExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(10)
		v := r.Vec(Desc{Name: "n", Help: "n", Kind: Histogram, Labels: []string{"a"}, Buckets: []float64{1}, Expire: time.Minute})
		forever := r.Vec(Desc{Name: "m", Help: "m", Labels: []string{"a"}})
		busy, _ := v.With(nil, "busy")
		v.With(nil, "idle")
		forever.With(nil, "x")
		for range 10 {
			busy.Observe(5)
			time.Sleep(20 * time.Second)
			r.Sweep(time.Now())
		}
		if r.Series() != 2 || busy.Doomed() {
			t.Errorf("%d series, busy doomed: %v", r.Series(), busy.Doomed())
		}
		for i := range 8 {
			forever.With(nil, fmt.Sprint(i))
		}
		time.Sleep(idleFor)
		r.Sweep(time.Now())
		time.Sleep(time.Second)
		r.Sweep(time.Now())
		if r.Series() != 0 {
			t.Errorf("full, and %d idle series stay", r.Series())
		}
	})
}

// TestConcurrent scrapes and sweeps while series come, count and go.
func TestConcurrent(t *testing.T) {
	r := New(0)
	v := r.Vec(Desc{Name: "n", Help: "n", Labels: []string{"a"}})
	h := r.Vec(Desc{Name: "h", Help: "h", Kind: Histogram, Labels: []string{"a"}, Buckets: []float64{1, 2}})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, _ := v.Use(fmt.Sprint(i % 50))
				a.Add(1)
				s, _ := h.With(nil, fmt.Sprint(w, i%20))
				s.Observe(int64(i % 4))
				v.Drop(a)
			}
		})
	}
	for range 50 {
		text(t, r)
		r.Sweep(time.Now().Add(time.Hour))
	}
	stop.Store(true)
	wg.Wait()
	if got := families(t, []byte(text(t, r)))["apisix_n"]; got != nil {
		t.Errorf("series without users: %v", got)
	}
}

func TestTable(t *testing.T) {
	type key struct {
		a string
		n int
	}
	table := NewTable[key, int]()
	for i := range 5000 {
		k := key{fmt.Sprint(i), i}
		if got := table.Put(k, i); got != i {
			t.Fatal(got)
		}
		if got := table.Put(k, -1); got != i {
			t.Fatalf("the second value of %v counts", k)
		}
	}
	table.Delete(func(_ key, n int) bool { return n%3 == 0 })
	for i := range 5000 {
		n, ok := table.Get(key{fmt.Sprint(i), i})
		if ok != (i%3 != 0) || ok && n != i {
			t.Fatalf("%d: %d %v", i, n, ok)
		}
	}
	if n := table.Len(); n != 3333 {
		t.Error(n)
	}
	k := key{"17", 17}
	if n := testing.AllocsPerRun(100, func() { table.Get(k) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTableConcurrent(t *testing.T) {
	table := NewTable[int, int]()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				table.Put(i*4+w, i)
				if n, ok := table.Get(i*4 + w); !ok || n != i {
					t.Errorf("%d: %d %v", i*4+w, n, ok)
				}
				if i%500 == 0 {
					table.Delete(func(k, _ int) bool { return k < 0 })
				}
			}
		})
	}
	wg.Wait()
	if n := table.Len(); n != 12_000 {
		t.Error(n)
	}
}

func TestNoAllocation(t *testing.T) {
	r := New(0)
	c, _ := r.Vec(Desc{Name: "c", Help: "c"}).With(nil)
	h, _ := r.Vec(Desc{Name: "h", Help: "h", Kind: Histogram, Buckets: []float64{1, 2}}).With(nil)
	if n := testing.AllocsPerRun(100, func() { c.Add(1); h.Observe(3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var latencyBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000}

// loaded is a registry of as many label sets as make about 500,000 lines.
func loaded(b *testing.B) *Registry {
	r := New(0)
	names := []string{"type", "route", "service", "consumer", "node", "request_type", "request_llm_model", "llm_model"}
	h := r.Vec(Desc{Name: "http_latency", Help: "Latency", Kind: Histogram, Labels: names, Buckets: latencyBuckets, Unit: 1e6})
	c := r.Vec(Desc{Name: "bandwidth", Help: "Bandwidth", Labels: names})
	for i := range 8_900 {
		for _, kind := range []string{"request", "upstream", "apisix"} {
			s, ok := h.With(nil, kind, fmt.Sprint("route-", i), "", "", "10.0.0.1", "traditional_http", "", "")
			if !ok {
				b.Fatal("full")
			}
			s.Observe(int64(i) * 1e6)
		}
		s, _ := c.With(nil, "egress", fmt.Sprint("route-", i), "", "", "10.0.0.1", "traditional_http", "", "")
		s.Add(int64(i))
	}
	return r
}

func BenchmarkExpose500k(b *testing.B) {
	r := loaded(b)
	var size countingWriter
	b.ReportAllocs()
	for b.Loop() {
		size = 0
		if err := r.Expose(&size, "apisix_"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/1e6, "MB")
}

type countingWriter int64

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}

// BenchmarkSweep500k is what runs every few seconds beside the requests.
func BenchmarkSweep500k(b *testing.B) {
	r := loaded(b)
	for b.Loop() {
		r.Sweep(time.Now())
	}
}

// BenchmarkClient500k is the same exposition by Prometheus' client.
func BenchmarkClient500k(b *testing.B) {
	names := []string{"type", "route", "service", "consumer", "node", "request_type", "request_llm_model", "llm_model"}
	gather := clientRegistry(names)
	b.ReportAllocs()
	for b.Loop() {
		fams, err := gather()
		if err != nil {
			b.Fatal(err)
		}
		enc := expfmt.NewEncoder(io.Discard, expfmt.NewFormat(expfmt.TypeTextPlain))
		for _, f := range fams {
			if err := enc.Encode(f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	s, _ := New(0).Vec(Desc{Name: "h", Help: "h", Kind: Histogram, Buckets: latencyBuckets, Unit: 1e6}).With(nil)
	for b.Loop() {
		s.Observe(3e6)
	}
}

func BenchmarkTable(b *testing.B) {
	type key struct {
		route, service, consumer, node, path, host string
		code                                       int
	}
	t := NewTable[key, int]()
	for i := range 10_000 {
		t.Put(key{route: fmt.Sprint(i), service: "s", consumer: "c", host: "h", node: "127.0.0.1", path: "/some/path/*", code: 200}, i)
	}
	k := key{route: "1234", service: "s", consumer: "c", host: "h", node: "127.0.0.1", path: "/some/path/*", code: 200}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := t.Get(k); !ok {
			b.Fatal("lost")
		}
	}
}

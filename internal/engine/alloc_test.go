//go:build !race

package engine

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"weir/internal/plugins/prometheus"
)

// keyAuthRequest is what a plain client sends.
const keyAuthRequest = "GET /small?x=1 HTTP/1.1\r\nHost: api1.example.com\r\napikey: 0123456789abcdef\r\n" +
	"User-Agent: test/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n"

// proxyOnce returns a function that sends one request through key-auth and
// reads the answer, without allocating itself.
func proxyOnce(t testing.TB) func() { return proxyWith(t) }

// proxyWith is proxyOnce with more objects, given as path and JSON, and more
// plugins that they need.
func proxyWith(t testing.TB, objects ...string) func() {
	up := fixed(t, smallAnswer)
	g := startWith(t, byDefault, prometheus.Plugin)
	g.put(append(objects,
		"routes/1", fmt.Sprintf(`{"uri":"/small","host":"api1.example.com","plugins":{"key-auth":{}},"upstream":{"nodes":{%q:1}}}`, up.addr),
		"consumers/jack", fmt.Sprintf(`{"username":"jack","plugins":{"key-auth":{"key":%q}}}`, corpusKey),
	)...)
	c := g.dial()
	out := []byte(keyAuthRequest)
	in := make([]byte, 4096)
	return func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(in)
		if err != nil || string(in[:12]) != "HTTP/1.1 200" {
			t.Fatalf("%q %v", in[:n], err)
		}
	}
}

// TestAllocations: a proxied request through key-auth on a kept connection
// allocates nothing at all.
func TestAllocations(t *testing.T) {
	once := proxyOnce(t)
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(2000, once); n != 0 {
		t.Errorf("%v allocations per request, want 0", n)
	}
}

// countRule is a global rule that counts every request.
var countRule = []string{"global_rules/1", `{"plugins":{"prometheus":{}}}`}

// TestAllocationsCounted: nor does counting it.
func TestAllocationsCounted(t *testing.T) {
	once := proxyWith(t, countRule...)
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(2000, once); n != 0 {
		t.Errorf("%v allocations per request, want 0", n)
	}
}

func BenchmarkProxy(b *testing.B) { benchmark(b, proxyOnce(b)) }

// BenchmarkProxyCounted is BenchmarkProxy with prometheus as a global rule, which
// may cost a twentieth more.
func BenchmarkProxyCounted(b *testing.B) { benchmark(b, proxyWith(b, countRule...)) }

// benchmark reports the time of the processors, too: those of client, gateway and
// origin together.
func benchmark(b *testing.B, once func()) {
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		once()
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestAllocationsOfMany is field cases 10 and 11: what consumers and routes add up to is
// not made anew for requests, however many pairs of them there are: a request of any of
// 5,000 consumers with a limit of its own, through any of 1,000 routes, allocates what
// one of few does.
func TestAllocationsOfMany(t *testing.T) {
	few := testing.AllocsPerRun(2000, population(t, 100, 10))
	if many := testing.AllocsPerRun(5000, population(t, 5000, 1000)); many > few {
		t.Errorf("%v allocations per request of many, %v of few", many, few)
	}
}

//go:build !race

package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugins"
	"weir/internal/router"
)

// Benchmarks of what plugins cost. `make bench-plugins` runs them in turns and
// compares them by the last part of their names. cpu-ns/op is the time of client,
// gateway and origin together; BenchmarkDirect is that of the client and the
// origin alone.

// BenchmarkDirect is a request without a gateway.
func BenchmarkDirect(b *testing.B) {
	up := fixed(b, smallAnswer)
	g := &gateway{t: b, addr: up.addr}
	benchmark(b, g.asking(keyAuthRequest))
}

// BenchmarkCompiledIn is the chain with all plugins of the build and with those
// in use.
func BenchmarkCompiledIn(b *testing.B) {
	for _, c := range []struct {
		name string
		all  []plugin.Spec
	}{{"used", inUse}, {"all", plugins.All()}} {
		b.Run("plugins="+c.name, func(b *testing.B) {
			_, once := chain.run(b, c.all)
			benchmark(b, once)
		})
	}
}

// BenchmarkGlobalRule is key-auth with and without prometheus as a global rule.
func BenchmarkGlobalRule(b *testing.B) {
	for _, c := range []struct{ name, global string }{{"off", ""}, {"prometheus", countStatus}} {
		b.Run("rule="+c.name, func(b *testing.B) {
			_, once := setting{route: keyAuth, global: c.global}.run(b, plugins.All())
			benchmark(b, once)
		})
	}
}

// BenchmarkDisabled is a route without plugins and one whose observers are all
// disabled.
func BenchmarkDisabled(b *testing.B) {
	for _, c := range []struct{ name, plugins string }{{"none", ""}, {"disabled", disabled}} {
		b.Run("observers="+c.name, func(b *testing.B) {
			_, once := setting{route: c.plugins, global: c.plugins}.run(b, plugins.All())
			benchmark(b, once)
		})
	}
}

// BenchmarkChain is what plugins cost that an API ordinarily has.
func BenchmarkChain(b *testing.B) {
	for _, c := range []struct{ name, route string }{{"none", ""}, {"four", chain.route}} {
		b.Run("chain="+c.name, func(b *testing.B) {
			_, once := setting{route: c.route}.run(b, plugins.All())
			benchmark(b, once)
		})
	}
}

// BenchmarkPopulation is a request of one of many consumers, each with a
// limit-count of its own, through one of many routes with key-auth, both drawn at
// random anew for every request.
func BenchmarkPopulation(b *testing.B) {
	for _, c := range []struct{ consumers, routes int }{{100, 10}, {10_000, 10}, {100, 1_000}, {10_000, 1_000}} {
		b.Run(fmt.Sprintf("size=%dx%d", c.consumers, c.routes), func(b *testing.B) {
			benchmark(b, population(b, c.consumers, c.routes))
		})
	}
}

func population(b testing.TB, consumers, routes int) func() {
	up := fixed(b, smallAnswer)
	g := startPlugins(b, router.HostURI, byDefault, plugins.All())
	var objects []string
	for i := range routes {
		objects = append(objects, fmt.Sprintf("routes/r%d", i),
			fmt.Sprintf(`{"uri":"/r/%06d","plugins":{"key-auth":{}},"upstream":{"nodes":{%q:1}}}`, i, up.addr))
	}
	for i := range consumers {
		objects = append(objects, fmt.Sprintf("consumers/c%d", i),
			fmt.Sprintf(`{"username":"c%d","plugins":{"key-auth":{"key":"%016d"},%s}}`, i, i, limitCount))
	}
	g.put(objects...)
	c := g.dial()
	in := make([]byte, 4096)
	out := []byte("GET /r/000000 HTTP/1.1\r\nHost: api1.example.com\r\napikey: 0000000000000000\r\nUser-Agent: test/1.0\r\nAccept: */*\r\n\r\n")
	digits := func(at []byte, n int) {
		for i := len(at) - 1; i >= 0; i-- {
			at[i] = byte('0' + n%10)
			n /= 10
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	once := func(consumer, route int) {
		digits(out[len("GET /r/"):][:6], route)
		digits(out[len("GET /r/000000 HTTP/1.1\r\nHost: api1.example.com\r\napikey: "):][:16], consumer)
		if _, err := c.Write(out); err != nil {
			b.Fatal(err)
		}
		n, err := c.Read(in)
		if err != nil || string(in[:12]) != "HTTP/1.1 200" {
			b.Fatalf("%q %v", in[:n], err)
		}
	}
	// What a request is the first to need is made before the clock runs.
	for i := range max(consumers, routes) {
		once(i%consumers, i%routes)
	}
	runtime.GC() // what making it all has left behind is not the requests'
	return func() { once(rng.IntN(consumers), rng.IntN(routes)) }
}

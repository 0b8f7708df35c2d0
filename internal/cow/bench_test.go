package cow

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

var sizes = []int{1000, 50_000, 1_000_000}

func randomKeys(n int) []string {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%027x", r.Uint64())
	}
	return keys
}

func build(keys []string) Map[*int] {
	var m Map[*int]
	e := m.Edit()
	v := new(int)
	for _, k := range keys {
		e.Set(k, v)
	}
	return e.Map()
}

func BenchmarkGet(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := randomKeys(n)
			m := build(keys)
			asked := make([]string, n)
			for i, j := range rand.Perm(n) {
				asked[i] = strings.Clone(keys[j])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := m.Get(asked[i%n]); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}

func BenchmarkGetPlainMap(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := randomKeys(n)
			m := make(map[string]*int)
			for _, k := range keys {
				m[k] = nil
			}
			asked := make([]string, n)
			for i, j := range rand.Perm(n) {
				asked[i] = strings.Clone(keys[j])
			}
			for i := 0; b.Loop(); i++ {
				if _, ok := m[asked[i%n]]; !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}

func BenchmarkReplaceOne(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := randomKeys(n)
			m := build(keys)
			v := new(int)
			b.ReportAllocs()
			for b.Loop() {
				e := m.Edit()
				e.Set(keys[rand.IntN(n)], v)
				m = e.Map()
			}
		})
	}
}

func BenchmarkInsertAndDeleteOne(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := build(randomKeys(n))
			v := new(int)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := fmt.Sprint(i)
				e := m.Edit()
				e.Set(k, v)
				m = e.Map()
				e = m.Edit()
				e.Del(k)
				m = e.Map()
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range sizes {
		keys := randomKeys(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m := build(keys)
				b.ReportMetric(float64(m.Len()), "entries")
			}
		})
		b.Run(fmt.Sprint("plain map ", n), func(b *testing.B) {
			for b.Loop() {
				m := make(map[string]*int)
				for _, k := range keys {
					m[k] = nil
				}
			}
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				keys := randomKeys(n)
				before, fast := collect()
				m := build(keys)
				after, slow := collect()
				b.ReportMetric(float64(after-before)/float64(n), "B/entry")
				b.ReportMetric(float64((slow - fast).Microseconds()), "gc-us/cycle")
				runtime.KeepAlive(m)
				runtime.KeepAlive(keys)
			}
		})
	}
}

// collect returns the live heap and the shortest of five garbage collections.
func collect() (live uint64, shortest time.Duration) {
	shortest = time.Hour
	for range 5 {
		start := time.Now()
		runtime.GC()
		shortest = min(shortest, time.Since(start))
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc, shortest
}

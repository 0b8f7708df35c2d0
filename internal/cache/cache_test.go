package cache

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A clock that is set by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func newClock() *clock {
	c := new(clock)
	c.at.Store(int64(time.Hour))
	return c
}

func key(i int) []byte { return strconv.AppendInt(nil, int64(i), 10) }

func TestEntries(t *testing.T) {
	now := newClock()
	c := New[int](1<<20, now.now)
	want := map[string]int{}
	for i := range 3000 {
		c.Put(key(i), i, 0, 0)
		want[string(key(i))] = i
	}
	for i := 0; i < 3000; i += 3 {
		c.Delete(key(i))
		delete(want, string(key(i)))
	}
	for i := 1; i < 3000; i += 3 {
		c.Put(key(i), -i, 0, 0)
		want[string(key(i))] = -i
	}
	if v, fresh := c.Add(key(1), 7, 0, 0); v != -1 || fresh {
		t.Errorf("an entry was replaced: %d %v", v, fresh)
	}
	if v, fresh := c.Add(key(0), 7, 0, 0); v != 7 || !fresh {
		t.Errorf("%d %v", v, fresh)
	}
	want["0"] = 7
	for i := range 3100 {
		got, ok := c.Get(key(i))
		if v, is := want[string(key(i))]; got != v || ok != is {
			t.Fatalf("%d: %d %v, want %d %v", i, got, ok, v, is)
		}
	}
	if n := c.Len(); n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
	c.Delete([]byte("none"))
}

func TestExpiry(t *testing.T) {
	now := newClock()
	c := New[int](1<<20, now.now)
	c.Put(key(1), 1, 0, time.Second)
	c.Put(key(2), 2, 0, 0)
	if now.advance(time.Second - 1); !has(c, 1) || !has(c, 2) {
		t.Error("gone too early")
	}
	if now.advance(1); has(c, 1) || !has(c, 2) {
		t.Error("still there")
	}
	if _, fresh := c.Add(key(1), 3, 0, time.Second); !fresh || !has(c, 1) {
		t.Error("what has ended is in the way")
	}
	if n := c.Len(); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func has(c *Cache[int], i int) bool {
	_, ok := c.Get(key(i))
	return ok
}

// However much is put in, what is asked for stays, and the bound holds.
func TestRoom(t *testing.T) {
	const room = 256 << 10
	now := newClock()
	c := New[int](room, now.now)
	for i := range 20 {
		c.Put(key(i), i, 10, 0)
	}
	for i := 20; i < 100_000; i++ {
		c.Put(key(i), i, 10, 0)
		for wanted := range 20 {
			if !has(c, wanted) {
				t.Fatalf("%d is gone after %d", wanted, i)
			}
		}
		if i%1000 == 0 && c.Bytes() > room {
			t.Fatalf("%d bytes", c.Bytes())
		}
	}
	c.Put(key(1), 1, room, 0) // will never fit
	if has(c, 1) || c.Bytes() > room {
		t.Error("what is too large was kept")
	}
	c.Put(key(2), 2, 10, time.Second)
	now.advance(time.Minute)
	for i := range 10_000 {
		c.Put(key(200_000+i), i, 10, 0)
	}
	if v := c.Bytes(); v > room || v < room/2 {
		t.Errorf("%d bytes", v)
	}
}

func TestConcurrently(t *testing.T) {
	c := New[int](64<<10, time.Now)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				i := rand.IntN(1000)
				switch rand.IntN(10) {
				case 0:
					c.Put(key(i), i, 0, 0)
				case 1:
					c.Add(key(i), i, 0, time.Duration(rand.IntN(int(time.Millisecond))))
				case 2:
					c.Delete(key(i))
				default:
					if v, ok := c.Get(key(i)); ok && v != i {
						panic(fmt.Sprint(i, " is ", v))
					}
				}
			}
		})
	}
	wg.Wait()
	count, bytes := 0, int64(0)
	for i := range c.shards {
		s := &c.shards[i]
		n := 0
		for e := s.hand; e != nil && (n == 0 || e != s.hand); e = e.newer {
			n++
			bytes += e.bytes
			if at := s.find(e.hash, []byte(e.key)); at == nil || at.item.Load() != e {
				t.Fatalf("%s is in the ring alone", e.key)
			}
		}
		if count += n; n != s.count {
			t.Fatalf("%d in the ring, %d counted", n, s.count)
		}
	}
	if count != c.Len() || bytes != c.Bytes() {
		t.Errorf("%d entries of %d bytes, %d of %d counted", count, bytes, c.Len(), c.Bytes())
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	c := New[int](1<<20, time.Now)
	k := []byte("a key that is a little longer than the shortest ones")
	c.Put(k, 1, 0, time.Hour)
	if n := testing.AllocsPerRun(100, func() {
		c.Get(k)
		c.Delete([]byte("absent"))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGet(b *testing.B) {
	c := New[int](30<<20, time.Now)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "2555417794444:application-%d:usage%%5Bhits%%5D=1", i)
		c.Put(keys[i], 200, 0, 0)
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			if _, ok := c.Get(keys[i%len(keys)]); !ok {
				b.Fatal("gone")
			}
		}
	})
}

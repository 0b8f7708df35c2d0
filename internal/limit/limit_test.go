package limit

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fake is a clock that stands still until it is moved.
type fake struct{ nanos atomic.Int64 }

func (f *fake) now() time.Time          { return time.Unix(1_000_000_000, f.nanos.Load()) }
func (f *fake) forward(d time.Duration) { f.nanos.Add(int64(d)) }

// together runs f many times at once and counts how often it said yes.
func together(n int, f func() bool) int {
	var yes atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range n {
		wg.Go(func() {
			<-start
			if f() {
				yes.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	return int(yes.Load())
}

func TestExact(t *testing.T) {
	clock := new(fake)
	fixed, sliding := NewFixed(clock.now), NewSliding(clock.now)
	buckets, under := NewBuckets(clock.now), NewConcurrency(clock.now)
	defer fixed.Close()
	defer sliding.Close()
	defer buckets.Close()
	defer under.Close()
	key := func() []byte { return []byte("k") }
	for name, f := range map[string]func() bool{
		"fixed":       func() bool { return fixed.Take(key(), 1, 100, time.Minute).OK },
		"sliding":     func() bool { return sliding.Take(key(), 1, 100, time.Minute).OK },
		"bucket":      func() bool { _, ok := buckets.Add(key(), 1, 99); return ok },
		"concurrency": func() bool { _, ok := under.Enter(key(), 100); return ok },
	} {
		if n := together(1000, f); n != 100 {
			t.Errorf("%s: %d of 1000 admitted, want 100", name, n)
		}
	}
}

func TestFixed(t *testing.T) {
	clock := new(fake)
	f := NewFixed(clock.now)
	defer f.Close()
	for i, c := range []struct {
		after       time.Duration
		key         string
		cost, limit int64
		want        Count
	}{
		{0, "a", 1, 2, Count{true, 1, 60 * time.Second}},
		{10 * time.Second, "a", 1, 2, Count{true, 0, 50 * time.Second}},
		{0, "b", 1, 2, Count{true, 1, 60 * time.Second}},
		{0, "a", 0, 2, Count{true, 0, 50 * time.Second}},
		{49 * time.Second, "a", 1, 2, Count{false, 0, time.Second}},
		{0, "a", 0, 2, Count{false, 0, time.Second}}, // what is refused counts
		{0, "a", 1, 10, Count{true, 6, time.Second}}, // the limit may change
		{time.Second, "a", 1, 2, Count{true, 1, 60 * time.Second}},
		{time.Hour, "a", 3, 2, Count{false, 0, 60 * time.Second}},
		{time.Hour, "a", 1 << 62, 1 << 62, Count{true, 0, 60 * time.Second}},
		{0, "a", 1 << 62, 1 << 62, Count{false, 0, 60 * time.Second}},
		{0, "a", 1 << 62, 1 << 62, Count{false, 0, 60 * time.Second}},
	} {
		clock.forward(c.after)
		if got := f.Take([]byte(c.key), c.cost, c.limit, time.Minute); got != c.want {
			t.Errorf("%d: got %+v, want %+v", i, got, c.want)
		}
	}
}

func TestSliding(t *testing.T) {
	clock := new(fake) // begins 40 s into a minute
	s := NewSliding(clock.now)
	defer s.Close()
	for i, c := range []struct {
		after time.Duration
		limit int64
		want  Count
	}{
		{0, 4, Count{true, 3, 20 * time.Second}},
		{0, 4, Count{true, 2, 20 * time.Second}},
		{0, 4, Count{true, 1, 20 * time.Second}},
		{0, 4, Count{true, 0, 20 * time.Second}},
		{0, 4, Count{false, 0, 20 * time.Second}},
		// At the next window's start all four still count.
		{20 * time.Second, 4, Count{false, 0, unit}},
		// A quarter of it later, one less.
		{15*time.Second + time.Millisecond, 4, Count{true, 0, 45 * time.Second}},
		{0, 4, Count{true, 0, 45 * time.Second}}, // there was room for a part of it
		{0, 4, Count{false, 0, 15 * time.Second}},
		// Half of it is over: two count, and the one above.
		{15 * time.Second, 4, Count{true, 0, 30 * time.Second}},
		// The window before counts no more than the limit.
		{0, 2, Count{false, 0, 30 * time.Second}},
		{10 * time.Minute, 4, Count{true, 3, 30 * time.Second}},
	} {
		clock.forward(c.after)
		if got := s.Take([]byte("k"), 1, c.limit, time.Minute); got != c.want {
			t.Errorf("%d: got %+v, want %+v", i, got, c.want)
		}
	}
	if got := s.Take([]byte("k"), 1, 4, time.Hour); got.Remaining != 3 {
		t.Errorf("another window: %+v", got)
	}
}

// TestSlidingBound: whatever the pattern, a window's length never admits more
// than twice the limit, and each aligned window no more than the limit.
func TestSlidingBound(t *testing.T) {
	const limit, window = 20, time.Second
	r := rand.New(rand.NewPCG(1, 2))
	clock := new(fake)
	s := NewSliding(clock.now)
	defer s.Close()
	admitted := map[int64]int{}
	for range 20_000 {
		clock.forward(time.Duration(r.IntN(30)) * time.Millisecond)
		if s.Take([]byte("k"), 1, limit, window).OK {
			admitted[clock.now().UnixNano()/int64(window)]++
		}
	}
	for id, n := range admitted {
		if n > limit {
			t.Fatalf("window %d admitted %d", id, n)
		}
	}
}

func TestBuckets(t *testing.T) {
	clock := new(fake)
	b := NewBuckets(clock.now)
	defer b.Close()
	for i, c := range []struct {
		after       time.Duration
		rate, burst float64
		wait        time.Duration
		ok          bool
	}{
		{0, 2, 1, 0, true},
		{0, 2, 1, 500 * time.Millisecond, true},
		{0, 2, 1, 0, false},
		{250 * time.Millisecond, 2, 1, 0, false},
		{250 * time.Millisecond, 2, 1, 500 * time.Millisecond, true},
		{0, 2, 2, time.Second, true},
		{0, 2, 1, 0, false},
		{time.Hour, 2, 0, 0, true},
		{0, 2, 0, 0, false},
		{500 * time.Millisecond, 2, 0, 0, true},
		{time.Hour, 1e-300, 0, 0, true},
		{time.Hour, 1e-300, 0, 0, false},
	} {
		clock.forward(c.after)
		if wait, ok := b.Add([]byte("k"), c.rate, c.burst); wait != c.wait || ok != c.ok {
			t.Errorf("%d: got %v %v, want %v %v", i, wait, ok, c.wait, c.ok)
		}
	}
}

func TestConcurrency(t *testing.T) {
	clock := new(fake)
	c := NewConcurrency(clock.now)
	defer c.Close()
	enter := func(most, n int64, ok bool) {
		t.Helper()
		if gotN, gotOK := c.Enter([]byte("k"), most); gotN != n || gotOK != ok {
			t.Errorf("got %d %v, want %d %v", gotN, gotOK, n, ok)
		}
	}
	enter(2, 1, true)
	enter(2, 2, true)
	enter(2, 2, false)
	enter(0, 2, false)
	c.Leave([]byte("k"))
	enter(2, 2, true)
	for range 5 {
		c.Leave([]byte("k"))
	}
	enter(0, 0, false)
	enter(1, 1, true)
	clock.forward(time.Hour)
	c.sweep()
	if n := c.Len(); n != 1 {
		t.Errorf("%d keys in memory, one is under way", n)
	}
	c.Leave([]byte("k"))
	clock.forward(time.Minute)
	c.sweep()
	if n := c.Len(); n != 0 {
		t.Errorf("%d keys in memory, nothing is under way", n)
	}
}

func TestForget(t *testing.T) {
	clock := new(fake)
	f := NewFixed(clock.now)
	defer f.Close()
	for i := range 20_000 {
		f.Take(strconv.AppendInt(nil, int64(i), 10), 1, 1, time.Minute)
	}
	clock.forward(time.Second)
	f.Take([]byte("late"), 1, 5, time.Minute)
	clock.forward(59 * time.Second)
	for range 3 {
		f.sweep()
	}
	if n := f.Len(); n != 1 {
		t.Errorf("%d keys in memory, want the one whose window is not over", n)
	}
	for i := range f.shards {
		if s := &f.shards[i]; len(s.entries) > 256 {
			t.Errorf("shard %d keeps room for %d entries", i, len(s.entries))
		}
	}
	if c := f.Take([]byte("late"), 1, 5, time.Minute); c.Remaining != 3 {
		t.Errorf("the one that stayed: %+v", c)
	}
}

// TestBounded: however many keys, memory is bounded, and what is due longest
// stays.
func TestBounded(t *testing.T) {
	clock := new(fake)
	f := NewFixed(clock.now)
	defer f.Close()
	f.most = 100
	f.Take([]byte("day"), 1, 5, 24*time.Hour)
	for i := range 50_000 {
		f.Take(fmt.Appendf(nil, "k%d", i), 1, 1, time.Second)
	}
	if n := f.Len(); n > 100*shardCount || n < 50*shardCount {
		t.Errorf("%d keys in memory", n)
	}
	if c := f.Take([]byte("day"), 1, 5, 24*time.Hour); c.Remaining != 3 {
		t.Errorf("the long window was forgotten: %+v", c)
	}

	under := NewConcurrency(clock.now)
	defer under.Close()
	under.most = 1
	for i := range 1000 {
		under.Enter(strconv.AppendInt(nil, int64(i), 10), 1)
	}
	if n := under.Len(); n != 1000 {
		t.Errorf("%d of 1000 under way are known", n)
	}
}

func TestSweepByItself(t *testing.T) {
	clock := new(fake)
	f := NewFixed(clock.now)
	f.Take([]byte("k"), 1, 1, time.Minute)
	f.mu.Lock()
	if !f.armed {
		t.Error("nobody will sweep")
	}
	f.mu.Unlock()
	clock.forward(time.Hour)
	f.sweep()
	f.mu.Lock()
	if f.armed {
		t.Error("swept for ever though empty")
	}
	f.mu.Unlock()
	f.Close()
	f.Take([]byte("k"), 1, 1, time.Minute)
	if f.armed {
		t.Error("armed after Close")
	}
}

func TestNoAllocation(t *testing.T) {
	clock := new(fake)
	fixed, sliding := NewFixed(clock.now), NewSliding(clock.now)
	buckets, under := NewBuckets(clock.now), NewConcurrency(clock.now)
	defer fixed.Close()
	defer sliding.Close()
	defer buckets.Close()
	defer under.Close()
	key := append(make([]byte, 0, 64), "10.0.0.1"...)
	other := append(make([]byte, 0, 64), "10.0.0.2"...)
	under.Enter(other, 10)
	for name, f := range map[string]func(){
		"fixed":       func() { fixed.Take(key, 1, 10, time.Minute) },
		"sliding":     func() { sliding.Take(key, 1, 10, time.Minute) },
		"bucket":      func() { buckets.Add(key, 10, 10) },
		"concurrency": func() { under.Enter(other, 10); under.Leave(other) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkFixed(b *testing.B) {
	f := NewFixed(time.Now)
	defer f.Close()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		key := append(make([]byte, 0, 64), "10.0.0.1"...)
		for p.Next() {
			f.Take(key, 1, 1<<40, time.Minute)
		}
	})
}

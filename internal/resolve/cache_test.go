package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A source is what a cache asks; the clock is synctest's.
type source struct {
	mu     sync.Mutex
	answer Answer
	err    error
	delay  time.Duration
	asked  int
	at     []time.Duration
	start  time.Time
}

func (s *source) lookup(ctx context.Context, _ string) (Answer, error) {
	s.mu.Lock()
	s.asked++
	s.at = append(s.at, time.Since(s.start))
	delay := s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer, s.err
}

func (s *source) say(err error, ttl time.Duration, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.answer = err, Answer{TTL: ttl}
	for _, a := range addrs {
		s.answer.Records = append(s.answer.Records, Record{Addr: netip.MustParseAddr(a), Weight: 1})
	}
}

// slow makes lookups take that long.
func (s *source) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// cached runs f with a cache in a bubble of its own time.
func cached(t *testing.T, o Options, f func(s *source, c *Cache, get func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &source{start: time.Now()}
		o.Lookup = s.lookup
		c := NewCache(o)
		n := c.Use("a.test")
		f(s, c, func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			got, err := n.Get(ctx, time.Now())
			if err != nil {
				return err.Error()
			}
			return strings.TrimSuffix(text(*got), " "+got.TTL.String())
		})
		n.Release()
		if c.Len() != 0 {
			t.Error("a name is held")
		}
		c.Close()
	})
}

var errServfail = errors.New("SERVFAIL")

func TestCacheFollows(t *testing.T) {
	cached(t, Options{}, func(s *source, _ *Cache, get func() string) {
		s.slow(100 * time.Millisecond)
		s.say(nil, 5*time.Second, "10.0.0.1")
		if got := get(); got != "10.0.0.1" {
			t.Fatal(got)
		}
		s.say(nil, 5*time.Second, "10.0.0.2")
		// While it is in use, the next answer is there before the last expires, and
		// no request ever waits.
		changed := time.Duration(0)
		began := time.Now()
		for range 300 {
			time.Sleep(20 * time.Millisecond)
			now := time.Now()
			got := get()
			if time.Since(now) != 0 {
				t.Fatal("a request waited")
			}
			if got == "10.0.0.2" && changed == 0 {
				changed = time.Since(began)
			}
		}
		if changed == 0 || changed > 6*time.Second {
			t.Fatal("changed after", changed)
		}
	})
}

// The same answer is the same pointer, in whatever order it comes.
func TestCacheSamePointer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := NewCache(Options{Lookup: func(context.Context, string) (Answer, error) {
			n++
			x, y := Record{Addr: netip.MustParseAddr("10.0.0.1"), Weight: 1}, Record{Addr: netip.MustParseAddr("10.0.0.2"), Weight: 1}
			if n%2 == 0 {
				x, y = y, x
			}
			return Answer{Records: order([]Record{x, y}), TTL: time.Duration(n) * time.Second}, nil
		}})
		defer c.Close()
		name := c.Use("a")
		defer name.Release()
		first, err := name.Get(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		second, err := name.Get(t.Context(), time.Now())
		if err != nil || first != second || n < 2 {
			t.Fatal(first, second, err, n)
		}
	})
}

// A name that nobody asks for is left alone; the first who asks again waits.
func TestCacheRests(t *testing.T) {
	cached(t, Options{}, func(s *source, _ *Cache, get func() string) {
		s.say(nil, 5*time.Second, "10.0.0.1")
		get()
		time.Sleep(time.Hour)
		if n := s.count(); n > 2 {
			t.Fatalf("%d lookups for one request", n)
		}
		s.say(nil, 5*time.Second, "10.0.0.2")
		if got := get(); got != "10.0.0.2" {
			t.Fatal("an old answer:", got)
		}
	})
}

// dns_resolver_valid replaces the TTL (field case 146).
func TestCacheValid(t *testing.T) {
	cached(t, Options{Valid: 10 * time.Second}, func(s *source, _ *Cache, get func() string) {
		s.say(nil, time.Hour, "10.0.0.1")
		for range 600 {
			get()
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.count(); n < 6 || n > 8 {
			t.Fatalf("%d lookups in a minute: %v", n, s.at)
		}
	})
}

// While DNS fails the last good answer stays, however long; when it is back, what
// it says counts, also if that is what it said before (field case 144).
func TestCacheKeepsWhileFailing(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	cached(t, Options{Log: log}, func(s *source, _ *Cache, get func() string) {
		s.say(nil, 5*time.Second, "10.0.0.1")
		get()
		s.say(errServfail, 0)
		s.slow(3 * time.Second) // time-outs
		for range 300 {
			now := time.Now()
			if got := get(); got != "10.0.0.1" {
				t.Fatal(got)
			}
			if time.Since(now) > patience {
				t.Fatal("a request waited", time.Since(now))
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.slow(0)
		s.say(nil, 5*time.Second, "10.0.0.1")
		time.Sleep(5 * time.Second)
		if got := get(); got != "10.0.0.1" {
			t.Fatal(got)
		}
		s.say(nil, 5*time.Second, "10.0.0.2")
		for range 70 {
			time.Sleep(100 * time.Millisecond)
			get()
		}
		if got := get(); got != "10.0.0.2" {
			t.Fatal(got)
		}
	})
	if s := out.String(); strings.Count(s, "cannot be resolved") != 1 || strings.Count(s, "resolves again") != 1 {
		t.Errorf("log:\n%s", s)
	}
}

// An idle name whose DNS is down serves what it knows after a short wait.
func TestCacheIdleWhileFailing(t *testing.T) {
	cached(t, Options{}, func(s *source, _ *Cache, get func() string) {
		s.say(nil, 5*time.Second, "10.0.0.1")
		get()
		time.Sleep(time.Hour)
		s.say(errServfail, 0)
		s.slow(3 * time.Second)
		now := time.Now()
		if got := get(); got != "10.0.0.1" || time.Since(now) != patience {
			t.Fatal(got, time.Since(now))
		}
		time.Sleep(3 * time.Second)
		now = time.Now()
		if got := get(); got != "10.0.0.1" || time.Since(now) != 0 {
			t.Fatal(got, time.Since(now))
		}
	})
}

// That a name is gone is an answer, and so is that it has come.
func TestCacheNotFound(t *testing.T) {
	cached(t, Options{}, func(s *source, _ *Cache, get func() string) {
		s.say(fmt.Errorf("a.test: %w", ErrNotFound), 0)
		for range 40 {
			if got := get(); got != "a.test: name does not exist" {
				t.Fatal(got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// One a second; two where the timer and a request meet at the same moment.
		if n := s.count(); n > 10 {
			t.Fatalf("%d lookups in 4 s for 40 requests", n)
		}
		s.say(nil, time.Second, "10.0.0.1")
		time.Sleep(retryAfter)
		get()
		time.Sleep(retryAfter)
		if got := get(); got != "10.0.0.1" {
			t.Fatal(got)
		}
		s.say(nil, time.Second) // no records
		for range 30 {
			get()
			time.Sleep(100 * time.Millisecond)
		}
		if got := get(); got != "name does not exist" {
			t.Fatal(got)
		}
	})
}

// Many who wait make one lookup; whoever loses patience does not end it.
func TestCacheShares(t *testing.T) {
	cached(t, Options{}, func(s *source, c *Cache, get func() string) {
		s.slow(time.Second)
		s.say(nil, time.Minute, "10.0.0.1")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got := get(); got != "10.0.0.1" {
					t.Error(got)
				}
			})
		}
		n := c.Use("A.TEST")
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		if _, err := n.Get(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		n.Release()
		wg.Wait()
		if s.count() != 1 {
			t.Error(s.count())
		}
	})
}

func TestCacheClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{delay: time.Hour}
		c := NewCache(Options{Lookup: s.lookup})
		n := c.Use("a")
		failed := make(chan error)
		go func() {
			_, err := n.Get(context.Background(), time.Now())
			failed <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := n.Get(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		n.Release()
	})
}

// A fresh answer costs no allocation.
func TestCacheAllocations(t *testing.T) {
	c := NewCache(Options{Lookup: func(context.Context, string) (Answer, error) {
		return Answer{TTL: time.Hour, Records: []Record{{Addr: netip.MustParseAddr("10.0.0.1")}}}, nil
	}})
	defer c.Close()
	n := c.Use("a")
	defer n.Release()
	if _, err := n.Get(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if a := testing.AllocsPerRun(100, func() {
		if n.Known(now) == nil {
			t.Error("unknown")
		}
	}); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func TestSystem(t *testing.T) {
	got, err := System(t.Context(), "localhost")
	if err != nil || len(got.Records) == 0 || !got.Records[0].Addr.IsLoopback() || got.TTL <= 0 {
		t.Error(got, err)
	}
	if _, err := System(t.Context(), "no.such.name.invalid."); err == nil {
		t.Error("a name that does not exist resolves")
	}
}

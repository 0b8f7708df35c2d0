package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A sink is a receiver. answer, if set, decides what becomes of a batch.
type sink struct {
	mu     sync.Mutex
	began  time.Time
	got    []string // "seconds: entries"
	took   int      // entries
	answer func(call int, entries []int) (int, error)
	calls  int
}

func (s *sink) send(_ context.Context, entries []int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.got = append(s.got, fmt.Sprintf("%v: %v", time.Since(s.began), entries))
	if s.answer != nil {
		n, err := s.answer(s.calls, entries)
		if err != nil {
			s.took += n
			return n, err
		}
	}
	s.took += len(entries)
	return 0, nil
}

func (s *sink) config() Config[int] {
	s.began = time.Now()
	return Config[int]{Name: "test", Max: 3, Inactive: 5 * time.Second, Age: 12 * time.Second, RetryDelay: time.Second, Send: s.send}
}

func quiet() *Group { return NewGroup(slog.New(slog.DiscardHandler)) }

func (s *sink) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.got, want) {
		t.Errorf("got %q, want %q", s.got, want)
	}
}

func TestWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		g := quiet()
		p := New(s.config(), g.Backlog("p", 100))
		waiting := 0
		p.Collected = func(n int) { waiting += n }
		for i := range 3 {
			p.Add(i)
		}
		s.expect(t, "0s: [0 1 2]")
		p.Add(3)
		if waiting != 1 {
			t.Errorf("%d collected, want 1", waiting)
		}
		time.Sleep(4 * time.Second)
		p.Add(4)
		time.Sleep(4999 * time.Millisecond)
		s.expect(t, "0s: [0 1 2]")
		time.Sleep(time.Millisecond)
		s.expect(t, "0s: [0 1 2]", "9s: [3 4]")
		p.Close()
		g.Close()
		if p.Add(9) {
			t.Error("took an entry after its end")
		}
		if b := g.Backlog("p", 1); b.Pending() != 0 || b.Dropped() != 1 || waiting != 0 {
			t.Errorf("pending %d, dropped %d, collected %d", b.Pending(), b.Dropped(), waiting)
		}
	})
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		g := quiet()
		c := s.config()
		c.Max = 100
		p := New(c, g.Backlog("p", 100))
		for i := range 4 {
			p.Add(i)
			time.Sleep(4500 * time.Millisecond)
		}
		s.expect(t, "12s: [0 1 2]")
		p.Close()
		s.expect(t, "12s: [0 1 2]", "18s: [3]")
		g.Close()
	})
}

func TestOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		g := quiet()
		c := s.config()
		c.Max = 1
		p := New(c, g.Backlog("p", 100))
		for i := range 50 {
			p.Add(i)
		}
		p.Close()
		g.Close()
		if len(s.got) != 50 || s.took != 50 {
			t.Errorf("%d batches, %d entries", len(s.got), s.took)
		}
	})
}

func TestRetry(t *testing.T) {
	no := errors.New("no")
	for _, c := range []struct {
		name    string
		retries int
		answer  func(call int, entries []int) (int, error)
		want    []string
		lost    int64
	}{
		{"recovers", 2, func(call int, _ []int) (int, error) {
			if call < 3 {
				return 0, no
			}
			return 0, nil
		}, []string{"0s: [0 1 2]", "1s: [0 1 2]", "2s: [0 1 2]"}, 0},
		{"gives up", 1, func(int, []int) (int, error) { return 0, no }, []string{"0s: [0 1 2]", "1s: [0 1 2]"}, 3},
		{"never again", 0, func(int, []int) (int, error) { return 0, no }, []string{"0s: [0 1 2]"}, 3},
		{"a part", 1, func(call int, _ []int) (int, error) {
			if call == 1 {
				return 2, no
			}
			return 0, nil
		}, []string{"0s: [0 1 2]", "1s: [2]"}, 0},
		{"all and yet an error", 5, func(_ int, e []int) (int, error) { return len(e) + 1, no }, []string{"0s: [0 1 2]"}, 0},
		{"panics", 1, func(call int, _ []int) (int, error) {
			if call == 1 {
				panic("oops")
			}
			return 0, nil
		}, []string{"0s: [0 1 2]", "1s: [0 1 2]"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sink{answer: c.answer}
				g := quiet()
				b := g.Backlog("p", 100)
				conf := s.config()
				conf.Retries = c.retries
				p := New(conf, b)
				for i := range 3 {
					p.Add(i)
				}
				time.Sleep(time.Minute)
				s.expect(t, c.want...)
				if b.Lost() != c.lost || b.Pending() != 0 {
					t.Errorf("lost %d, pending %d", b.Lost(), b.Pending())
				}
				p.Close()
				g.Close()
			})
		})
	}
}

// TestLimit: while the receiver is down, as many entries are kept as may be, and
// the rest is counted.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		s := sink{answer: func(int, []int) (int, error) {
			if down {
				return 0, errors.New("down")
			}
			return 0, nil
		}}
		g := quiet()
		b := g.Backlog("p", DefaultLimit)
		c := s.config()
		c.Max, c.Retries = 1000, 1_000_000
		// Two configurations of one plugin share the limit.
		p, q := New(c, b), New(c, b)
		for i := range 10_000 {
			p.Add(i)
			q.Add(i)
		}
		time.Sleep(time.Minute)
		if b.Pending() != DefaultLimit || b.Dropped() != 20_000-DefaultLimit {
			t.Errorf("pending %d, dropped %d", b.Pending(), b.Dropped())
		}
		s.mu.Lock()
		down = false
		s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.took != DefaultLimit || b.Pending() != 0 || b.Lost() != 0 {
			t.Errorf("%d entries arrived, pending %d, lost %d", s.took, b.Pending(), b.Lost())
		}
		if !p.Add(1) {
			t.Error("still full")
		}
		p.Close()
		q.Close()
		g.Close()
	})
}

// TestCloseBounded: a receiver that is down, or that does not answer, delays the
// end by no more than Drain.
func TestCloseBounded(t *testing.T) {
	for name, send := range map[string]func(context.Context, []int) (int, error){
		"down": func(context.Context, []int) (int, error) { return 0, errors.New("down") },
		"silent": func(ctx context.Context, _ []int) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s sink
				c := s.config()
				c.Retries, c.Send = 1_000_000, send
				g := quiet()
				b := g.Backlog("p", 100)
				var all []*Processor[int]
				for range 20 {
					p := New(c, b)
					p.Add(1)
					all = append(all, p)
				}
				for _, p := range all {
					p.Close()
				}
				g.Close()
				if d := time.Since(s.began); d != Drain {
					t.Errorf("took %v", d)
				}
				if b.Lost() != 20 || b.Pending() != 0 {
					t.Errorf("lost %d, pending %d", b.Lost(), b.Pending())
				}
			})
		})
	}
}

// TestSenders: a slow receiver gets no more than maxSenders batches at once.
func TestSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, sent := 0, 0, 0
		c := Config[int]{Name: "slow", Max: 1, Send: func(context.Context, []int) (int, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			sent++
			mu.Unlock()
			return 0, nil
		}}
		g := quiet()
		p := New(c, g.Backlog("p", 1000))
		for i := range 64 {
			p.Add(i)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if most != maxSenders || sent != 64 {
			t.Errorf("%d at once, %d sent", most, sent)
		}
		p.Close()
		g.Close()
	})
}

// TestConcurrent loses nothing while processors are replaced under load.
func TestConcurrent(t *testing.T) {
	var mu sync.Mutex
	got := map[int]bool{}
	g := quiet()
	b := g.Backlog("p", 1_000_000)
	c := Config[int]{
		Max: 7, Inactive: time.Millisecond, Age: 2 * time.Millisecond,
		Send: func(_ context.Context, entries []int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range entries {
				if got[e] {
					t.Errorf("%d came twice", e)
				}
				got[e] = true
			}
			return 0, nil
		},
	}
	const workers, rounds, each = 4, 20, 50
	for r := range rounds {
		p := New(c, b)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					p.Add(((r*workers)+w)*each + i)
				}
			})
		}
		wg.Wait()
		p.Close()
	}
	g.Close()
	if len(got) != workers*rounds*each || b.Pending() != 0 {
		t.Errorf("%d entries arrived, want %d", len(got), workers*rounds*each)
	}
}

func BenchmarkAdd(b *testing.B) {
	g := quiet()
	p := New(Config[[]byte]{Max: 1000, Inactive: time.Second, Age: time.Minute, Send: func(context.Context, [][]byte) (int, error) { return 0, nil }},
		g.Backlog("p", 1<<40))
	entry := []byte("{}")
	b.ReportAllocs()
	for b.Loop() {
		p.Add(entry)
	}
	p.Close()
	g.Close()
}

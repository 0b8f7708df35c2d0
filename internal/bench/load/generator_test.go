package load

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// fake is a server in virtual time: answer is called for every request with
// its arrival since the start, may sleep, and returns the bytes of the
// response; an empty response closes the connection.
type fake struct {
	start  time.Time
	answer func(since time.Duration) string
	refuse func(since time.Duration) bool
	dials  atomic.Int64
	wg     sync.WaitGroup
}

func (f *fake) dial(context.Context) (net.Conn, error) {
	f.dials.Add(1)
	if f.refuse != nil && f.refuse(time.Since(f.start)) {
		return nil, errors.New("refused")
	}
	client, server := net.Pipe()
	f.wg.Go(func() {
		defer server.Close()
		r := bufio.NewReader(server)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line != "\r\n" {
				continue
			}
			response := f.answer(time.Since(f.start))
			if response == "" {
				return
			}
			if _, err := io.WriteString(server, response); err != nil {
				return
			}
			if strings.Contains(response, "Connection: close") {
				return
			}
		}
	})
	return client, nil
}

// run sends rate requests a second through the fake in virtual time.
func run(t *testing.T, f *fake, rate float64, conns int, phases ...time.Duration) []Stats {
	t.Helper()
	f.start = time.Now().Add(time.Second)
	g := New(Config{
		Dial:    f.dial,
		Request: func(int) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
		Rate:    rate, Conns: conns, Timeout: 5 * time.Second,
		Start: f.start, Phases: phases,
		Wait: func(at time.Time) { time.Sleep(time.Until(at)) },
	})
	g.Run(context.Background())
	f.wg.Wait()
	all := make([]Stats, len(phases))
	for i := range all {
		all[i] = g.Snapshot(i)
		s := &all[i]
		if ended := s.Status[1] + s.Status[2] + s.Status[3] + s.Status[4] + s.Status[5] + s.Timeouts + s.Errors; int(ended) != s.Sent {
			t.Errorf("phase %d: %d sent, %d ended", i, s.Sent, ended)
		}
	}
	return all
}

func near(t *testing.T, what string, got, want time.Duration, share float64) {
	t.Helper()
	if diff := float64(got - want); diff > share*float64(want) || -diff > share*float64(want) {
		t.Errorf("%s: %v, want %v within %v %%", what, got, want, share*100)
	}
}

func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(time.Duration) string { time.Sleep(time.Millisecond); return okResponse }}
		s := run(t, f, 600, 8, 5*time.Second, 2*time.Second)
		if s[0].Sent != 3000 || s[1].Sent != 1200 || s[0].Status[2] != 3000 || s[1].Status[2] != 1200 {
			t.Errorf("sent %d and %d, 2xx %d and %d", s[0].Sent, s[1].Sent, s[0].Status[2], s[1].Status[2])
		}
		near(t, "p50", s[0].Latency.Quantile(.5), time.Millisecond, .01)
		near(t, "p99", s[0].Latency.Quantile(.99), time.Millisecond, .01)
		near(t, "stall", s[0].Stall, time.Millisecond, .01)
		if s[0].Late.Max() != 0 {
			t.Errorf("late by %v in virtual time", s[0].Late.Max())
		}
		if f.dials.Load() != 8 {
			t.Errorf("%d dials for 8 connections", f.dials.Load())
		}
	})
}

// hold answers at once, but nothing between from and to.
func hold(from, to time.Duration) func(time.Duration) string {
	return func(since time.Duration) string {
		if from <= since && since < to {
			time.Sleep(to - since)
		}
		return okResponse
	}
}

func TestStallOf300ms(t *testing.T) {
	for _, conns := range []int{4, 64, 512} { // fewer and more than the requests due in the stall
		synctest.Test(t, func(t *testing.T) {
			const from, length = 2 * time.Second, 300 * time.Millisecond
			s := run(t, &fake{answer: hold(from, from+length)}, 600, conns, time.Second, 3*time.Second)
			near(t, "stall", s[1].Stall, length, .05)
			near(t, "max", s[1].Latency.Max(), length, .05)
			if s[0].Stall != 0 || s[0].Latency.Max() != 0 {
				t.Errorf("a phase without a stall: stall %v, max %v", s[0].Stall, s[0].Latency.Max())
			}
			// 180 of 1800 requests are due in the stall and wait what is left of
			// it, also those for which no connection was free: 5 % wait over 150 ms.
			near(t, "p95", s[1].Latency.Quantile(.95), 150*time.Millisecond, .05)
			if s[1].Status[2] != 1800 {
				t.Errorf("%d of 1800 answered", s[1].Status[2])
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	for _, conns := range []int{16, 4096} {
		synctest.Test(t, func(t *testing.T) {
			// Silent from 1 s to 7 s: what is due from 1 s to 2 s is 5 s late or later.
			s := run(t, &fake{answer: hold(time.Second, 7*time.Second)}, 100, conns, 3*time.Second, 5*time.Second)
			if n := s[0].Timeouts; n < 99 || n > 101 {
				t.Errorf("%d timeouts, want 100", n)
			}
			if s[1].Timeouts != 0 || s[0].Errors != 0 {
				t.Errorf("%d timeouts later, %d errors", s[1].Timeouts, s[0].Errors)
			}
			near(t, "stall", s[0].Stall, 6*time.Second, .05)
			near(t, "max", s[0].Latency.Max(), 5*time.Second, .01)
		})
	}
}

func TestConnectionsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := &fake{answer: func(time.Duration) string {
			switch n.Add(1) % 10 {
			case 0:
				return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
			case 5:
				return "" // closed instead of answered, as a connection that went stale
			}
			return okResponse
		}}
		s := run(t, f, 100, 4, 10*time.Second)
		if s[0].Status[2] != 1000 || s[0].Errors != 0 {
			t.Errorf("2xx %d, errors %d of 1000", s[0].Status[2], s[0].Errors)
		}
	})
}

func TestFailures(t *testing.T) {
	const from, to = time.Second, 2 * time.Second
	in := func(since time.Duration) bool { return from <= since && since < to }
	for name, c := range map[string]*struct {
		f                 fake
		errors, fiveHundr uint64
	}{
		"refused": {errors: 100, f: fake{refuse: in, answer: func(since time.Duration) string {
			if in(since) {
				return ""
			}
			return okResponse
		}}},
		"closed twice": {errors: 100, f: fake{answer: func(since time.Duration) string {
			if in(since) {
				return ""
			}
			return okResponse
		}}},
		"not HTTP": {errors: 100, f: fake{answer: func(since time.Duration) string {
			if in(since) {
				return "hello world, this is not HTTP\r\n\r\n"
			}
			return okResponse
		}}},
		"503": {fiveHundr: 100, f: fake{answer: func(since time.Duration) string {
			if in(since) {
				return "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"
			}
			return okResponse
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := run(t, &c.f, 100, 16, 3*time.Second)
				if s[0].Errors < c.errors-min(c.errors, 2) || s[0].Errors > c.errors+2 || s[0].Status[5] != c.fiveHundr {
					t.Errorf("errors %d, 5xx %d; want %d and %d", s[0].Errors, s[0].Status[5], c.errors, c.fiveHundr)
				}
			})
		})
	}
}

func TestUnsolicitedResponseIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, &fake{answer: func(time.Duration) string { return okResponse + okResponse }}, 10, 1, 5*time.Second)
		if s[0].Status[2]+s[0].Errors != 50 {
			t.Errorf("2xx %d, errors %d of 50 sent", s[0].Status[2], s[0].Errors)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{start: time.Now(), answer: hold(0, 0)}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		g := New(Config{
			Dial: f.dial, Request: func(int) []byte { return []byte("\r\n") },
			Rate: 100, Conns: 2, Timeout: time.Second, Start: f.start,
			Phases: []time.Duration{time.Hour}, Wait: func(at time.Time) { time.Sleep(time.Until(at)) },
		})
		g.Run(ctx)
		f.wg.Wait()
		if s := g.Snapshot(0); s.Sent < 199 || s.Sent > 201 || s.Scheduled != 360000 {
			t.Errorf("sent %d of %d", s.Sent, s.Scheduled)
		}
	})
}

// TestOverSockets runs the kernel's sleep and real connections; it counts and
// does not time.
func TestOverSockets(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := ServeOrigin(ln)
	defer origin.Close()
	g := New(Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", origin.Addr().String())
		},
		Request: func(int) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
		Rate:    2000, Conns: 8, Timeout: 5 * time.Second,
		Start: time.Now().Add(20 * time.Millisecond), Phases: []time.Duration{150 * time.Millisecond, 150 * time.Millisecond},
	})
	g.Run(t.Context())
	for i := range 2 {
		if s := g.Snapshot(i); s.Sent != 300 || s.Status[2] != 300 || s.Latency.Quantile(.5) <= 0 {
			t.Errorf("phase %d: sent %d, 2xx %d, p50 %v", i, s.Sent, s.Status[2], s.Latency.Quantile(.5))
		}
	}
}

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		responses := []string{
			okResponse,
			"", // the kept connection ends: asked again on a new one
			"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			okResponse,
		}
		n := 0
		f := &fake{start: time.Now(), answer: func(time.Duration) string {
			if n == len(responses) {
				time.Sleep(time.Minute)
				return okResponse
			}
			n++
			return responses[n-1]
		}}
		c := Client{Dial: f.dial}
		for i, want := range []int{200, 401, 200, 0} {
			status, err := c.Ask(t.Context(), []byte("\r\n"), time.Second)
			if status != want || (err != nil) != (want == 0) {
				t.Errorf("answer %d: %d, %v; want %d", i, status, err, want)
			}
		}
		if f.dials.Load() != 3 || time.Since(f.start) != time.Second {
			t.Errorf("%d dials in %v", f.dials.Load(), time.Since(f.start))
		}
		c.Close()
		f.wg.Wait()
	})
}

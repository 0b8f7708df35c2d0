package load

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func ramp(t *testing.T, f *fake, steps []int, length time.Duration) Stats {
	t.Helper()
	f.start = time.Now()
	r := NewRamp(RampConfig{
		Dial: f.dial, Request: func(int) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
		Steps: steps, Length: length, Pause: time.Second, Timeout: 5 * time.Second, Start: time.Now(),
	})
	r.Run(t.Context())
	f.wg.Wait()
	return r.Snapshot()
}

// TestRamp: with a second between requests, the area under the number of clients
// is the number of requests.
func TestRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int64
		f := &fake{}
		f.answer = func(since time.Duration) string {
			if since > 30*time.Second {
				late.Add(1)
			}
			time.Sleep(time.Millisecond)
			return okResponse
		}
		s := ramp(t, f, []int{100, 200}, 40*time.Second)
		// 10 s rising to 100, 10 s of 100, 10 s rising to 200, 10 s of 200.
		if s.Sent < 4950 || s.Sent > 5100 || s.Status[2] != uint64(s.Sent) || s.Latency.Max() != time.Millisecond || s.Stall != time.Millisecond {
			t.Errorf("%d sent, %v, max %v, stall %v", s.Sent, s.Status, s.Latency.Max(), s.Stall)
		}
		if n := late.Load(); n < 1980 || n > 2010 {
			t.Errorf("%d requests of 200 clients in 10 s", n)
		}
		if d := f.dials.Load(); d != 200 {
			t.Errorf("%d connections", d)
		}
	})
}

func TestRampFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := &fake{answer: func(since time.Duration) string {
			switch {
			case since > 9500*time.Millisecond && since < 12*time.Second:
				time.Sleep(12*time.Second - since) // asked at whole seconds
			case since > 14500*time.Millisecond && since < 16*time.Second:
				return "junk\r\n"
			case n.Add(1)%10 == 3:
				return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
			}
			return okResponse
		}}
		s := ramp(t, f, []int{10}, 20*time.Second)
		if s.NotFound < 12 || s.NotFound != s.Status[4] || s.Errors != 10 || s.Status[2] < 90 {
			t.Errorf("%d sent, %v, %d not found, %d errors", s.Sent, s.Status, s.NotFound, s.Errors)
		}
		if s.Stall != 2*time.Second || s.Latency.Max() != 2*time.Second {
			t.Errorf("stall %v, max %v", s.Stall, s.Latency.Max())
		}
	})
}

func TestRampTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(time.Duration) string { time.Sleep(7 * time.Second); return okResponse }}
		s := ramp(t, f, []int{1}, 10*time.Second)
		if s.Sent != 2 || s.Timeouts != 2 || s.Latency.Max() != 5*time.Second {
			t.Errorf("%d sent, %d timeouts, %v", s.Sent, s.Timeouts, s.Latency.Max())
		}
	})
}

package load

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestClosed: every connection has one request under way, of each there are equally
// many, and what breaks is dialled again.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns = 4
		var n atomic.Int64
		f := &fake{start: time.Now(), answer: func(time.Duration) string {
			time.Sleep(10 * time.Millisecond)
			switch n.Add(1) % 100 {
			case 7:
				return "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
			case 13:
				return "" // cut
			case 17:
				return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
			}
			return okResponse
		}}
		l, err := StartClosed(t.Context(), ClosedConfig{
			Dial: f.dial, Conns: conns, Status: 200, Timeout: time.Second,
			Requests: [][]byte{[]byte("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), []byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\n")},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		first := l.Counts()
		time.Sleep(time.Second)
		second := l.Counts().Since(first)
		l.Stop()
		f.wg.Wait()
		for _, c := range []Counts{first, second} {
			// 400 requests a second fit, of which 4 each break, are refused, or end their connection.
			if c.All() < 380 || c.All() > 400 || c.Other < 3 || c.Other > 5 || c.Errors < 3 || c.Errors > 5 {
				t.Errorf("%+v", c)
			}
		}
		if d := f.dials.Load(); d < conns+12 || d > conns+20 {
			t.Errorf("%d dials", d)
		}
	})
}

func TestClosedCannotDial(t *testing.T) {
	refused := errors.New("refused")
	var opened sync.WaitGroup
	left := 2
	_, err := StartClosed(t.Context(), ClosedConfig{
		Dial: func(context.Context) (net.Conn, error) {
			if left--; left < 0 {
				return nil, refused
			}
			client, server := net.Pipe()
			opened.Go(func() {
				_, _ = server.Read(make([]byte, 1000))
				_ = server.Close()
			})
			return client, nil
		},
		Requests: [][]byte{[]byte("x")}, Conns: 3, Status: 200, Timeout: time.Second,
	})
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	opened.Wait()
}

package h2

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"weir/internal/engine"
	"weir/internal/plugin"
)

// An endless upstream answers every request with a body that does not end, or,
// asked with a body, takes what comes and says nothing. over is told of every
// connection that has ended.
func endless(t *testing.T) (addr string, over <-chan struct{}) {
	t.Helper()
	l := listen(t)
	ended := make(chan struct{}, 1000)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { nc.Close(); ended <- struct{}{} }()
				b := make([]byte, 4<<10)
				_, err := nc.Read(b)
				if err != nil || string(b[:4]) == "POST" {
					io.Copy(io.Discard, nc)
					return
				}
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
				piece := []byte("1000\r\n" + string(make([]byte, 0x1000)) + "\r\n")
				for {
					if _, err := nc.Write(piece); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), ended
}

func (c *raw) request(id uint32, method, path string, end bool) {
	c.t.Helper()
	head := block(":method", method, ":scheme", "http", ":path", path, ":authority", "a.test")
	if err := errors.Join(c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true, EndStream: end}), c.flush()); err != nil {
		c.t.Fatal(err)
	}
}

// Who does not take an answer, or does not send a body, is given up after the
// time-out, and the upstream's connection with it.
func TestSlowClients(t *testing.T) {
	timeouts := func(c *engine.Config) { c.BodyTimeout = 300 * time.Millisecond }
	up, over := endless(t)
	await := func(t *testing.T) {
		t.Helper()
		select {
		case <-over:
		case <-time.After(patience):
			t.Error("the upstream's connection lives on")
		}
	}
	t.Run("no window", func(t *testing.T) {
		g := startSlow(t, 10*time.Second, 300*time.Millisecond, timeouts)
		g.route("/a", up, "")
		c := g.raw(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		c.request(1, "GET", "/a", true)
		for {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := f.(*http2.RSTStreamFrame); ok {
				if r.StreamID != 1 {
					t.Errorf("%v", r)
				}
				break
			}
		}
		await(t)
		c.request(3, "GET", "/b", true) // the connection lives
		for {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := f.(*http2.HeadersFrame); ok && h.StreamID == 3 {
				break
			}
		}
	})
	t.Run("does not read", func(t *testing.T) {
		g := startSlow(t, 10*time.Second, 300*time.Millisecond, timeouts)
		g.route("/a", up, "")
		c := g.raw(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		if err := errors.Join(c.WriteWindowUpdate(0, 1<<30), c.flush()); err != nil {
			t.Fatal(err)
		}
		c.request(1, "GET", "/a", true)
		await(t)
	})
	t.Run("no body", func(t *testing.T) {
		g := startSlow(t, 10*time.Second, 10*time.Second, timeouts)
		g.route("/a", up, "")
		c := g.raw(t)
		c.request(1, "POST", "/a", false)
		if err := errors.Join(c.WriteData(1, false, []byte("x")), c.flush()); err != nil {
			t.Fatal(err)
		}
		await(t)
		for {
			f, err := c.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := f.(*http2.HeadersFrame); ok {
				if status := decode(t, h)[":status"]; status != "408" {
					t.Errorf("status %s", status)
				}
				return
			}
		}
	})
}

// A connection whose answers cannot be sent is ended some time after the last
// request, though its protocol has something to send.
func TestUntakenAnswer(t *testing.T) {
	g := startSlow(t, 10*time.Second, 10*time.Second, func(c *engine.Config) { c.KeepaliveTimeout = 100 * time.Millisecond })
	g.route("/a", echo(t), "")
	c := g.raw(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.request(1, "GET", "/a", true)
	for {
		if _, err := c.ReadFrame(); err != nil {
			if errors.Is(err, io.EOF) || !isTimeout(err) {
				return
			}
			t.Fatal(err)
		}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// A client that leaves does not end what is still done for it before its time:
// the connection is counted until its requests are.
func TestLeavingWhileServed(t *testing.T) {
	logging, release := make(chan struct{}), make(chan struct{})
	var logged atomic.Int64
	g := startWith(t, func(c *engine.Config) {
		c.AccessLog = func(*plugin.Ctx) {
			close(logging)
			<-release
			logged.Add(1)
		}
	})
	g.route("/a", echo(t), "")
	c := g.raw(t)
	c.request(1, "GET", "/a", true)
	<-logging
	c.nc.Close()
	for range 20 { // time to notice
		time.Sleep(10 * time.Millisecond)
		if n := g.engine.Connections(); n != 1 {
			t.Fatalf("%d connections while a request is served", n)
		}
	}
	close(release)
	for end := time.Now().Add(patience); g.engine.Connections() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is never over")
		}
	}
	if logged.Load() != 1 {
		t.Error("the request was not finished")
	}
}

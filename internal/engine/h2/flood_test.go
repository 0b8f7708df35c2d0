package h2

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/engine"
)

// patience bounds what ends by itself much sooner.
const patience = 20 * time.Second

// A raw client speaks HTTP/2 frame by frame.
type raw struct {
	*http2.Framer
	t  *testing.T
	nc *net.TCPConn
	w  *bufio.Writer
}

// raw connects, with little room for what is under way. The preface and the
// settings are sent.
func (g *gateway) raw(t *testing.T, settings ...http2.Setting) *raw {
	t.Helper()
	small := func(level, option int) func(_, _ string, c syscall.RawConn) error {
		return func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), level, option, 4<<10) }), err)
		}
	}
	lc := net.ListenConfig{Control: small(syscall.SOL_SOCKET, syscall.SO_SNDBUF)}
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.wg.Go(func() { g.engine.Serve(l) })
	t.Cleanup(func() { l.Close() })
	d := net.Dialer{Control: small(syscall.SOL_SOCKET, syscall.SO_RCVBUF)}
	nc, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	c := &raw{t: t, nc: nc.(*net.TCPConn), w: bufio.NewWriterSize(nc, 64<<10)}
	c.Framer = http2.NewFramer(c.w, nc)
	io.WriteString(c.w, http2.ClientPreface)
	c.WriteSettings(settings...)
	c.flush()
	return c
}

func (c *raw) flush() error { return c.w.Flush() }

// block encodes a request's head.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

func get(path string) []byte {
	return block(":method", "GET", ":scheme", "http", ":path", path, ":authority", "a.test")
}

// Floods end the connection or cost nothing that lasts; others are served as ever.
func TestFloods(t *testing.T) {
	a := get("/a")
	for _, tc := range []struct {
		name   string
		mute   bool   // the client does not read
		ends   bool   // the gateway must end the connection
		frames uint32 // that are sent unless it does
		send   func(c *raw, i uint32) error
	}{
		{"settings", true, true, 0, func(c *raw, _ uint32) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		}},
		{"ping", true, true, 0, func(c *raw, _ uint32) error { return c.WritePing(false, [8]byte{1}) }},
		{"rapid reset, unread", true, false, 20_000, func(c *raw, i uint32) error {
			return errors.Join(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: a, EndHeaders: true, EndStream: true}),
				c.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
		}},
		{"continuation", false, true, 0, func(c *raw, i uint32) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a, EndStream: true})
			}
			return c.WriteContinuation(1, false, block("x-more", string(bytes.Repeat([]byte("x"), 1000))))
		}},
		{"empty continuation", false, false, 300_000, func(c *raw, i uint32) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a, EndStream: true})
			}
			return c.WriteContinuation(1, false, nil)
		}},
		{"priority", false, false, 300_000, func(c *raw, i uint32) error {
			return c.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 0, Weight: uint8(i)})
		}},
		{"priority that depends on itself", false, false, 300_000, func(c *raw, i uint32) error {
			return c.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 2*i + 1})
		}},
		{"window updates", false, false, 300_000, func(c *raw, i uint32) error { return c.WriteWindowUpdate(0, 1) }},
		{"unknown frames", false, false, 300_000, func(c *raw, i uint32) error { return c.WriteRawFrame(0xee, 0, 0, make([]byte, 100)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := startSlow(t, 2*time.Second, time.Second, func(*engine.Config) {})
			g.route("/a", echo(t), "")
			c := g.raw(t)
			if !tc.mute {
				go io.Copy(io.Discard, c.nc)
			}
			before := heap()
			flood := make(chan uint32, 1)
			go func() {
				var err error
				sent := uint32(0)
				for ; err == nil && (tc.ends || sent < tc.frames); sent++ {
					err = tc.send(c, sent)
				}
				c.flush()
				flood <- sent
			}()
			if tc.ends {
				g.awaitEnd(t) // the client may learn of it late
				c.nc.Close()
			}
			sent := <-flood
			if grown := int64(heap()) - int64(before); grown > 16<<20 {
				t.Errorf("%d frames hold %d MiB", sent, grown>>20)
			}
			if r, body := ask(t, g.client(2, nil), "http://a.test/a"); r.StatusCode != 200 {
				t.Errorf("%d %s", r.StatusCode, body)
			}
		})
	}
}

// awaitEnd waits until the gateway has no connection, not even one that is about
// to change its protocol.
func (g *gateway) awaitEnd(t *testing.T) {
	t.Helper()
	end := time.Now().Add(patience)
	for none := 0; none < 20; time.Sleep(5 * time.Millisecond) {
		if none++; g.engine.Connections() > 0 {
			none = 0
		}
		if time.Now().After(end) {
			t.Fatal("the connection is never ended")
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// However fast requests come and are taken back, no more of them are under way
// than a connection may have: the rest is refused with the connection.
func TestRapidResetIsBounded(t *testing.T) {
	g := start(t)
	var open, highest atomic.Int64
	up := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := up.Accept()
			if err != nil {
				return
			}
			n := open.Add(1)
			for {
				if h := highest.Load(); n <= h || highest.CompareAndSwap(h, n) {
					break
				}
			}
			go func() {
				b := make([]byte, 1<<10)
				for {
					if _, err := nc.Read(b); err != nil {
						break
					}
				}
				open.Add(-1)
				nc.Close()
			}()
		}
	}()
	t.Cleanup(func() { up.Close(); <-done })
	g.route("/a", up.Addr().String(), "")
	c := g.raw(t)
	go io.Copy(io.Discard, c.nc)
	a := get("/a")
	for id := uint32(1); id < 8001; id += 2 {
		if c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: a, EndHeaders: true, EndStream: true}) != nil {
			break
		}
		if c.WriteRSTStream(id, http2.ErrCodeCancel) != nil || c.flush() != nil {
			break
		}
	}
	// The end of a connection shows a little after that of its request.
	if n := highest.Load(); n > 2*streams {
		t.Errorf("%d requests were under way at once, of %d that may be", n, streams)
	}
}

// decode reads a head that fits into one frame.
func decode(t *testing.T, f *http2.HeadersFrame) map[string]string {
	t.Helper()
	fields, err := hpack.NewDecoder(4096, nil).DecodeFull(f.HeaderBlockFragment())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, x := range fields {
		all[x.Name] = x.Value
	}
	return all
}

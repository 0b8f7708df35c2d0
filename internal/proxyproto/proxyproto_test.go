package proxyproto

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const v2 = "\r\n\r\n\x00\r\nQUIT\n"

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, in, want, rest string }{
		{"v4", "PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\nrest", "192.0.2.1:4711 127.0.0.1:80", "rest"},
		{"v6", "PROXY TCP6 2001:db8::1 ::1 4711 80\r\n", "[2001:db8::1]:4711 [::1]:80", ""},
		{"v4 within v6", "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:127.0.0.1 4711 80\r\n", "192.0.2.1:4711 127.0.0.1:80", ""},
		{"unknown", "PROXY UNKNOWN\r\nrest", "", "rest"},
		{"unknown and more", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\nrest", "", "rest"},
		{"binary", v2 + "\x21\x11\x00\x0c\xc0\x00\x02\x01\x7f\x00\x00\x01\x12\x67\x00\x50rest", "192.0.2.1:4711 127.0.0.1:80", "rest"},
		{"binary with more", v2 + "\x21\x11\x00\x10\xc0\x00\x02\x01\x7f\x00\x00\x01\x12\x67\x00\x50\x01\x00\x01xrest", "192.0.2.1:4711 127.0.0.1:80", "rest"},
		{"binary v6", v2 + "\x21\x21\x00\x24" + strings.Repeat("\x00", 15) + "\x01" + strings.Repeat("\x00", 15) + "\x02\x00\x01\x00\x02rest", "[::1]:1 [::2]:2", "rest"},
		{"local", v2 + "\x20\x00\x00\x00rest", "", "rest"},
		{"unix", v2 + "\x21\x31\x00\x01xrest", "", "rest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := strings.NewReader(c.in)
			h, err := Read(r)
			got := ""
			if h.Known() {
				got = h.Source.String() + " " + h.Destination.String()
			}
			rest, _ := io.ReadAll(r) // of a string
			if err != nil || got != c.want || string(rest) != c.rest {
				t.Errorf("%q, rest %q, %v", got, rest, err)
			}
		})
	}
	for _, in := range []string{
		"", "PROXY", "GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 192.0.2.1\r\n", "PROXY TCP4 ::1 127.0.0.1 1 2\r\n",
		"PROXY TCP4 192.0.2.1 127.0.0.1 1 65536\r\n", "PROXY TCP4 192.0.2.1 127.0.0.1 01 2\r\n", "PROXY TCP4 192.0.2.1 127.0.0.1 1 2\n",
		"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "PROXY TCP5 192.0.2.1 127.0.0.1 1 2\r\n", "PROXY UNKNOWN " + strings.Repeat("x", 200),
		v2, v2 + "\x31\x11\x00\x0c", v2 + "\x22\x11\x00\x00", v2 + "\x21\x11\x00\x04abcd", v2 + "\x21\x11\xff\xff", v2 + "\x21\x11\x00\x0cabc",
	} {
		if h, err := Read(strings.NewReader(in)); !errors.Is(err, ErrHeader) {
			t.Errorf("%q: %v, %v", in, h, err)
		}
	}
}

func TestAppend(t *testing.T) {
	at := netip.MustParseAddrPort
	for want, h := range map[string]Header{
		"PROXY UNKNOWN\r\n":                                   {},
		"PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\n":          {at("192.0.2.1:4711"), at("127.0.0.1:80")},
		"PROXY TCP6 ::1 2001:db8::2 4711 80\r\n":              {at("[::1]:4711"), at("[2001:db8::2]:80")},
		"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 4711 80\r\n": {at("192.0.2.1:4711"), at("[2001:db8::2]:80")},
	} {
		if got := string(h.Append(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzRead: what is read back is what was written, and nothing beyond.
func FuzzRead(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\nrest"))
	f.Add([]byte(v2 + "\x21\x11\x00\x0c\xc0\x00\x02\x01\x7f\x00\x00\x01\x12\x67\x00\x50rest"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := Read(bytes.NewReader(in))
		if err != nil || !h.Known() {
			return
		}
		again, err := Read(bytes.NewReader(h.Append(nil)))
		if err != nil || again != h {
			t.Errorf("%v became %v, %v", h, again, err)
		}
	})
}

func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Listener{Listener: inner, Trust: func(a netip.Addr) bool { return a.IsLoopback() }, Timeout: 100 * time.Millisecond}
	defer func() { l.Close() }()
	accept := func(send string) (net.Conn, func()) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		got, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return got, func() { c.Close(); got.Close() }
	}
	c, end := accept("PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\nhello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" || c.RemoteAddr().String() != "192.0.2.1:4711" {
		t.Errorf("%q from %v, %v", b, c.RemoteAddr(), err)
	}
	end()
	l.Trust = nil
	c, end = accept("PROXY TCP4 192.0.2.1 127.0.0.1 4711 80\r\n")
	if a := c.RemoteAddr().(*net.TCPAddr); !a.IP.IsLoopback() {
		t.Errorf("who is not trusted is believed: %v", a)
	}
	end()
	c, end = accept("PROXY")
	l.Timeout = 0
	read := make(chan error, 1)
	go func() { _, err := c.Read(b); read <- err }()
	for l.mu.Lock(); len(l.waiting) == 0; l.mu.Lock() {
		l.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	l.mu.Unlock()
	l.Close()
	if err := <-read; err == nil {
		t.Error("a header is awaited after the end")
	}
	end()
	if inner, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l = &Listener{Listener: inner, Timeout: 100 * time.Millisecond}
	defer l.Close()
	for name, send := range map[string]string{"no header": "GET / HTTP/1.1\r\n\r\n", "nothing": ""} {
		c, end = accept(send)
		if n, err := c.Read(b); err == nil {
			t.Errorf("%s: %q", name, b[:n])
		}
		end()
	}
}

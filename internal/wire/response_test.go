package wire

import (
	"io"
	"strings"
	"testing"
)

func TestResponses(t *testing.T) {
	for _, c := range []struct{ method, raw, want string }{
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", `200 OK|2|close=false|ok`},
		{"GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", `200 |0|close=false|`},
		{"GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", `200 |0|close=false|`},
		{"GET", "HTTP/1.1 999 \xff\tx\r\nContent-Length: 0\r\n\r\n", "999 \xff\tx|0|close=false|"},
		{"GET", "HTTP/1.1 200 OK\r\n\r\nrest", `200 OK|-2|close=true|rest`},
		{"GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", `200 OK|1|close=true|x`},
		{"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", `200 OK|1|close=false|x`},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", `200 OK|1|close=true|x`},
		{"GET", "HTTP/1.1 200 OK\r\ntransfer-encoding:Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", `200 OK|-1|close=false|x`},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", `200 OK|0|close=false|`},
		{"HEAD", "HTTP/1.1 200 OK\r\n\r\n", `200 OK|0|close=false|`},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", `304 Not Modified|0|close=false|`},
		{"GET", "HTTP/1.1 204 X\r\nTransfer-Encoding: chunked\r\n\r\n", `204 X|0|close=false|`},
		{"GET", "HTTP/1.1 101 X\r\nContent-Length: 4\r\n\r\n", `101 X|0|close=false|`},
		{"CONNECT", "HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n", `200 X|0|close=false|`},
		{"CONNECT", "HTTP/1.1 403 X\r\nContent-Length: 1\r\n\r\nx", `403 X|1|close=false|x`},
	} {
		m := responses(strings.NewReader(c.raw), c.method, Limits{}, 3)[0]
		got := strings.Join([]string{m.Start, formatInt(m.Length), m.Flags, m.Body}, "|")
		if m.Head != nil || m.Err != nil || got != c.want {
			t.Errorf("%q:\n got %s %v %v\nwant %s", c.raw, got, m.Head, m.Err, c.want)
		}
	}
	for raw, want := range map[string]error{
		"":                              nil, // io.EOF: no message at all
		"HTTP/1.1 2":                    io.ErrUnexpectedEOF,
		"\r\nHTTP/1.1 200 OK\r\n\r\n":   ErrMalformed,
		"HTTP/1.1  200 OK\r\n\r\n":      ErrMalformed,
		"HTTP/1.1 20 OK\r\n\r\n":        ErrMalformed,
		"HTTP/1.1 2000 OK\r\n\r\n":      ErrMalformed,
		"HTTP/1.1 099 OK\r\n\r\n":       ErrMalformed,
		"HTTP/1.1 +20 OK\r\n\r\n":       ErrMalformed,
		"HTTP/1.1 200OK\r\n\r\n":        ErrMalformed,
		"HTTP/1.1 200 a\x00b\r\n\r\n":   ErrMalformed,
		"HTTP/1.1 200 a\rb\r\n\r\n":     ErrMalformed,
		"HTTP/2.0 200 OK\r\n\r\n":       ErrVersion,
		"HTTP/1.1\r\n\r\n":              ErrMalformed,
		"ICY 200 OK\r\n\r\n":            ErrMalformed,
		"<html>":                        ErrMalformed,
		"HTTP/1.1 200 OK\r\nA: b\n\r\n": ErrMalformed,
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n":                              ErrMalformed,
		"HTTP/1.1 304 X\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n":                   ErrMalformed,
		"HTTP/1.1 204 X\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n":          ErrMalformed,
		"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n": ErrMalformed,
	} {
		all := responses(strings.NewReader(raw), "GET", Limits{}, 3)
		if want == nil && len(all) == 0 {
			continue
		}
		if all[0].Head != want {
			t.Errorf("%q: %v, want %v", raw, all[0].Head, want)
		}
	}
}

func TestUpgraded(t *testing.T) {
	var r Reader
	var resp Response
	r.Reset(strings.NewReader("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n\x81\x00"), Limits{})
	if err := r.ReadResponse(&resp, "GET"); err != nil || !r.BodyDone() || string(r.Rest()) != "\x81\x00" || r.Unread() != 2 {
		t.Errorf("%v %q", err, r.Rest())
	}
}

func TestUnread(t *testing.T) {
	var r Reader
	var resp Response
	r.Reset(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP"), Limits{})
	if err := r.ReadResponse(&resp, "GET"); err != nil || r.Unread() != 4 || r.Rest() != nil {
		t.Fatalf("%v %d %q", err, r.Unread(), r.Rest())
	}
	if string(r.Buffered()) != "ok" {
		t.Fatalf("%q", r.Buffered())
	}
	r.Skip(2)
	if !r.BodyDone() || r.Unread() != 4 || string(r.Rest()) != "HTTP" {
		t.Fatalf("%d %q", r.Unread(), r.Rest())
	}
}

package wire

import (
	"io"
	"net"
	"testing"
)

// one is an endless connection: every read returns the same message.
type one string

func (s *one) Read(p []byte) (int, error) { return copy(p, *s), nil }

func endless(message string) *one { return (*one)(&message) }

const typicalGet = "GET /anything/users/42?verbose=1 HTTP/1.1\r\n" +
	"Host: api.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: application/json, text/plain, */*\r\n" +
	"Accept-Encoding: gzip, deflate, br\r\n" +
	"Accept-Language: en-GB,en;q=0.5\r\n" +
	"Connection: keep-alive\r\n" +
	"X-Request-Id: 0191e3a4-7c3a-7d8e-9f5b-2b1c3d4e5f60\r\n" +
	"X-Forwarded-For: 203.0.113.7\r\n" +
	"apikey: 2f6c1e0b9a8d7c6b5a49382716f5e4d3\r\n" +
	"Cookie: session=abcdef0123456789; theme=dark\r\n\r\n"

const typicalResponse = "HTTP/1.1 200 OK\r\n" +
	"Date: Mon, 30 Nov 2026 10:00:00 GMT\r\n" +
	"Content-Type: application/json\r\n" +
	"Content-Length: 27\r\n" +
	"Connection: keep-alive\r\n" +
	"Server: nginx\r\n" +
	"Cache-Control: no-store\r\n\r\n" +
	`{"id":42,"name":"example"}` + "\n"

const chunkedPost = "POST /upload HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n" +
	"Trailer: X-Sum\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n"

// forward does what a gateway does with a message's head and body.
func forward(tb testing.TB, r *Reader, req *Request, out, body []byte) []byte {
	if err := r.ReadRequest(req); err != nil {
		tb.Fatal(err)
	}
	out = AppendRequestLine(out[:0], req.Method, req.Target)
	out = req.Header.AppendTo(out)
	out = AppendFraming(out, req.Length)
	for !r.BodyDone() {
		n, err := r.ReadBody(body)
		if err != nil && err != io.EOF {
			tb.Fatal(err)
		}
		out = append(out, body[:n]...)
	}
	out = AppendLastChunk(out, r.Trailer())
	r.Next()
	return out
}

func forwardResponse(tb testing.TB, r *Reader, resp *Response, out []byte) []byte {
	if err := r.ReadResponse(resp, "GET"); err != nil {
		tb.Fatal(err)
	}
	out = AppendStatusLine(out[:0], resp.Status, resp.Reason)
	out = resp.Header.AppendTo(out)
	out = AppendFraming(out, resp.Length)
	out = append(out, r.Buffered()...)
	r.Skip(len(r.Buffered()))
	r.Release()
	return out
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop at random under -race")
	}
	var (
		req                 Request
		resp                Response
		get, post, response Reader
		out                 = make([]byte, 0, 8<<10)
		body                = make([]byte, 4<<10)
		path                = make([]byte, 0, 256)
	)
	get.Reset(endless(typicalGet), Limits{})
	post.Reset(endless(chunkedPost), Limits{})
	response.Reset(endless(typicalResponse), Limits{})
	for name, f := range map[string]func(){
		"get":      func() { out = forward(t, &get, &req, out, body) },
		"chunked":  func() { out = forward(t, &post, &req, out, body) },
		"response": func() { out = forwardResponse(t, &response, &resp, out) },
		"escape":   func() { path = EscapePath(path[:0], "/a b/\xff") },
		"resolve":  func() { checkPath(t, path[:0], "/a/%41/../b//c/./d?x", "/a/b/c/d") },
		"dot file": func() { checkPath(t, path[:0], "/a/.well-known/c?x", "/a/.well-known/c") },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func checkPath(t *testing.T, dst []byte, target, want string) {
	if got, _, ok := NormalizePath(dst, target, PathOptions{}); !ok || got != want {
		t.Fatalf("%s: %s, %v", target, got, ok)
	}
}

func TestProbeAllocations(t *testing.T) {
	client, server := connect(t)
	p := NewProbe(client)
	for _, state := range []ProbeState{Quiet, Readable} {
		if state == Readable {
			send(t, server, "x")
			await(t, p, Readable)
		}
		if n := testing.AllocsPerRun(100, func() { p.State() }); n != 0 {
			t.Errorf("%v: %v allocations", state, n)
		}
	}
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

package wire

import (
	"io"
	"strings"
	"testing"
)

func newReader(src io.Reader) *Reader {
	r := new(Reader)
	r.Reset(src, Limits{})
	return r
}

func TestPipelined(t *testing.T) {
	const stream = "\r\nGET /a?b HTTP/1.1\r\nHost: h\r\nConnection: x-a\r\nX-A: 1\r\nX_Real_IP: 1.2.3.4\r\n\r\n" +
		"POST http://h2:80?q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n" +
		"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\nX-U: 2\r\n\r\n" +
		"PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\nxyz"
	r := newReader(strings.NewReader(stream))
	var req Request
	if err := r.ReadRequest(&req); err != nil || req.Target != "/a?b" || req.Host != "h" || !r.BodyDone() {
		t.Fatalf("%v %+v", err, req)
	}
	f := req.Header.Fields()
	if f[2].Known != Nominated || f[3].Known != KnownXRealIP|Alias {
		t.Errorf("known: %v %v", f[2].Known, f[3].Known)
	}
	if err := r.ReadRequest(&req); err != nil || req.Target != "/?q" || req.Host != "h2:80" || req.Length != Chunked {
		t.Fatalf("%v %+v", err, req)
	}
	body, err := r.readAll()
	if err != nil || body != "abcde" {
		t.Fatalf("%q %v", body, err)
	}
	if got := string(r.Trailer().AppendTo(nil)); got != "X-T: 1\r\n" {
		t.Errorf("trailer %q", got)
	}
	if err := r.ReadRequest(&req); err != nil || req.Length != 3 || !req.Close {
		t.Fatalf("%v %+v", err, req)
	}
	if b := r.Buffered(); string(b) != "xyz" {
		t.Fatalf("buffered %q", b)
	}
	r.Skip(3)
	if err := r.ReadRequest(&req); err != io.EOF {
		t.Fatal(err)
	}
}

func (r *Reader) readAll() (string, error) {
	var b strings.Builder
	p := make([]byte, 5)
	for {
		n, err := r.ReadBody(p)
		b.Write(p[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}

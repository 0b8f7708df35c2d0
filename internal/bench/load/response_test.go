package load

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadResponse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		status   int
		close    bool
		rest     string
		err      error
	}{
		{name: "length", in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcREST", status: 200, rest: "REST"},
		{name: "chunked", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nT: v\r\n\r\nREST", status: 200, rest: "REST"},
		{name: "chunked wins over length", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nREST", status: 200, rest: "REST"},
		{name: "until close", in: "HTTP/1.1 401 No\r\n\r\nabc", status: 401, close: true},
		{name: "no content", in: "HTTP/1.1 204 No Content\r\n\r\nREST", status: 204, rest: "REST"},
		{name: "interim", in: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503\r\ncontent-length:0\r\nCONNECTION: Close\r\n\r\n", status: 503, close: true},
		{name: "1.0 closes", in: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, close: true},
		{name: "switching", in: "HTTP/1.1 101 Switching\r\n\r\nREST", status: 101, close: true, rest: "REST"},
		{name: "nothing", in: "", err: io.EOF},
		{name: "cut head", in: "HTTP/1.1 200 OK\r\nConte", err: io.ErrUnexpectedEOF},
		{name: "cut body", in: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", status: 200, err: io.EOF},
		{name: "not HTTP", in: "SSH-2.0-OpenSSH_9.2\r\n", err: errResponse},
		{name: "bad length", in: "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n", err: errResponse},
		{name: "bad chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", status: 200, err: errResponse},
		{name: "endless line", in: "HTTP/1.1 200 " + strings.Repeat("x", 5000), err: errResponse},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(c.in))
			status, close, err := readResponse(r)
			if !errors.Is(err, c.err) || (c.err == nil) != (err == nil) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			rest, _ := io.ReadAll(r)
			if status != c.status || close != c.close || string(rest) != c.rest {
				t.Errorf("status %d close %v rest %q", status, close, rest)
			}
		})
	}
}

func FuzzReadResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		r := bufio.NewReader(strings.NewReader(in))
		if status, _, err := readResponse(r); err == nil && (status < 101 || status > 999) {
			t.Errorf("status %d of %q", status, in)
		}
	})
}

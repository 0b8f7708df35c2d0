package wire

import (
	"io"
	"strings"
	"testing"
)

// The head stays what it is while a body of any framing goes through.
func TestHeadSurvivesBody(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 4<<10)
	for name, raw := range map[string]string{
		"length":  "PUT /target HTTP/1.1\r\nHost: example.com\r\nX-A: value\r\nContent-Length: 65536\r\n\r\n" + body,
		"chunked": "PUT /target HTTP/1.1\r\nHost: example.com\r\nX-A: value\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n" + body + "\r\n0\r\n\r\n",
	} {
		for _, size := range []int{1, 100, 5000} {
			m := requests(strings.NewReader(raw), Limits{}, size)[0]
			if m.Start != "PUT /target example.com" || m.Fields[1] != "X-A: value [0x0]" || m.Body != body {
				t.Errorf("%s by %d: %.200v", name, size, m)
			}
		}
	}
}

func TestNextWithinMessage(t *testing.T) {
	var r Reader
	var req Request
	r.Reset(strings.NewReader("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), Limits{})
	if err := r.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	r.Release() // nothing: the message is in use
	if req.Host != "h" || string(r.Buffered()) != "hello" {
		t.Error("Release within a message")
	}
	defer func() {
		if recover() == nil {
			t.Error("Next within a body")
		}
	}()
	r.Next()
}

func (r *Reader) memory() (n int) {
	if r.buf != nil {
		n += len(r.buf.B)
	}
	if r.held != nil {
		n += len(r.held.B)
	}
	return n
}

func TestMemory(t *testing.T) {
	big := "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n"
	small := "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	var r Reader
	var req Request
	r.Reset(&pieces{big, small + small, big + small[:10], small[10:]}, Limits{})
	step := func(name string, want int) {
		t.Helper()
		if n := r.memory(); n != want {
			t.Errorf("%s: %d bytes, want %d", name, n, want)
		}
	}
	read := func() {
		t.Helper()
		if err := r.ReadRequest(&req); err != nil {
			t.Fatal(err)
		}
	}
	step("new", 0)
	read()
	step("big head", 64<<10)
	r.Next()
	step("after a big head", 0)
	read()
	step("small head", 4<<10)
	r.Release()
	step("released with a message waiting", 4<<10)
	read()
	r.Next()
	step("idle", 4<<10)
	r.Release()
	step("released", 0)
	read()
	if r.memory() != 64<<10 || r.Unread() != 10 {
		t.Fatalf("%d bytes, %d unread", r.memory(), r.Unread())
	}
	r.Release()
	step("released with a little unread", 4<<10)
	read()
	if req.Host != "h" {
		t.Errorf("host %q", req.Host)
	}
	r.Reset(nil, Limits{})
	step("reset", 0)
}

func TestPeekPrefix(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, c := range []struct {
		src  pieces
		want bool
	}{
		{pieces{preface + "x"}, true},
		{pieces{"P", "RI * HTTP/2.0\r\n\r\n", "SM\r\n\r\n"}, true},
		{pieces{"P", "OST"}, false},
		{pieces{"G"}, false},
		{pieces{"PRI"}, false},
		{pieces{}, false},
	} {
		all := strings.Join(c.src, "")
		var r Reader
		r.Reset(&c.src, Limits{})
		if got, err := r.HasPrefix(preface); got != c.want || err != nil {
			t.Errorf("%q: %v %v", all, got, err)
		}
		rest, _ := io.ReadAll(&c.src)
		if got := string(r.Rest()) + string(rest); got != all {
			t.Errorf("%q became %q", all, got)
		}
	}
}

func TestBuffers(t *testing.T) {
	for size, want := range map[int]int{0: 4 << 10, 1: 4 << 10, 4 << 10: 4 << 10, 4<<10 + 1: 16 << 10, 1 << 20: 1 << 20, 16 << 20: 16 << 20, 16<<20 + 1: 16<<20 + 1} {
		b := GetBuffer(size)
		if len(b.B) != want {
			t.Errorf("%d: %d bytes, want %d", size, len(b.B), want)
		}
		b.B = b.B[:1]
		b.Free()
	}
	if b := GetBuffer(1); len(b.B) != 4<<10 {
		t.Errorf("a resliced buffer came back with %d bytes", len(b.B))
	}
}

func TestNoProgress(t *testing.T) {
	var r Reader
	var req Request
	r.Reset(silent{}, Limits{})
	if err := r.ReadRequest(&req); err != io.ErrNoProgress {
		t.Error(err)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

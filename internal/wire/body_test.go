package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

const chunkedHead = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T, x-u\r\nTrailer: Content-Type, Cookie, X_Real_IP, A_B\r\n\r\n"

func TestChunked(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, raw, body, trailer string
		err                      error
	}{
		{"empty", "0\r\n\r\n", "", "", nil},
		{"hex", "a\r\n0123456789\r\nA;e\r\n0123456789\r\n00\r\n\r\n", "01234567890123456789", "", nil},
		{"large", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long), long, "", nil},
		{"16 digits", "0000000000000001\r\nx\r\n0000000000000000\r\n\r\n", "x", "", nil},
		{"17 digits", "00000000000000001\r\nx\r\n0\r\n\r\n", "", "", ErrMalformed},
		{"2^63", "8000000000000000\r\nx", "", "", ErrMalformed},
		{"2^63-1", "7fffffffffffffff\r\nx", "x", "", io.ErrUnexpectedEOF},
		{"no size", "\r\n\r\n", "", "", ErrMalformed},
		{"only extension", ";a\r\n\r\n", "", "", ErrMalformed},
		{"extension", "1;" + strings.Repeat("a", maxChunkExtension) + "\r\nx\r\n0;\"a\tb\"\r\n\r\n", "x", "", nil},
		{"long extension", "1;" + strings.Repeat("a", maxChunkExtension+1) + "\r\nx\r\n0\r\n\r\n", "", "", ErrMalformed},
		{"NUL in extension", "1;\x00\r\nx\r\n0\r\n\r\n", "", "", ErrMalformed},
		{"CR in extension", "1;a\rb\r\nx\r\n0\r\n\r\n", "", "", ErrMalformed},
		{"CR CR", "1\r\r\nx\r\n0\r\n\r\n", "", "", ErrMalformed},
		{"too short", "2\r\nx\r\n0\r\n\r\n", "x\r", "", ErrMalformed},
		{"too long", "1\r\nxy\r\n0\r\n\r\n", "x", "", ErrMalformed},
		{"cut in size", "1", "", "", io.ErrUnexpectedEOF},
		{"cut in data", "2\r\nx", "x", "", io.ErrUnexpectedEOF},
		{"cut before end", "1\r\nx\r\n", "x", "", io.ErrUnexpectedEOF},
		{"cut in the end", "1\r\nx\r\n0\r\n", "x", "", io.ErrUnexpectedEOF},
		{"cut in trailer", "1\r\nx\r\n0\r\nX-T: 1\r\n", "x", "", io.ErrUnexpectedEOF},
		{"trailer", "1\r\nx\r\n0\r\nx-t:1\r\nX-V: 2\r\nX-T: 3\r\n\r\n", "x", "x-t:1\r\nX-T: 3\r\n", nil},
		{"forbidden trailers", "0\r\nContent-Type: a\r\nCOOKIE: b\r\nX_Real_IP: c\r\nX-U: d\r\nA_B: e\r\nA-B: f\r\n\r\n", "", "X-U: d\r\nA_B: e\r\n", nil},
		{"trailer by LF", "0\r\nX-T: 1\n\r\n", "", "", ErrMalformed},
		{"trailer folded", "0\r\nX-T: 1\r\n 2\r\n\r\n", "", "", ErrMalformed},
		{"trailer without colon", "0\r\nX-T\r\n\r\n", "", "", ErrMalformed},
		{"long trailer", "0\r\nX-T: " + strings.Repeat("a", 8<<10) + "\r\n\r\n", "", "", ErrHeadTooLarge},
	} {
		raw := chunkedHead + c.raw
		m := requests(strings.NewReader(raw), Limits{}, 4096)
		if len(m) != 1 || m[0].Head != nil || m[0].Err != c.err || m[0].Trailer != c.trailer || m[0].Body != c.body {
			t.Errorf("%s: %.300v", c.name, m)
			continue
		}
		sameInPieces(t, c.name, raw, m, func(src io.Reader, size int) []message {
			return requests(src, Limits{}, size)
		})
	}
}

// What follows a chunked body must survive that it was read into the caller's
// memory.
func TestAfterChunked(t *testing.T) {
	next := "GET /" + strings.Repeat("n", 20_000) + " HTTP/1.1\r\nHost: h\r\n\r\n"
	body := strings.Repeat("5\r\nabcde\r\n", 1000) + "0\r\nX-T: t\r\n\r\n"
	src := &pieces{chunkedHead, body + next + next}
	all := requests(src, Limits{}, 60<<10)
	if len(all) != 3 || all[0].Body != strings.Repeat("abcde", 1000) || all[0].Trailer != "X-T: t\r\n" ||
		all[0].Fields[0] != "Host: h [0x5]" || len(all[2].Start) != len("GET / h")+20_000 {
		t.Errorf("%.200v", all)
	}
}

func TestWholeBody(t *testing.T) {
	const size = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"
	for _, c := range []struct {
		name string
		src  pieces
		ok   bool
	}{
		{"chunked", pieces{chunkedHead + "2\r\nab\r\n3\r\ncde\r\n0\r\nX-T: 1\r\n\r\nGET"}, true},
		{"chunked, incomplete", pieces{chunkedHead + "2\r\nab\r\n3\r\ncde\r\n0\r\nX-T: 1\r\n", "\r\nGET"}, false},
		{"chunked, not there", pieces{chunkedHead, "5\r\nabcde\r\n0\r\n\r\nGET"}, false},
		{"length", pieces{size + "abcdeGET"}, true},
		{"length, incomplete", pieces{size + "abc", "deGET"}, false},
	} {
		var r Reader
		var req Request
		r.Reset(&c.src, Limits{})
		if err := r.ReadRequest(&req); err != nil {
			t.Fatal(err)
		}
		b, ok := r.WholeBody([]byte("<"))
		if ok != c.ok || ok && string(b) != "<abcde" || !ok && string(b) != "<" || r.BodyDone() != ok {
			t.Errorf("%s: %q %v", c.name, b, ok)
		}
		if !ok {
			if s, err := readAll(&r, 100); err != nil || s != "abcde" {
				t.Errorf("%s: then %q %v", c.name, s, err)
			}
		}
		if err := r.ReadRequest(&req); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: next: %v", c.name, err)
		}
	}
	var r Reader
	var req Request
	r.Reset(strings.NewReader(chunkedHead+"2\r\nab\r\n0\r\nX\r\n\r\n"), Limits{})
	if err := r.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	if b, ok := r.WholeBody(nil); ok {
		t.Errorf("malformed: %q", b)
	}
	if s, err := readAll(&r, 100); err != ErrMalformed || s != "ab" {
		t.Errorf("malformed, then: %q %v", s, err)
	}
}

// flaky fails once before each piece, as a deadline does.
type flaky struct {
	pieces
	ready bool
}

func (f *flaky) Read(p []byte) (int, error) {
	if f.ready = !f.ready; f.ready {
		return 0, os.ErrDeadlineExceeded
	}
	return f.pieces.Read(p[:min(len(p), 3)])
}

func TestRepeatedAfterDeadline(t *testing.T) {
	var r Reader
	var req Request
	r.Reset(&flaky{pieces: pieces{"\r\n" + chunkedHead + "2\r\nab\r\n3\r\ncde\r\n0\r\nX-T: 1\r\n\r\n"}}, Limits{})
	again := func(f func() error) (err error) {
		for range 1000 {
			if err = f(); !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
		}
		return err
	}
	if err := again(func() error { return r.ReadRequest(&req) }); err != nil {
		t.Fatal(err)
	}
	var body strings.Builder
	for !r.BodyDone() {
		if err := again(func() error {
			p := make([]byte, 4096)
			n, err := r.ReadBody(p)
			body.Write(p[:n])
			return err
		}); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	if body.String() != "abcde" || string(r.Trailer().AppendTo(nil)) != "X-T: 1\r\n" {
		t.Errorf("%q %q", body.String(), r.Trailer().AppendTo(nil))
	}
}

// counting counts the reads of a connection.
type counting struct {
	io.Reader
	reads, largest int
}

func (c *counting) Read(p []byte) (int, error) {
	c.reads++
	c.largest = max(c.largest, len(p))
	return c.Reader.Read(p)
}

func TestReads(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, raw string
		reads     int
	}{
		{"small chunked message", chunkedHead + "5\r\nhello\r\n0\r\n\r\n", 1},
		{"small sized message", "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 1},
		{"1 MiB", "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n" + large, 1 + 16},
		{"1 MiB, small chunks", chunkedHead + strings.Repeat("100\r\n"+large[:256]+"\r\n", 4096) + "0\r\n\r\n", 1 + 17},
	} {
		src := &counting{Reader: strings.NewReader(c.raw)}
		var r Reader
		var req Request
		r.Reset(src, Limits{})
		if err := r.ReadRequest(&req); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(&r, 64<<10); err != nil || src.reads != c.reads {
			t.Errorf("%s: %d reads, want %d; %v", c.name, src.reads, c.reads, err)
		}
	}
}

// ReadBody must return what is there, though more is to come.
func TestNoWait(t *testing.T) {
	client, server := connect(t)
	var r Reader
	var req Request
	r.Reset(server, Limits{})
	send(t, client, chunkedHead+"5\r\nhel")
	if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := r.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 64<<10)
	var got string
	for got != "hel" {
		n, err := r.ReadBody(p)
		if err != nil {
			t.Fatal(err)
		}
		got += string(p[:n])
	}
	send(t, client, "lo\r\n0\r\n\r\n")
	rest, err := readAll(&r, 64<<10)
	if err != nil || rest != "lo" {
		t.Errorf("%q %v", rest, err)
	}
}

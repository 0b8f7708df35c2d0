package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A message is everything a Reader tells about one message, by value.
type message struct {
	Start   string // method, target and host, or status and reason
	Proto   Proto
	Length  int64
	Flags   string
	Fields  []string
	Body    string
	Trailer string
	Head    error // why the head was refused
	Err     error // why the body was refused
}

func (m message) String() string {
	return fmt.Sprintf("%q %v length=%d %s %q body=%q trailer=%q head=%v err=%v",
		m.Start, m.Proto, m.Length, m.Flags, m.Fields, m.Body, m.Trailer, m.Head, m.Err)
}

func fieldsOf(h *Header) (out []string) {
	for _, f := range h.Fields() {
		out = append(out, fmt.Sprintf("%s: %s [%#x]", f.Name, f.Value, uint8(f.Known)))
	}
	return out
}

// requests reads every request of a stream, bodies in pieces of size bytes.
// Heads are described only when the body was read, which must not harm them.
func requests(src io.Reader, limits Limits, size int) (all []message) {
	var r Reader
	r.Reset(src, limits)
	defer r.Reset(nil, Limits{})
	for {
		var req Request
		var m message
		if m.Head = r.ReadRequest(&req); m.Head == io.EOF {
			return all
		}
		if m.Head == nil || errors.Is(m.Head, ErrExpectation) {
			m.Body, m.Err = readAll(&r, size)
			m.Start = req.Method + " " + req.Target + " " + req.Host
			m.Proto, m.Length = req.Proto, req.Length
			m.Flags = fmt.Sprintf("close=%v expect=%v upgrade=%v trailers=%v", req.Close, req.Expect, req.Upgrade, req.Trailers)
			m.Fields = fieldsOf(&req.Header)
			m.Trailer = string(r.Trailer().AppendTo(nil))
		}
		all = append(all, m)
		if m.Head != nil || m.Err != nil {
			return all
		}
		r.Next()
	}
}

// responses is like requests; every response answers the same method.
func responses(src io.Reader, method string, limits Limits, size int) (all []message) {
	var r Reader
	r.Reset(src, limits)
	defer r.Reset(nil, Limits{})
	for {
		var resp Response
		var m message
		if m.Head = r.ReadResponse(&resp, method); m.Head == io.EOF {
			return all
		}
		if m.Head == nil {
			m.Body, m.Err = readAll(&r, size)
			m.Start = fmt.Sprintf("%d %s", resp.Status, resp.Reason)
			m.Proto, m.Length = resp.Proto, resp.Length
			m.Flags = fmt.Sprintf("close=%v", resp.Close)
			m.Fields = fieldsOf(&resp.Header)
			m.Trailer = string(r.Trailer().AppendTo(nil))
		}
		all = append(all, m)
		if m.Head != nil || m.Err != nil {
			return all
		}
	}
}

func readAll(r *Reader, size int) (string, error) {
	var b strings.Builder
	p := make([]byte, size)
	for {
		n, err := r.ReadBody(p)
		b.Write(p[:n])
		if err == io.EOF {
			if !r.BodyDone() {
				return b.String(), errors.New("EOF, but not done")
			}
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		if n == 0 {
			return b.String(), io.ErrNoProgress
		}
	}
}

// pieces is a connection on which each piece arrives with a read of its own.
type pieces []string

func (s *pieces) Read(p []byte) (int, error) {
	for len(*s) > 0 && (*s)[0] == "" {
		*s = (*s)[1:]
	}
	if len(*s) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*s)[0])
	(*s)[0] = (*s)[0][n:]
	return n, nil
}

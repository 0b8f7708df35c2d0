package wire

import (
	"cmp"
	"io"
)

// Limits bound what one message may make its reader hold. A zero field means
// its default.
type Limits struct {
	Head    int // bytes of a head with its start line and empty line; 64 KiB
	Line    int // bytes of one line of a head, with its end; as many as of the head
	Fields  int // field lines of a head or trailer section; 1000
	Trailer int // bytes of a trailer section; 8 KiB
	Tokens  int // names that the Connection fields of a message list; 100
	Buffer  int // bytes of the buffer a head is first read into, rounded up; 4 KiB
}

// DefaultLimits are the limits of a gateway whose operator chose none.
func DefaultLimits() Limits {
	return Limits{Head: 64 << 10, Fields: 1000, Trailer: 8 << 10, Tokens: 100, Buffer: smallestBuffer}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	_, d.Buffer = classOf(cmp.Or(l.Buffer, d.Buffer))
	return Limits{
		Head:    cmp.Or(l.Head, d.Head),
		Line:    l.Line,
		Fields:  cmp.Or(l.Fields, d.Fields),
		Trailer: cmp.Or(l.Trailer, d.Trailer),
		Tokens:  cmp.Or(l.Tokens, d.Tokens),
		Buffer:  d.Buffer,
	}
}

// A Reader reads the messages of one connection, one after the other: a head
// with ReadRequest or ReadResponse, its body with ReadBody, then the next head.
// What a message consists of stays valid until Next, and the Request or Response
// it was read into must not be reused before. A read that failed with
// an error of the connection, such as a deadline, may be repeated.
//
// The zero Reader needs Reset. A Reader must not be used concurrently.
type Reader struct {
	src    io.Reader
	limits Limits

	buf  *Buffer // nil when nothing is buffered
	held *Buffer // holds the head, once buf is another buffer
	base int     // buf below base is the head's
	r, w int     // buf.B[r:w] was read from src and not yet consumed

	scan scan  // progress through an incomplete head or trailer section
	live bool  // a head was read; its views are in use
	open bool  // its body has not been read to the end
	left int64 // bytes of the body yet to come, Chunked or UntilClose
	err  error // why nothing can be read any more

	chunks  chunks
	head    *Header // of the current message; names the expected trailers
	trailer Header
}

// Reset makes r read from src, forgetting everything and giving every buffer
// back. Reset(nil, Limits{}) ends the use of r.
func (r *Reader) Reset(src io.Reader, limits Limits) {
	if r.buf != nil {
		r.buf.Free()
	}
	if r.held != nil {
		r.held.Free()
	}
	r.trailer.Reset()
	*r = Reader{src: src, limits: limits.withDefaults(), trailer: r.trailer}
}

// Next ends the current message: nothing that came from it is valid any more.
// It panics if the body has not been read to its end, since the following
// bytes would be taken for a message. Reading a head implies Next.
func (r *Reader) Next() {
	if r.open {
		panic("wire: Next within a message")
	}
	if r.held != nil {
		r.held.Free()
		r.held = nil
	}
	r.live, r.base, r.head, r.scan = false, 0, nil, scan{}
	r.trailer.Reset()
	if r.r == r.w {
		r.r, r.w = 0, 0
		if r.buf != nil && len(r.buf.B) > r.limits.Buffer {
			r.freeBuffer()
		}
	}
}

// Release ends the current message and keeps no more memory than the bytes
// read beyond it need, so that an idle connection costs little. Within a
// message it does nothing.
func (r *Reader) Release() {
	if r.open {
		return
	}
	r.Next()
	switch n := r.w - r.r; {
	case r.buf == nil:
	case n == 0:
		r.freeBuffer()
	default:
		if _, room := classOf(n); room < len(r.buf.B) {
			r.replaceBuffer(n)
		}
	}
}

// Unread is the number of bytes that are known to lie beyond the current
// message. An upstream connection that has some after its response must not be
// used again.
func (r *Reader) Unread() int {
	switch {
	case !r.open:
		return r.w - r.r
	case r.left >= 0:
		return int(max(int64(r.w-r.r)-r.left, 0))
	}
	return 0
}

// Rest returns the bytes read beyond the current message, whose body must be
// done: after a 101 or an upgrade request they belong to the new protocol. It
// is valid until Next.
func (r *Reader) Rest() []byte {
	if r.open || r.buf == nil {
		return nil
	}
	return r.buf.B[r.r:r.w]
}

// HasPrefix reports whether the bytes to come, none of which it consumes,
// begin with prefix. It reads no more than it takes to tell. A stream that
// ends before is not an error.
func (r *Reader) HasPrefix(prefix string) (bool, error) {
	for {
		n := min(r.w-r.r, len(prefix))
		if n > 0 && string(r.buf.B[r.r:r.r+n]) != prefix[:n] {
			return false, nil
		}
		if n == len(prefix) {
			return true, nil
		}
		if err := r.fill(); err != nil {
			if err == io.EOF {
				return false, nil
			}
			return false, err
		}
	}
}

// fill reads once from the connection into the buffer, which it makes or
// enlarges if it is full. What is unread may move.
func (r *Reader) fill() error {
	r.room(1)
	n, err := r.read(r.buf.B[r.w:])
	r.w += n
	return err
}

// read reads at least one byte, or fails.
func (r *Reader) read(p []byte) (int, error) {
	for range 100 {
		n, err := r.src.Read(p)
		switch {
		case n > 0:
			return n, nil // an error that lasts comes again
		case err != nil:
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// room makes space for n more bytes behind the unread ones and leaves the head
// of the current message where it is.
func (r *Reader) room(n int) {
	if r.buf == nil {
		r.buf = GetBuffer(max(n, r.limits.Buffer))
		r.base, r.r, r.w = 0, 0, 0
		return
	}
	if r.r == r.w {
		r.r, r.w = r.base, r.base
	}
	if len(r.buf.B)-r.w >= n {
		return
	}
	if free := r.r - r.base; free > 0 && len(r.buf.B)-r.w+free >= n {
		r.w = r.base + copy(r.buf.B[r.base:], r.buf.B[r.r:r.w])
		r.r = r.base
		return
	}
	r.replaceBuffer(r.w - r.r + n)
}

// replaceBuffer moves the unread bytes into a buffer of size bytes or more.
func (r *Reader) replaceBuffer(size int) {
	b := GetBuffer(size)
	n := copy(b.B, r.buf.B[r.r:r.w])
	if r.base > 0 {
		r.held = r.buf
	} else {
		r.buf.Free()
	}
	r.buf, r.base, r.r, r.w = b, 0, 0, n
}

func (r *Reader) freeBuffer() {
	r.buf.Free()
	r.buf, r.r, r.w = nil, 0, 0
}

// fail makes err the answer to every further read.
func (r *Reader) fail(err error) error {
	r.err, r.live, r.open = err, true, true
	return err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

package wire

import "io"

// begin starts the body of a message whose head was just read.
func (r *Reader) begin(length int64) {
	r.left, r.open = length, length != 0
	r.chunks = chunks{}
	r.scan = scan{}
}

// BodyDone reports whether the body, if there is one, was read to its end.
func (r *Reader) BodyDone() bool { return !r.open }

// ReadBody reads decoded bytes of the current message's body, never beyond its
// end, and returns what is there without waiting for more. At the end it
// returns io.EOF, possibly with the last bytes.
//
// It fails with ErrMalformed if the framing is broken, with ErrHeadTooLarge if
// the trailer section exceeds its limit, and with io.ErrUnexpectedEOF if the
// stream ends early.
func (r *Reader) ReadBody(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case !r.open:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	case r.left == Chunked:
		return r.readChunked(p)
	}
	if r.left >= 0 && int64(len(p)) > r.left {
		p = p[:r.left]
	}
	if r.r < r.w {
		n := copy(p, r.buf.B[r.r:r.w])
		return n, r.advance(n)
	}
	n, err := r.read(p)
	switch {
	case err == nil:
		return n, r.consume(n)
	case err == io.EOF && r.left == UntilClose:
		r.open = false
		return 0, io.EOF
	}
	return 0, unexpected(err)
}

// advance takes n buffered bytes off the body.
func (r *Reader) advance(n int) error {
	r.r += n
	return r.consume(n)
}

func (r *Reader) consume(n int) error {
	if r.left < 0 {
		return nil
	}
	if r.left -= int64(n); r.left == 0 {
		r.open = false
		return io.EOF
	}
	return nil
}

// Buffered returns the bytes of the body that were read along with the head,
// so that both can be passed on with one write. Skip consumes them; they stay
// valid until the next read of the body. It is empty for chunked bodies.
func (r *Reader) Buffered() []byte {
	if !r.open || r.left == Chunked || r.buf == nil || r.err != nil {
		return nil
	}
	b := r.buf.B[r.r:r.w]
	if r.left >= 0 && int64(len(b)) > r.left {
		b = b[:r.left]
	}
	return b
}

// Skip consumes n bytes of what Buffered returned.
func (r *Reader) Skip(n int) {
	if n > len(r.Buffered()) {
		panic("wire: Skip beyond Buffered")
	}
	_ = r.advance(n) // BodyDone tells the end
}

// WholeBody appends the whole rest of the body to dst and consumes it, if all
// of it is in the buffer; otherwise it changes nothing and reports false. It
// allocates only if dst lacks the capacity for the bytes in the buffer.
func (r *Reader) WholeBody(dst []byte) ([]byte, bool) {
	switch {
	case r.err != nil:
		return dst, false
	case !r.open:
		return dst, true
	case r.left == Chunked:
		return r.wholeChunked(dst)
	}
	b := r.Buffered()
	if int64(len(b)) != r.left {
		return dst, false
	}
	dst = append(dst, b...)
	r.Skip(len(b))
	return dst, true
}

// Trailer returns the trailer fields that the head's Trailer field announced,
// once a chunked body was read to its end; without those that must not be sent
// as trailers (RFC 9110 §6.5.1) and those that a gateway sets itself.
func (r *Reader) Trailer() *Header { return &r.trailer }

package wire

import (
	"bytes"
)

// A scan looks for the empty line that ends a head or a trailer section, and
// remembers how far it got. Positions count from the section's first byte.
type scan struct {
	seen  int // bytes looked at
	line  int // where the current line starts
	lines int // complete lines
	blank int // empty lines skipped before a request

	longest int // bytes that a line of a head may have; 0: any number
}

// end returns the length of the section with its empty line, or 0 if b does
// not hold all of it. Every line must end in CRLF.
func (s *scan) end(b []byte, limit, lines int) (int, error) {
	b = b[:min(len(b), limit)]
	for {
		n := bytes.IndexByte(b[s.seen:], '\n')
		if n < 0 {
			s.seen = len(b)
			if len(b) == limit {
				return 0, ErrHeadTooLarge
			}
			return 0, s.long(len(b))
		}
		lf := s.seen + n
		if lf == s.line || b[lf-1] != '\r' {
			return 0, ErrMalformed
		}
		s.seen = lf + 1
		if err := s.long(s.seen); err != nil {
			return 0, err
		}
		if lf == s.line+1 {
			return lf + 1, nil
		}
		s.line = lf + 1
		if s.lines++; s.lines > lines {
			return 0, ErrHeadTooLarge
		}
	}
}

// long says that the current line, of which the bytes before end are known, has too
// many.
func (s *scan) long(end int) error {
	switch {
	case s.longest == 0 || end-s.line <= s.longest:
		return nil
	case s.lines == 0:
		return ErrStartLine
	}
	return ErrFieldLine
}

// maxBlank is the number of empty lines tolerated before a request line
// (RFC 9112 §2.2).
const maxBlank = 4

// readHead waits for a whole head, consumes it and returns it with its empty
// line. io.EOF means that the stream ended before the first byte.
func (r *Reader) readHead(request bool) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.live {
		r.Next()
	}
	for {
		n, err := r.headEnd(request)
		if err != nil {
			return nil, r.fail(err)
		}
		if n > 0 {
			head := r.buf.B[r.r : r.r+n : r.r+n]
			r.r += n
			r.live, r.open, r.base = true, false, r.r
			return head, nil
		}
		if err := r.fill(); err != nil {
			if r.r == r.w {
				return nil, err
			}
			return nil, unexpected(err)
		}
	}
}

// headEnd is the length of the head that starts the unread bytes, 0 if it is
// incomplete.
func (r *Reader) headEnd(request bool) (int, error) {
	for request && r.w > r.r && r.buf.B[r.r] == '\r' {
		if r.w-r.r == 1 {
			return 0, nil
		}
		if r.buf.B[r.r+1] != '\n' || r.scan.blank == maxBlank {
			return 0, ErrMalformed
		}
		r.r += 2
		r.scan.blank++
	}
	if r.w == r.r {
		return 0, nil
	}
	b := r.buf.B[r.r:r.w]
	// Something that cannot become HTTP, such as a TLS handshake, is not awaited.
	if !tokenByte[b[0]] {
		return 0, ErrMalformed
	}
	r.scan.longest = r.limits.Line
	return r.scan.end(b, r.limits.Head, r.limits.Fields+1)
}

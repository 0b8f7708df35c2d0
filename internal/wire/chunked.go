package wire

import (
	"io"
	"slices"
)

// chunks is the progress through a chunked body (RFC 9112 §7.1).
type chunks struct {
	state  chunkState
	digits int8  // of the size, so far
	ext    int16 // bytes of the chunk's extensions, so far
	left   int64 // bytes of the chunk yet to come; its size while that is read
}

type chunkState uint8

const (
	inSize chunkState = iota
	inExtension
	afterSize // CR seen, LF due
	inData
	afterData    // CR due
	afterDataEnd // CR seen, LF due
	inTrailer
)

const (
	maxChunkDigits    = 16
	maxChunkExtension = 256
)

// decode decodes src into dst, which may start at the same place, until one of
// them is used up or the trailer section starts. Framing that follows the last
// data is consumed though dst be full.
func (c *chunks) decode(dst, src []byte) (n, used int, err error) {
	for used < len(src) && c.state != inTrailer {
		if c.state == inData {
			data := src[used:]
			if int64(len(data)) > c.left {
				data = data[:c.left]
			}
			m := copy(dst[n:], data)
			if m == 0 {
				return n, used, nil
			}
			n, used, c.left = n+m, used+m, c.left-int64(m)
			if c.left == 0 {
				c.state = afterData
			}
			continue
		}
		if !c.frame(src[used]) {
			return n, used, ErrMalformed
		}
		used++
	}
	return n, used, nil
}

// frame consumes one byte of framing.
func (c *chunks) frame(b byte) bool {
	switch c.state {
	case inSize:
		return c.size(b)
	case inExtension:
		if b == '\r' {
			c.state = afterSize
			return true
		}
		c.ext++
		return c.ext <= maxChunkExtension && (b >= ' ' && b != 0x7f || b == '\t')
	case afterSize:
		c.state = inData
		if c.left == 0 {
			c.state = inTrailer
		}
		return b == '\n'
	case afterData:
		c.state = afterDataEnd
		return b == '\r'
	default:
		*c = chunks{}
		return b == '\n'
	}
}

func (c *chunks) size(b byte) bool {
	if v := hexValue(b); v != 0xff {
		c.digits++
		if c.digits > maxChunkDigits || c.left>>59 != 0 {
			return false
		}
		c.left = c.left<<4 | int64(v)
		return true
	}
	if b == ';' {
		c.state = inExtension
	} else {
		c.state = afterSize
	}
	return c.digits > 0 && (b == ';' || b == '\r')
}

// minDirect is the size from which on a chunked body is read into the caller's
// memory and decoded there.
const minDirect = 2 << 10

func (r *Reader) readChunked(p []byte) (int, error) {
	for {
		n, err := r.decodeBuffered(p)
		if n > 0 || err != nil {
			return n, err
		}
		if r.chunks.state == inTrailer || len(p) < minDirect {
			if err := r.fill(); err != nil {
				return 0, unexpected(err)
			}
			continue
		}
		if n, err = r.decodeDirect(p); n > 0 || err != nil {
			return n, err
		}
	}
}

// decodeBuffered decodes what is buffered. Broken framing behind good bytes is
// reported by the next read.
func (r *Reader) decodeBuffered(p []byte) (n int, err error) {
	if r.r < r.w {
		var used int
		n, used, err = r.chunks.decode(p, r.buf.B[r.r:r.w])
		r.r += used
	}
	if err == nil && r.chunks.state == inTrailer {
		err = r.readTrailer()
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	r.err = err
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// decodeDirect reads into p and decodes there; what lies beyond the last chunk
// goes to the buffer, which is empty.
func (r *Reader) decodeDirect(p []byte) (int, error) {
	m, err := r.read(p)
	if err != nil {
		return 0, unexpected(err)
	}
	n, used, err := r.chunks.decode(p, p[:m])
	if err != nil {
		r.err = err
		if n > 0 {
			return n, nil
		}
		return 0, err
	}
	if used < m {
		r.room(m - used)
		r.w += copy(r.buf.B[r.w:], p[used:m])
	}
	if r.chunks.state != inTrailer {
		return n, nil
	}
	_, err = r.decodeBuffered(p[n:])
	if n > 0 && err != io.EOF {
		return n, nil
	}
	return n, err
}

func (r *Reader) wholeChunked(dst []byte) ([]byte, bool) {
	if r.r == r.w {
		return dst, false
	}
	before := r.chunks
	src := r.buf.B[r.r:r.w]
	out := slices.Grow(dst, len(src))
	n, used, err := r.chunks.decode(out[len(dst):len(dst)+len(src)], src)
	if err == nil && r.chunks.state == inTrailer {
		r.r += used
		if err := r.readTrailer(); err == io.EOF {
			return out[:len(dst)+n], true
		}
		r.r -= used
	}
	r.chunks, r.scan = before, scan{}
	return dst, false
}

package engine

import (
	"strconv"

	"weir/internal/wire"
)

// smallWrite is how much is copied together to be sent by one plain write; what
// is larger is gathered by the kernel instead.
const smallWrite = 16 << 10

// WriteHead implements stream: it sends a response's head together with the
// beginning of its body; last says that this is all of it.
func (c *conn) WriteHead(r *wire.Response, body []byte, last bool) error {
	c.head = c.appendHead(c.head[:0], r, last, int64(len(body)))
	switch {
	case r.Status < 200:
		return c.send(c.head)
	case c.framing == noBody:
		body = nil
	}
	return c.sendPiece(body, last)
}

// Write implements stream: it sends more of the body.
func (c *conn) Write(body []byte, last bool) error {
	c.head = c.head[:0]
	if c.framing == noBody || len(body) == 0 && !last {
		return nil
	}
	return c.sendPiece(body, last)
}

// sendPiece sends what stands in c.head, then a piece of the body, framed.
func (c *conn) sendPiece(body []byte, last bool) error {
	c.ctx.Sent.BodyBytes += int64(len(body))
	c.tail = c.tail[:0]
	if c.framing == chunked {
		if len(body) > 0 {
			c.head = wire.AppendChunkSize(c.head, len(body))
			c.tail = append(c.tail, "\r\n"...)
		}
		if last {
			c.tail = wire.AppendLastChunk(c.tail, c.trailer)
		}
	}
	if len(c.head)+len(body)+len(c.tail) <= smallWrite {
		c.head = append(append(c.head, body...), c.tail...)
		if len(c.head) == 0 {
			return nil
		}
		return c.send(c.head)
	}
	c.vec = append(c.vecs[:0], c.head, body, c.tail)
	c.write.extend(&c.engine.clock, c.engine.SendTimeout)
	n, err := c.vec.WriteTo(c.nc)
	c.ctx.Sent.Bytes += n
	return err
}

// appendHead prints the head and decides how the body's end is marked. size is
// the length of the body if last, else what is known of it.
func (c *conn) appendHead(dst []byte, r *wire.Response, last bool, size int64) []byte {
	dst = wire.AppendStatusLine(dst, r.Status, r.Reason)
	dst = r.Header.AppendTo(dst)
	if r.Status < 200 {
		return append(dst, "\r\n"...)
	}
	length := r.Length
	if last && (length != wire.Chunked || c.request.Proto != wire.HTTP11) {
		length = size
	}
	switch {
	case bodiless(c.request.Method, r.Status):
		c.framing = noBody
	case length >= 0:
		c.framing = counted
		dst = append(strconv.AppendInt(append(dst, "Content-Length: "...), length, 10), "\r\n"...)
	case c.request.Proto == wire.HTTP11:
		c.framing = chunked
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	default:
		c.framing, c.closeAfter = untilClose, true
	}
	c.closeAfter = c.closeAfter || c.request.Close || c.engine.NoKeepalive || c.engine.drain.Begun()
	switch {
	case c.closeAfter:
		dst = append(dst, "Connection: close\r\n"...)
	case c.request.Proto == wire.HTTP10:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// bodiless says that a response has no body whatever its head announces
// (RFC 9110 §6.4.1).
func bodiless(method string, status int) bool {
	return method == "HEAD" || status == 204 || status == 304
}

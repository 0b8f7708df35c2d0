package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"weir/internal/wire"
)

// window is how much of a request's body is kept, so that it can be sent to
// another node.
const window = 64 << 10

// An upload is a request's body on its way. What is at hand goes out with the
// head, from the Call's goroutine. If that is not all, a second goroutine reads
// and sends the rest, while the first waits for the answer; it outlives the
// connections of failed tries, because a Read of the body cannot be taken back.
//
// Bytes go through buf. Until it is full they stay there, to be sent again;
// then its room is used anew for each piece, and there is no further try.
type upload struct {
	body    io.Reader // nil: there is none
	length  int64     // bytes, or wire.Chunked
	trailer func() *wire.Header

	mu   sync.Mutex
	wake sync.Cond // on mu: to, writing, running, stop or final changed
	buf  *wire.Buffer
	kept int   // bytes at the start of buf that can be sent again
	read int64 // bytes
	over bool  // more was read than buf holds
	end  bool  // all was read
	err  error // why reading failed

	to       *conn // where it goes; nil: to no connection now
	sent     int64 // bytes that to got
	complete bool  // to got the end, too
	sendErr  error // why sending to the last connection failed
	writing  bool  // somebody writes to a connection
	running  bool  // the goroutine
	stop     bool  // nothing more is to be sent
	final    bool  // no other connection will come

	frames [3][]byte
	pieces net.Buffers
	size   []byte // of a chunk
	tail   []byte // the end of a chunk, or of all
}

// start prepares for one request and reads what is at hand.
func (u *upload) start(body io.Reader, length int64, trailer func() *wire.Header) {
	u.body = body
	if body == nil {
		return
	}
	u.wake.L = &u.mu
	u.length, u.trailer = length, trailer
	u.end = length == 0
	size := int64(window)
	if length >= 0 {
		size = min(length, size)
	}
	u.buf = wire.GetBuffer(int(size))
	u.buf.B = u.buf.B[:size]
	for !u.end && u.err == nil && u.kept < len(u.buf.B) && ready(body) {
		u.record(body.Read(u.limited(u.buf.B[u.kept:])))
	}
}

// ready reports whether body's next Read returns at once.
func ready(body io.Reader) bool {
	switch b := body.(type) {
	case interface{ Ready() bool }:
		return b.Ready()
	case interface{ Len() int }:
		return true
	}
	return false
}

// limited cuts p to what is left of a body whose length is known.
func (u *upload) limited(p []byte) []byte {
	if u.length >= 0 {
		p = p[:min(int64(len(p)), u.length-u.read)]
	}
	return p
}

// record notes what a Read of the body returned.
func (u *upload) record(n int, err error) {
	u.read += int64(n)
	if !u.over {
		u.kept += n
	}
	switch {
	case u.length >= 0 && u.read == u.length:
		u.end = true
	case err == nil:
	case err != io.EOF:
		u.err = err
	case u.length >= 0:
		u.err = io.ErrUnexpectedEOF
	default:
		u.end = true
	}
}

// begin sends head and what was read of the body so far, and makes c the
// connection that the rest goes to.
func (u *upload) begin(c *conn, head []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	kept, end := u.kept, u.end
	u.writing = true
	c.uploading.Store(!end)
	u.mu.Unlock()
	err := u.write(c, head, u.buf.B[:kept], end)
	u.mu.Lock()
	u.writing = false
	u.sent, u.complete, u.sendErr = int64(kept), end && err == nil, err
	if err == nil {
		err = u.err // of the goroutine, meanwhile
	}
	if err != nil {
		c.uploading.Store(false)
		return err
	}
	u.to = c
	if !end && !u.running {
		u.running = true
		go u.run()
	}
	u.wake.Broadcast()
	return nil
}

// write writes head, which may be empty, one piece of the body, framed, and the
// end.
func (u *upload) write(c *conn, head, piece []byte, end bool) error {
	u.pieces = net.Buffers(u.frames[:0])
	if u.length == wire.Chunked {
		u.size, u.tail = append(u.size[:0], head...), u.tail[:0]
		if len(piece) > 0 {
			u.size = wire.AppendChunkSize(u.size, len(piece))
			u.tail = append(u.tail, "\r\n"...)
		}
		if end {
			u.tail = wire.AppendLastChunk(u.tail, u.fields())
		}
		u.pieces = append(u.pieces, u.size, piece, u.tail)
	} else {
		u.pieces = append(u.pieces, head, piece)
	}
	return c.write(&u.pieces)
}

func (u *upload) fields() *wire.Header {
	if u.trailer == nil {
		return nil
	}
	return u.trailer()
}

// run reads and sends what begin left.
func (u *upload) run() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.wait() && !u.complete {
		at := 0
		if u.kept == len(u.buf.B) {
			u.over = true
		} else {
			at = u.kept
		}
		p := u.limited(u.buf.B[at:])
		u.mu.Unlock()
		n, err := u.body.Read(p)
		u.mu.Lock()
		u.record(n, err)
		if u.err != nil {
			u.cut()
			break
		}
		if !u.pass(n) {
			break
		}
	}
	u.running = false
	u.wake.Broadcast()
}

// wait waits until there is a connection; false: it is over.
func (u *upload) wait() bool {
	for u.to == nil && !u.stop && !u.final {
		u.wake.Wait()
	}
	return u.to != nil && !u.stop
}

// cut closes the connection of a request whose body cannot be completed.
func (u *upload) cut() {
	if u.to != nil {
		u.to.shut()
	}
}

// pass sends what was read and not yet sent: the last n bytes, or all that the
// window holds and a new connection has not got. False: it is over.
func (u *upload) pass(n int) bool {
	for u.wait() && !u.complete {
		piece := u.buf.B[:n]
		if !u.over {
			piece = u.buf.B[u.sent:u.kept]
		}
		if len(piece) == 0 && !u.end {
			return true
		}
		c, end := u.to, u.end
		u.writing = true
		u.mu.Unlock()
		err := u.write(c, nil, piece, end)
		c.lastWrite.Store(int64(c.now().Sub(c.born)))
		u.mu.Lock()
		u.writing = false
		u.wake.Broadcast()
		if err == nil && u.to == c {
			u.sent, u.complete = u.read, end
			c.uploading.Store(!end)
			return !end
		}
		u.lose(c, err)
	}
	return false
}

// lose notes that c takes nothing more. A node that stopped reading may have
// answered: the Call's goroutine goes on reading, unless the node is stuck.
func (u *upload) lose(c *conn, err error) {
	c.uploading.Store(false)
	if u.to != c {
		return
	}
	u.to, u.sendErr = nil, err
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.shut()
	}
}

// detach takes the connection away, which is shut already, and reports whether
// all that was read can be sent on another.
func (u *upload) detach() (again bool) {
	if u.body == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.to = nil
	for u.writing {
		u.wake.Wait()
	}
	return !u.over && u.err == nil
}

// replayable says that the whole body was sent, and can be sent again.
func (u *upload) replayable() bool {
	if u.body == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.complete && !u.over && u.err == nil
}

// faults returns why reading the body and why sending it failed.
func (u *upload) faults() (read, send error) {
	if u.body == nil {
		return nil, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err, u.sendErr
}

// settle says that no other connection will come, since this one answered.
func (u *upload) settle() {
	if u.body == nil {
		return
	}
	u.mu.Lock()
	u.final = true
	u.wake.Broadcast()
	u.mu.Unlock()
}

// await waits until everything was sent or nothing more will be.
func (u *upload) await(aborted func() bool) error {
	if u.body == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.running && !aborted() {
		u.wake.Wait()
	}
	switch {
	case u.complete:
		return nil
	case u.sendErr != nil:
		return u.sendErr
	}
	return net.ErrClosed
}

// notify wakes await.
func (u *upload) notify() {
	u.mu.Lock()
	u.wake.Broadcast()
	u.mu.Unlock()
}

// lastWriteWait is how long a node that has answered completely may take to
// accept the end of the request.
const lastWriteWait = 50 * time.Millisecond

// done reports whether everything was sent. The answer to the last bytes may be
// here before the goroutine that wrote them knows that they are gone.
func (u *upload) done() bool {
	if u.body == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.to; c != nil && u.end && u.writing && c.tcp.SetWriteDeadline(c.now().Add(lastWriteWait)) == nil {
		for u.writing {
			u.wake.Wait()
		}
		c.writeBy = time.Time{}
	}
	return u.complete
}

// finish ends the goroutine, whose connection is complete or shut, waits for
// it, and forgets the body.
func (u *upload) finish(stopBody func()) {
	if u.body == nil {
		return
	}
	u.mu.Lock()
	u.stop = true
	u.wake.Broadcast()
	if u.running && !u.complete && stopBody != nil {
		u.mu.Unlock()
		stopBody()
		u.mu.Lock()
	}
	for u.running {
		u.wake.Wait()
	}
	u.buf.Free()
	u.body, u.trailer, u.buf, u.to = nil, nil, nil, nil
	u.kept, u.read, u.sent = 0, 0, 0
	u.over, u.end, u.complete, u.stop, u.final = false, false, false, false, false
	u.err, u.sendErr = nil, nil
	u.mu.Unlock()
}

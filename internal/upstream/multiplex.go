package upstream

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"weir/internal/model"
	"weir/internal/upstream/h2"
	"weir/internal/wire"
)

// A stream is a Call's part of a shared connection.
type stream struct {
	*h2.Stream
	on        *shared
	pool      *sharedPool
	keepalive *model.Keepalive
	now       func() time.Time
	feed      feed
	watch     watch
	over      bool // the response's body was read to its end
	given     bool // back
}

// stream makes the part of s that c has reserved.
func (c *Call) stream(s *shared) *conn {
	t := &stream{Stream: s.Stream(), on: s, pool: &c.end.pool.shared, keepalive: &c.up.keepalive, now: c.up.env.Now}
	t.feed.u, t.feed.watch = &c.upload, &t.watch
	return &conn{stream: t}
}

// shut makes whatever the stream is at fail.
func (t *stream) shut() {
	t.feed.close()
	t.Close()
}

// end gives the stream's part of the connection back.
func (t *stream) end() {
	if t.given {
		return
	}
	t.given = true
	t.shut()
	t.watch.stop()
	t.Release()
	t.pool.give(t.on, t.keepalive, t.now())
}

// requests says that the scheme carries requests.
func requests(scheme string) bool {
	return scheme == "http" || scheme == "https" || multiplexed(scheme)
}

// multiplexed says that the scheme's requests share connections.
func multiplexed(scheme string) bool { return scheme == "grpc" || scheme == "grpcs" }

// converse is exchange on a shared connection.
func (c *Call) converse(n *node) error {
	conn := c.conn
	t := conn.stream
	q := h2.Request{
		Method: c.method(), Scheme: "http", Authority: c.authority(n), Target: c.Target,
		Header: &c.Request.Header, Extra: c.Extra, Length: c.Length,
	}
	if q.Target == "" {
		q.Target = c.Request.Target
	}
	if c.isTLS() == 1 {
		q.Scheme = "https"
	}
	if c.Body != nil && c.Length != 0 {
		q.Body = &t.feed
		if c.Request.Trailers && c.Trailer != nil {
			q.Trailer = c.Trailer
		}
	}
	dropOwn(q.Header)
	t.watch.start(conn, t.shut)
	t.watch.wait()
	err := t.RoundTrip(&q, &c.resp)
	t.watch.done()
	if err == nil {
		c.answered()
		return nil
	}
	if t.watch.expired.Load() {
		err = os.ErrDeadlineExceeded
	}
	c.unprocessed = errors.Is(err, h2.ErrUnprocessed)
	if !c.unprocessed {
		conn.written = 1
	}
	c.busy = !t.on.Ended()
	err = c.lose(err)
	c.unprocessed = c.unprocessed && c.repeat
	return err
}

// readBody reads the response's body.
func (t *stream) readBody(p []byte) (int, error) {
	t.watch.wait()
	n, err := t.Read(p)
	t.watch.done()
	if t.over = err == io.EOF; err != nil && !t.over && t.watch.expired.Load() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// A watch ends a stream on which nothing goes on: the node is waited for and
// nothing came for the read time-out, nor did anything of the request leave; or
// it takes nothing of the request for the send time-out.
type watch struct {
	timer      *time.Timer
	read, send time.Duration
	origin     time.Time
	end        func()

	moved   atomic.Int64 // when something did last, since origin
	waiting atomic.Bool  // for the node
	handed  atomic.Int64 // since when a piece of the request waits to be sent; 0: none does
	expired atomic.Bool
	stopped atomic.Bool
}

func (w *watch) start(c *conn, end func()) {
	w.read, w.send, w.end = c.readTimeout, c.sendTimeout, end
	w.origin = time.Now()
	w.timer = time.AfterFunc(min(w.read, w.send), w.look)
}

func (w *watch) now() int64 { return int64(max(1, time.Since(w.origin))) }

// wait says that the node is waited for.
func (w *watch) wait() {
	w.moved.Store(w.now())
	w.waiting.Store(true)
}

func (w *watch) done() { w.waiting.Store(false) }

// look runs on the timer's goroutine.
func (w *watch) look() {
	now := w.now()
	left := w.read
	if w.waiting.Load() {
		left -= time.Duration(now - w.moved.Load())
	}
	if since := w.handed.Load(); since != 0 {
		left = min(left, w.send-time.Duration(now-since))
	} else {
		left = min(left, w.send)
	}
	switch {
	case w.stopped.Load():
		return
	case left > 0:
		w.timer.Reset(left)
		return
	}
	w.expired.Store(true)
	w.end()
}

func (w *watch) stop() {
	w.stopped.Store(true)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// A feed is the request's body as one stream reads it: first what other streams
// have read of it in vain, then the rest. Only one of them reads on at a time,
// because a Read of the body cannot be taken back.
type feed struct {
	u      *upload
	watch  *watch
	at     int  // how much of what is kept was read
	closed bool // guarded by u.mu
}

var errFeedClosed = errors.New("the stream has ended")

// Close implements io.Closer.
func (f *feed) Close() error {
	f.close()
	return nil
}

func (f *feed) close() {
	f.u.mu.Lock()
	f.closed = true
	f.u.wake.Broadcast()
	f.u.mu.Unlock()
}

// Read implements io.Reader.
func (f *feed) Read(p []byte) (int, error) {
	f.watch.handed.Store(0)
	f.watch.moved.Store(f.watch.now())
	n, err := f.next(p)
	if n > 0 && err == nil {
		f.watch.handed.Store(f.watch.now())
	}
	return n, err
}

func (f *feed) next(p []byte) (n int, err error) {
	u := f.u
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		switch {
		case f.closed:
			return 0, errFeedClosed
		case f.at < u.kept && !u.over:
			n = copy(p, u.buf.B[f.at:u.kept])
			f.at += n
			return n, f.ended(f.at == u.kept)
		case u.end, u.err != nil:
			return 0, f.ended(true)
		case u.running:
			u.wake.Wait()
			continue
		}
		if n, err = f.more(p); n > 0 || err != nil {
			return n, err
		}
	}
}

// ended is the body's end, or its failure, if everything before was read.
func (f *feed) ended(all bool) error {
	switch u := f.u; {
	case !all:
		return nil
	case u.err != nil:
		return u.err
	case u.end:
		u.complete = true
		return io.EOF
	}
	return nil
}

// more reads on. While all that was read is kept it goes where it is kept, for
// whoever may need it; n is then 0. u.mu is held, but not while reading.
func (f *feed) more(p []byte) (n int, err error) {
	u := f.u
	to := p
	switch {
	case u.over:
	case u.final: // nobody needs it any more
		u.over = true
		u.buf.Free()
		u.buf = wire.GetBuffer(0)
	case u.kept == len(u.buf.B):
		u.over = true
	default:
		to = u.buf.B[u.kept:]
	}
	to = u.limited(to)
	over := u.over
	u.running = true
	u.mu.Unlock()
	n, err = u.body.Read(to)
	u.mu.Lock()
	u.running = false
	u.record(n, err)
	u.wake.Broadcast()
	if !over {
		return 0, nil
	}
	if f.closed {
		return 0, errFeedClosed
	}
	return n, f.ended(true)
}

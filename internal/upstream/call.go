package upstream

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"weir/internal/model"
	"weir/internal/wire"
)

// A Call is one request on its way to an upstream, and its answer. The caller
// sets the fields, calls RoundTrip, reads the body and calls Finish; then Reset
// makes the Call ready for the next request. All methods but Abort belong to one
// goroutine. The zero Call is ready.
type Call struct {
	// Request is the client's, with the edits made to its Header. Fields that
	// are the connection's own (Host, Connection, Content-Length, Expect and
	// the like) are not sent whoever set them; that a field is hop-by-hop only
	// because Connection nominates it is for the caller to see to.
	Request *wire.Request

	Method string // empty: the Request's
	Target string // empty: the Request's

	// Host is the client's, sent by pass_host pass; empty: the Request's. If that
	// is empty too (HTTP/1.0), the node's is sent. ForceHost is sent whatever
	// pass_host says.
	Host, ForceHost string

	// Scheme is used instead of the upstream's; empty: the upstream's.
	Scheme string

	// HashKey returns what an upstream of type chash chooses the node by. The
	// string is read before RoundTrip sends anything. nil: the empty key.
	HashKey func() string

	// Extra are complete lines, each with CRLF, that follow the client's.
	Extra []byte

	// Body is the client's decoded body of Length bytes or wire.Chunked; nil:
	// none, Length is ignored. What Body has at hand goes out with the head: all
	// that it returns while it has a method Ready() bool that says that Read would
	// not wait, or everything if it has a method Len() int. The rest is read by
	// another goroutine, which Finish waits for. No more than Length bytes are
	// read.
	Body   io.Reader
	Length int64

	// Trailer returns the fields that follow a Chunked Body, after its end; it
	// may be nil and may return nil.
	Trailer func() *wire.Header

	// StopBody makes a Body.Read that is under way, and later ones, return with
	// an error. It is called by Finish when the rest of the body is not wanted
	// any more; nil: Body.Read always returns by itself.
	StopBody func()

	Timeout *model.Timeout // the route's; its zero fields are the upstream's
	Retries *int           // further tries after the first; nil: the upstream's

	// BeforeTry is called when a node is chosen (Node), before anything is sent
	// to it; try counts from 0. An error ends RoundTrip, which returns it.
	BeforeTry func(try int) error

	// Early is called with every interim response but 101. The response is gone
	// when it returns. An error ends RoundTrip, which returns it.
	Early func(*wire.Response) error

	// Response is the head of the answer when RoundTrip has returned nil. It may
	// be edited; it is valid until Finish.
	Response *wire.Response

	// Node is the host:port of the last node that was chosen.
	Node string

	// Status is what the client was answered, set before Finish: passive health
	// checks count it. 0: the Response's.
	Status int

	// Tries lists what was tried, in order. That a kept connection turned out to
	// be closed, and the request was sent again to the same node, is no try.
	Tries []Try

	state
}

// A Try is one attempt to reach a node.
type Try struct {
	Addr    string // host:port, of the address where the node is a name
	Scheme  string
	Host    string // that was sent; it lives as long as the request
	Status  int    // 0: no response
	Connect time.Duration
	Header  time.Duration // from the start of the try to the response's head
	Total   time.Duration // from the start of the try to Finish, or to its failure
	Err     error         // why there was no response
}

// state is what a Call keeps to itself.
type state struct {
	up       *Upstream
	set      *nodeSet
	scheme   string
	filter   filter
	held     *load     // of the chosen node; nil: not counted
	counts   bool      // for passive checks
	end      *endpoint // the chosen address; nil: none
	id       ident     // what its connection must be
	cert     *Certificate
	timeout  model.Timeout
	started  time.Time // of the first try
	began    time.Time // of the current try
	attempts int       // tries that count
	tried    []int32
	reused   bool // the connection had been used before
	repeat   bool // what failed may be sent again
	refused  bool // Early returned an error

	// unprocessed: the node did not look at the request, which can be sent again
	// at once; busy: nor does it want to, but the connection goes on.
	unprocessed, busy bool

	broken  bool // reading the body of the response failed
	resp    wire.Response
	upload  upload
	stopped bool
	ended   time.Time // of the exchange, once stopped
	leaving *conn     // what Finish gives back, or closes if it is not clean
	clean   bool

	// mu guards what Abort reaches for from its goroutine.
	mu      sync.Mutex
	aborted bool
	cancel  context.CancelFunc // of the connecting
	conn    *conn
}

// ReadBody reads decoded bytes of the response's body, as wire.Reader.ReadBody
// does: io.EOF is its complete end and may come with the last bytes. Other
// errors are an *Error.
func (c *Call) ReadBody(p []byte) (n int, err error) {
	if c.conn.stream != nil {
		n, err = c.conn.stream.readBody(p)
	} else {
		n, err = c.conn.r.ReadBody(p)
	}
	if err != nil && err != io.EOF {
		c.broken = true
		err = c.fault(err)
	}
	return n, err
}

// WholeBody appends the rest of the response's body to dst if all of it was
// read already; otherwise it changes nothing and reports false.
func (c *Call) WholeBody(dst []byte) ([]byte, bool) {
	if c.conn.stream != nil {
		return dst, c.BodyDone()
	}
	return c.conn.r.WholeBody(dst)
}

// Buffered is what was read of the response's body along with its head; it is
// empty for chunked bodies and valid until the next ReadBody. Skip consumes it.
func (c *Call) Buffered() []byte { return c.conn.r.Buffered() }

// Skip consumes n bytes of what Buffered returned.
func (c *Call) Skip(n int) { c.conn.r.Skip(n) }

// BodyDone reports whether the response's body, if there is one, was read to
// its end.
func (c *Call) BodyDone() bool {
	if c.conn.stream != nil {
		return c.conn.stream.over || c.resp.Length == 0
	}
	return c.conn.r.BodyDone()
}

// Trailers are the fields after the response's body, once it was read to its
// end: in HTTP/1.1 those that were announced.
func (c *Call) Trailers() *wire.Header {
	if c.conn.stream != nil {
		return c.conn.stream.Trailer()
	}
	return c.conn.r.Trailer()
}

// Upload waits until the request's body was sent, or sending it failed: the
// node may have answered earlier, and Finish would cut what it does not know
// yet. It returns an *Error if not everything was sent.
func (c *Call) Upload() error {
	if c.conn == nil {
		return c.fault(net.ErrClosed)
	}
	if err := c.upload.await(c.isAborted); err != nil {
		return c.fault(err)
	}
	return nil
}

// Stop ends the exchange: nothing is read or sent any more, and Tries are
// complete. Response stays valid until Finish.
func (c *Call) Stop() {
	if c.stopped {
		return
	}
	c.stopped = true
	busy := c.held
	c.letGo()
	conn := c.conn
	clean := conn != nil && c.reusable()
	c.mu.Lock()
	c.conn = nil
	clean = clean && !c.aborted
	c.mu.Unlock()
	if conn != nil && !clean {
		conn.shut()
	}
	c.upload.finish(c.StopBody)
	c.countAnswer()
	if conn == nil {
		return
	}
	c.ended = c.up.now()
	t := &c.Tries[len(c.Tries)-1]
	t.Total = c.ended.Sub(c.began)
	if busy != nil && c.up.kind == ewma && c.Response != nil {
		busy.observe(t.Connect+t.Total, c.ended)
	}
	c.leaving, c.clean = conn, clean
}

// Ended is when Stop was called; zero where nothing was sent.
func (c *Call) Ended() time.Time { return c.ended }

// Finish is Stop and ends the use of the connection, which is kept if request
// and response are complete and clean, and closed otherwise. It must follow
// every RoundTrip, whatever that returned; Response and what was read are not
// valid any more.
func (c *Call) Finish() {
	c.Stop()
	conn := c.leaving
	if conn == nil {
		return
	}
	c.leaving, c.Response = nil, nil
	if !c.clean {
		conn.close()
		return
	}
	conn.r.Release()
	conn.pool.put(conn, &c.up.keepalive, c.ended)
}

// countAnswer counts the answer that the client got for the node's health.
func (c *Call) countAnswer() {
	status := c.Status
	if status == 0 && c.Response != nil {
		status = c.Response.Status
	}
	if status != 0 {
		c.checked().Answered(status)
	}
}

// reusable reports whether the connection can carry another request.
func (c *Call) reusable() bool {
	r := c.Response
	return r != nil && !c.broken && !r.Close && r.Proto == wire.HTTP11 &&
		r.Status != 101 && c.method() != "CONNECT" &&
		c.conn.r.BodyDone() && c.conn.r.Unread() == 0 && c.upload.done()
}

// Abort makes RoundTrip, ReadBody and Upload fail with an Error of Kind
// Aborted, now or when they are called, until Reset. It may be called from any
// goroutine at any time.
func (c *Call) Abort() {
	c.mu.Lock()
	c.aborted = true
	if c.cancel != nil {
		c.cancel()
	}
	if c.conn != nil {
		c.conn.shut()
	}
	c.mu.Unlock()
	c.upload.notify()
}

func (c *Call) isAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// Reset makes c ready for the next request and keeps its memory. Finish must
// have been called.
func (c *Call) Reset() {
	c.Request, c.Method, c.Target, c.Host, c.ForceHost, c.Scheme = nil, "", "", "", "", ""
	c.Extra, c.Body, c.Length, c.Trailer, c.StopBody = nil, nil, 0, nil, nil
	c.Timeout, c.Retries, c.BeforeTry, c.Early = nil, nil, nil, nil
	c.Response, c.Node, c.HashKey, c.Status = nil, "", nil, 0
	c.ended = time.Time{}
	clear(c.Tries)
	c.Tries = c.Tries[:0]
	c.up, c.set, c.end, c.cert, c.id, c.filter = nil, nil, nil, nil, ident{}, filter{}
	c.mu.Lock()
	c.aborted = false
	c.mu.Unlock()
}

func (c *Call) method() string {
	if c.Method == "" {
		return c.Request.Method
	}
	return c.Method
}

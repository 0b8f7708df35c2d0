package upstream

import (
	"io"
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

	// Tries lists what was tried, in order. That a kept connection turned out to
	// be closed, and the request was sent again to the same node, is no try.
	Tries []Try

	inner call
}

// A Try is one attempt to reach a node.
type Try struct {
	Addr    string // host:port
	Status  int    // 0: no response
	Connect time.Duration
	Header  time.Duration // from the start of the try to the response's head
	Total   time.Duration // from the start of the try to Finish, or to its failure
	Err     error         // why there was no response
}

// call is what a Call keeps to itself.
type call struct{ resp wire.Response }

// RoundTrip sends the request of c and returns when the final response's head
// has been read. Its error is an *Error, or what BeforeTry or Early returned.
func (u *Upstream) RoundTrip(c *Call) error { return &Error{Kind: NoNodes, Err: ErrUnsupported} }

// ReadBody reads the decoded body of the response; io.EOF is its complete end.
// Other errors are an *Error.
func (c *Call) ReadBody(p []byte) (int, error) { return 0, io.EOF }

// Buffered is what has been read of the body already, decoded, as far as it is
// contiguous; it is valid until the next Skip or ReadBody.
func (c *Call) Buffered() []byte { return nil }

// Skip consumes n bytes of Buffered.
func (c *Call) Skip(n int) {}

// Trailers are the fields after a chunked body, once ReadBody returned io.EOF;
// nil: none.
func (c *Call) Trailers() *wire.Header { return nil }

// Upload waits until the request's body has been sent, or sending failed: for a
// response that was complete earlier. It returns nil if all was sent.
func (c *Call) Upload() error { return nil }

// Finish ends the exchange: the connection is kept if request and response are
// complete and clean, and closed otherwise. It may be called at any time and
// more than once.
func (c *Call) Finish() {}

// Abort makes RoundTrip, ReadBody and Upload return an Error of Kind Aborted,
// now or as soon as they are called, until Reset. It may be called from any
// goroutine at any time.
func (c *Call) Abort() {}

// Reset makes c ready for the next request and keeps its memory. Finish must
// have been called.
func (c *Call) Reset() {}

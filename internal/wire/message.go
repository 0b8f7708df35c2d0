// Package wire is HTTP as Weir sees it: the one request and response type that
// every protocol is turned into, and the strict HTTP/1.1 codec (RFC 9112) that
// both sides of the gateway speak. It knows nothing of gateways.
//
// Strings in messages are views of a connection's buffer: they are valid until
// the exchange ends and must be cloned to be kept.
package wire

import "errors"

// A Proto is the version of a message.
type Proto uint8

// The versions.
const (
	HTTP10 Proto = iota
	HTTP11
	HTTP2
	HTTP3
)

// String is the version as it stands in a request line and in logs.
func (p Proto) String() string {
	return [...]string{"HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"}[p]
}

// Body lengths that are not a number of bytes.
const (
	Chunked    int64 = -1 // the end is marked in the framing
	UntilClose int64 = -2 // responses only: the connection's end ends the body
)

// A Request is the head of a request.
type Request struct {
	Method string
	Target string // origin form as received: path, or path?query; "*" for OPTIONS *
	Proto  Proto
	Host   string // authority, from an absolute-form target or from Host; may have a port
	Header Header

	// Length is the length of the body: bytes (0: none), or Chunked.
	Length int64

	Close    bool // the connection ends after this exchange
	Expect   bool // Expect: 100-continue
	Upgrade  bool // Connection lists upgrade and Upgrade is present
	Trailers bool // a Trailer field announces trailers
}

// A Response is the head of a response.
type Response struct {
	Status int
	Reason string
	Proto  Proto
	Header Header

	// Length is the length of the body: bytes, Chunked or UntilClose. It is 0
	// for a response that cannot have one (1xx, 204, 304, answer to HEAD), whatever
	// its Content-Length field says.
	Length int64

	Close bool // the connection ends after this exchange
}

// Reset empties r and keeps its memory.
func (r *Request) Reset() {
	h := r.Header
	h.Reset()
	*r = Request{Header: h}
}

// Reset empties r and keeps its memory.
func (r *Response) Reset() {
	h := r.Header
	h.Reset()
	*r = Response{Header: h}
}

// Errors of reading a message. Every other error is the connection's own.
var (
	// ErrMalformed: the message breaks the grammar or its framing is ambiguous.
	ErrMalformed = errors.New("malformed message")
	// ErrHeadTooLarge: the head exceeds the limit of bytes or fields.
	ErrHeadTooLarge = errors.New("message head too large")
	// ErrStartLine, ErrFieldLine: a line of the head has more bytes than it may.
	ErrStartLine = errors.New("start line too large")
	ErrFieldLine = errors.New("field line too large")
	// ErrExpectation: the request expects something other than 100-continue.
	ErrExpectation = errors.New("unknown expectation")
	// ErrVersion: a version other than HTTP/1.0 and HTTP/1.1.
	ErrVersion = errors.New("unsupported HTTP version")
)

package upstream

import "errors"

// ErrUnsupported is wrapped by the errors of Compile for configuration that is
// valid and that this version cannot serve.
var ErrUnsupported = errors.New("not supported yet")

// A Kind says what kept a request from being answered by an upstream.
type Kind uint8

// The kinds.
const (
	// Dial: no connection could be made.
	Dial Kind = iota + 1
	// Timeout: connecting, sending or reading took longer than it may.
	Timeout
	// Reset: the connection ended before the response was complete.
	Reset
	// Malformed: the response breaks the grammar of HTTP/1.1.
	Malformed
	// NoNodes: the upstream has no node, or none whose name resolves.
	NoNodes
	// NoneLeft: no node can be picked, because each was tried or has weight 0.
	NoneLeft
	// RetryTimeout: another try was due after retry_timeout had passed.
	RetryTimeout
	// Aborted: Call.Abort.
	Aborted
	// ClientBody: reading the request's body failed. Err is what Body.Read
	// returned, so that wire.ErrMalformed and the client's time-out can be told
	// apart.
	ClientBody
	// NoCertificate: the client certificate that the upstream names is not there.
	NoCertificate
	// BadBalancer: the upstream's type does not exist.
	BadBalancer
	// BadScheme: the scheme is not one that can be served.
	BadScheme
	// NoPort: the scheme is not the upstream's, and the node has no port.
	NoPort
	// Unwanted: the answer has a status that is exchanged for a further try.
	Unwanted
	// Proxy: no connection could be made through a forward proxy.
	Proxy
)

// kinds is immutable.
var kinds = [...]struct {
	text   string
	status int
}{
	Dial:         {"connect failed", 502},
	Timeout:      {"timed out", 504},
	Reset:        {"connection closed before the response was complete", 502},
	Malformed:    {"invalid response", 502},
	NoNodes:      {"no valid upstream node", 503},
	NoneLeft:     {"all upstream servers tried", 502},
	RetryTimeout: {"retry timeout", 502},
	Aborted:      {"aborted", 499},
	ClientBody:   {"reading the request body failed", 400},

	NoCertificate: {"no client certificate", 502},
	BadBalancer:   {"no balancer", 502},
	BadScheme:     {"scheme cannot be served", 502},
	NoPort:        {"Can't detect upstream's scheme. You should either specify a port in the node or specify the upstream.scheme explicitly", 503},

	Unwanted: {"the status of the answer asks for another try", 502},

	Proxy: {"connecting through the forward proxy failed", 503},
}

// String is the kind in words, for the log.
func (k Kind) String() string { return kinds[k].text }

// An Error is why a Call failed. It is for the operator's log; the client is
// told only Status.
type Error struct {
	Kind Kind
	Addr string // host:port of the node; empty: none was chosen
	Err  error  // cause; may be nil
}

// Error is one line for the log.
func (e *Error) Error() string {
	s := "upstream"
	if e.Addr != "" {
		s += " " + e.Addr
	}
	s += ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Status is the status that answers the client: APISIX's (502 for failed
// connections and invalid answers, 503 without nodes, 504 for time-outs), 400
// for a request body that broke off, and 499, which nobody receives, for a
// client that left.
func (e *Error) Status() int { return kinds[e.Kind].status }

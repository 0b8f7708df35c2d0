package plugin

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"weir/internal/model"
	"weir/internal/wire"
)

// Ctx is one request on its way. It is pooled: a phase function must not keep
// it, nor a string or slice that came from it, after returning.
type Ctx struct {
	// Request is the head as the client sent it, with the edits made so far;
	// its Header is what goes upstream.
	Request *wire.Request

	// Path is the request's path, normalised once: percent-decoded, dot segments
	// and repeated slashes resolved. Matching and variables use it.
	Path string

	// Response is the answer's head, from the Header phase on.
	Response *wire.Response

	// Route is what was matched; nil when nothing was. MatchedPath and
	// MatchedHost are the patterns that did.
	Route                    *Route
	MatchedPath, MatchedHost string

	// RoutePath is what path patterns are compared with, if not Path: the path
	// with %2F kept (match_uri_encoded_slash).
	RoutePath string

	// Pattern takes RoutePath or Path apart as the matched pattern says; nil
	// where nothing was matched.
	Pattern Pattern

	// Consumer is the authenticated caller, set by an authenticating plugin.
	Consumer *Consumer

	// Product is what is known of a request to a 3scale product, a
	// *threescale.Request; nil for requests to routes.
	Product any

	// Claims are what an authenticating plugin knows of the caller beside the
	// consumer, as a JSON object: a token's payload, a user's record. nil: nothing.
	Claims json.RawMessage

	// Index finds consumers in the configuration pinned to this request.
	Index ConsumerIndex

	Start  time.Time      // when the head was complete
	Peer   netip.AddrPort // the other end of the connection
	Server netip.AddrPort // our end of it
	Scheme string         // http or https

	// TLS is the client's handshake; nil: the connection is plain.
	TLS *tls.ConnectionState

	// Proxied is who the PROXY header of the connection says the client is,
	// believed or not; the zero AddrPort: there was none, or it does not say.
	Proxied netip.AddrPort

	// Client is the caller's address as text, without a port: the peer's, or the
	// one that trusted proxies report. ClientPort is the port; 0: not reported.
	Client     string
	ClientPort uint16

	// Forwarded are what the gateway vouches for. They stand in the request's
	// header too, where plugins may change what the upstream is told.
	Forwarded Forwarded

	// To changes where the request goes; zero fields leave it as the route says.
	To Destination

	// Sent is what happened, complete in the Log phase.
	Sent Outcome

	// Line changes what the access log has of the request; it is for the Log phase.
	Line AccessLine

	// MaxBody replaces the configured limit of the request's body, in bytes; 0:
	// as configured, negative: no limit. It counts from where it is set.
	MaxBody int64

	// Buffer reads the request's body; the engine sets it, and Limits.
	Buffer Bufferer
	Limits Limits

	// Pause waits for that long. It returns false, at once, when nobody waits for
	// the answer any more: the client has left or the gateway ends the connection.
	// The engine sets it.
	Pause func(time.Duration) bool

	replyHeader [][2]string
	vars        []variable
	states      []state
	skipped     []string // names of plugins
	taps        []BodyTap
	scratch     []byte
	id          [32]byte // hexadecimal; zero until asked for
	givenID     string
}

// A Route is the matched route as plugins and variables see it.
type Route struct {
	ID, Name               string
	ServiceID, ServiceName string
	Labels                 map[string]string
}

// Forwarded are the values of X-Forwarded-Proto, -Host and -Port.
type Forwarded struct{ Proto, Host, Port string }

// A Destination overrides parts of where a request goes.
type Destination struct {
	Target     string // request target instead of the client's
	Method     string
	Body       []byte // instead of the client's, if not nil; lives as long as the request
	Host       string // Host header, whatever pass_host says
	Scheme     string
	UpstreamID string
	Upstream   Upstream       // made by Env.Upstream; wins over UpstreamID
	Timeout    *model.Timeout // its zero fields are the upstream's; nil: the route's
	Retries    *int           // further tries after the first; nil: the upstream's
	Websocket  bool           // an upgrade to WebSocket may pass, whatever the route says
	Expect     bool           // the upstream says whether it wants a body that the client holds back
}

// An Outcome is what became of a request.
type Outcome struct {
	Status    int
	BodyBytes int64     // sent to the client
	Bytes     int64     // sent to the client, with the head
	Received  int64     // read from the client, with the head
	End       time.Time // when the last byte was sent; zero before
	Tries     []Try
	Node      string // host:port of the last node, as configured: a name is not resolved
	Source    Source
	Cause     error // why the gateway itself answered; for the log, never for the client
}

// An AccessLine is what the access log has of a request in place of its usual line,
// or beside it.
type AccessLine struct {
	Off  bool   // the usual line is not written
	Own  bool   // Text is written
	Text string // a line, without its end; it lives as long as the request
}

// A Source says who made the answer.
type Source uint8

// The sources, as metrics and logs name them.
const (
	FromGateway  Source = iota // a plugin or the router: "apisix"
	FromProxy                  // the proxy, because the upstream did not answer: "nginx"
	FromUpstream               // "upstream"
)

// String is the name in metrics and logs (APISIX's response_source).
func (s Source) String() string { return [...]string{"apisix", "nginx", "upstream"}[s] }

// A Try is one attempt to reach an upstream.
type Try struct {
	Addr    string // host:port
	Scheme  string // http, https, grpc, grpcs
	Host    string // Host header that was sent
	Status  int    // 0: no response
	Connect time.Duration
	Header  time.Duration // from the start of the try to the response's head
	Total   time.Duration // to the response's end
}

// A Bufferer buffers a request's body.
type Bufferer interface {
	// Body reads the whole body, at most limit bytes; it stays available to be
	// sent upstream and further calls return the same bytes. It fails with
	// ErrBodyTooLarge, after which the body still goes upstream whole, with
	// ErrBodySent, or with what reading failed with, after which the request is
	// refused.
	Body(limit int64) ([]byte, error)
}

// A BodyTap sees a request's body on its way upstream.
type BodyTap interface {
	// See is called with one piece after the other. It must copy what it needs
	// and must not block. It may run on another goroutine than the request's
	// phases, but never at the same time as the Log phase or after it.
	See(piece []byte)
}

// Limits bound the bodies that variables are read from, in bytes.
type Limits struct {
	PostArgs int64 // post_arg variables; 0: unlimited
	GraphQL  int64 // graphql variables; 0: DefaultGraphQL
}

// DefaultGraphQL is APISIX's graphql.max_size.
const DefaultGraphQL = 1 << 20

// A Pattern is the path pattern that a request matched.
type Pattern interface {
	// Param returns the piece of path that the pattern names.
	Param(path, name string) (value string, ok bool)
}

// A Consumer is the caller as known to the configuration.
type Consumer struct {
	Name         string
	CredentialID string // of the credential that proved it; empty: its own plugins
	CustomID     string // label custom_id
	GroupID      string

	// Plan is what else runs for this consumer; it belongs to package plan.
	Plan any

	// Credential is what the authenticating plugin's own Credential type holds
	// for the key that was found, as a pointer to that type; nil for a consumer
	// found by name.
	Credential any

	Labels map[string]string
}

// A ConsumerIndex finds consumers. Implementations are immutable.
type ConsumerIndex interface {
	// Find returns the consumer that holds key for the named plugin, or nil.
	Find(plugin, key string) *Consumer
	// Named returns the consumer of that name, or nil.
	Named(name string) *Consumer
}

// Header returns the first value of a request header.
func (c *Ctx) Header(name string) (string, bool) { return c.Request.Header.Get(name) }

// SetHeader makes the request header have the one given value. The strings
// must live as long as the request: constants, configuration, or Clone.
func (c *Ctx) SetHeader(name, value string) { c.Request.Header.Set(name, value) }

// DelHeader removes a request header.
func (c *Ctx) DelHeader(name string) { c.Request.Header.Del(name) }

// ClearHeader removes a request header in every spelling that a backend could
// take for it, since many fold "_" and "-".
func (c *Ctx) ClearHeader(name string) {
	fields := c.Request.Header.Fields()
	for i := range fields {
		f := &fields[i]
		f.Dropped = f.Dropped || sameToBackends(f.Name, name)
	}
}

func sameToBackends(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if x, y := a[i], b[i]; x != y && folded(x) != folded(y) {
			return false
		}
	}
	return true
}

func folded(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	case c == '_':
		return '-'
	}
	return c
}

// Find returns the consumer holding key for the named plugin, or nil.
func (c *Ctx) Find(plugin, key string) *Consumer {
	if c.Index == nil {
		return nil
	}
	return c.Index.Find(plugin, key)
}

// Named returns the consumer of that name, or nil.
func (c *Ctx) Named(name string) *Consumer {
	if c.Index == nil {
		return nil
	}
	return c.Index.Named(name)
}

// SetReplyHeader sets a header of the answer, wherever the answer comes from.
func (c *Ctx) SetReplyHeader(name, value string) {
	c.replyHeader = append(c.replyHeader, [2]string{name, value})
}

// ReplyHeader returns the headers set by SetReplyHeader, in order.
func (c *Ctx) ReplyHeader() [][2]string { return c.replyHeader }

// SetVar gives a variable of that name a value for the rest of the request. Only
// variables that the gateway does not have itself, or that are meant to be
// replaced, can be set (package expr). The strings must live as long as the
// request.
func (c *Ctx) SetVar(name, value string) { c.setVar(variable{name: name, value: value}) }

// A Later is the value of a variable that few requests are asked for: it is made
// when somebody does.
type Later struct {
	Texts   [2]string // live as long as the request
	Numbers [3]int64
	Append  func(dst []byte, l *Later) []byte
}

// SetVarLater is SetVar for a value that is not made yet.
func (c *Ctx) SetVarLater(name string, l Later) { c.setVar(variable{name: name, later: l}) }

// A variable is one that was set.
type variable struct {
	name, value string
	later       Later // without Append: value is the value
}

func (c *Ctx) setVar(v variable) {
	for i := range c.vars {
		if c.vars[i].name == v.name {
			c.vars[i] = v
			return
		}
	}
	c.vars = append(c.vars, v)
}

// Var returns what SetVar has set.
func (c *Ctx) Var(name string) (value string, ok bool) {
	for i := range c.vars {
		v := &c.vars[i]
		if v.name != name {
			continue
		}
		if v.later.Append != nil {
			from := len(c.scratch)
			c.scratch = v.later.Append(c.scratch, &v.later)
			v.value, v.later = view(c.scratch[from:]), Later{}
		}
		return v.value, true
	}
	return "", false
}

// RouteID is the matched route's, for logs; empty: nothing was matched.
func (c *Ctx) RouteID() string {
	if c.Route == nil {
		return ""
	}
	return c.Route.ID
}

// Param returns the piece of the path that the matched route's pattern names:
// ":name" in radixtree_uri_with_parameter, ":ext" for a "*" without a name.
func (c *Ctx) Param(name string) (value string, ok bool) {
	if c.Pattern == nil {
		return "", false
	}
	return c.Pattern.Param(c.PathToMatch(), name)
}

// PathToMatch is RoutePath or, without one, Path.
func (c *Ctx) PathToMatch() string {
	if c.RoutePath != "" {
		return c.RoutePath
	}
	return c.Path
}

// Keep copies b into memory that lives as long as the request.
func (c *Ctx) Keep(b []byte) string {
	from := len(c.scratch)
	c.scratch = append(c.scratch, b...)
	return view(c.scratch[from:])
}

// RequestID is the request's own random name, 32 hexadecimal digits, the same
// at every call ($apisix_request_id), or what SetRequestID said.
func (c *Ctx) RequestID() string {
	if c.givenID != "" {
		return c.givenID
	}
	if c.id[0] == 0 {
		var raw [16]byte
		binary.NativeEndian.PutUint64(raw[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
		hex.Encode(c.id[:], raw[:])
	}
	return view(c.id[:])
}

// SetRequestID gives the request another name, which lives as long as it does.
func (c *Ctx) SetRequestID(id string) { c.givenID = id }

// A state is what one plugin instance remembers of the request.
type state struct{ of, value any }

// SetState remembers value for the rest of the request, for of: a pointer that
// belongs to the plugin's compiled configuration.
func (c *Ctx) SetState(of, value any) {
	for i := range c.states {
		if c.states[i].of == of {
			c.states[i].value = value
			return
		}
	}
	c.states = append(c.states, state{of, value})
}

// State returns what SetState remembered for of, or nil.
func (c *Ctx) State(of any) any {
	for i := range c.states {
		if c.states[i].of == of {
			return c.states[i].value
		}
	}
	return nil
}

// TapBody shows t the request's body as it goes upstream; a request that does not
// go there shows nothing. It is for the Rewrite and Access phases.
func (c *Ctx) TapBody(t BodyTap) { c.taps = append(c.taps, t) }

// Taps returns what TapBody was called with.
func (c *Ctx) Taps() []BodyTap { return c.taps }

// Skip leaves out the named plugin's request phases from here on, wherever it is
// configured: it has run already, as a part of another. The name lives as long
// as the request.
func (c *Ctx) Skip(plugin string) { c.skipped = append(c.skipped, plugin) }

// Skipping says whether Skip was called.
func (c *Ctx) Skipping() bool { return len(c.skipped) > 0 }

// Skips says whether Skip was asked to leave out the plugin.
func (c *Ctx) Skips(plugin string) bool {
	for _, s := range c.skipped {
		if s == plugin {
			return true
		}
	}
	return false
}

// RawQuery is the target's query without the question mark.
func (c *Ctx) RawQuery() string {
	_, q, _ := strings.Cut(c.target(), "?")
	return q
}

func (c *Ctx) target() string {
	if c.To.Target != "" {
		return c.To.Target
	}
	return c.Request.Target
}

// Reset makes c ready for the next request and keeps its memory.
func (c *Ctx) Reset() {
	clear(c.states)
	clear(c.vars)
	clear(c.taps)
	*c = Ctx{
		Request:     c.Request,
		Buffer:      c.Buffer,
		Limits:      c.Limits,
		vars:        c.vars[:0],
		Peer:        c.Peer,
		Server:      c.Server,
		Scheme:      c.Scheme,
		TLS:         c.TLS,
		Proxied:     c.Proxied,
		Client:      c.Client,
		ClientPort:  c.ClientPort,
		Pause:       c.Pause,
		Sent:        Outcome{Tries: c.Sent.Tries[:0]},
		replyHeader: c.replyHeader[:0],
		states:      c.states[:0],
		skipped:     c.skipped[:0],
		taps:        c.taps[:0],
		scratch:     c.scratch[:0],
	}
}

package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
)

// Phases are the functions of one configured plugin. A nil phase costs
// nothing: the plan of a route holds only the functions that exist.
//
// A phase function runs on the request's goroutine and must not keep the Ctx,
// or a string or slice it got from it, after returning; strings.Clone what is
// to be kept. It may block (a call to Redis), within a bound of its own.
type Phases struct {
	// Rewrite runs first, in order of priority; authentication happens here.
	// nil continues, a Reply answers: the remaining functions of the phase and
	// the later request phases are skipped, Header, Body and Log still run.
	Rewrite func(*Ctx) *Reply

	// Access runs after every Rewrite, also after those of the consumer.
	Access func(*Ctx) *Reply

	// Content runs after every Access: the first Reply answers in place of the
	// upstream. Only 3scale policies have it.
	Content func(*Ctx) *Reply

	// BeforeProxy runs when the upstream is chosen, before the first byte is
	// sent, and again before each further try.
	BeforeProxy func(*Ctx) *Reply

	// Header runs when the response's head is known, whether it came from the
	// upstream, a plugin or the gateway itself. It may edit Ctx.Response.
	Header func(*Ctx)

	// Body is asked, after Header, for a filter of this response's body; nil:
	// the body passes as it is.
	Body func(*Ctx) BodyFilter

	// Encode is asked after the Header phase and all Body filters for a content
	// coding of what the others have made of the body; it may edit Ctx.Response
	// accordingly. Who finds a Content-Encoding has nothing to do.
	Encode func(*Ctx) BodyFilter

	// Log runs after the last byte was sent. It must copy what it needs and
	// must not block.
	Log func(*Ctx)

	// Close is called once, when no snapshot and no request uses this
	// configuration any more. It ends what Compile started and waits for it.
	Close func()
}

// A BodyFilter changes one response's body as it passes. If it has a method
// Close(), that is called once when the response is over, however it ended.
type BodyFilter interface {
	// Write takes the next piece and returns what is to be sent instead; last
	// marks the end, once, perhaps with an empty piece. The returned slice may
	// be chunk itself and is used before the next call.
	Write(chunk []byte, last bool) []byte
}

// A Sized is a BodyFilter that can tell the length of what it returns, so that
// the client can be told before the body.
type Sized interface {
	BodyFilter
	// Size is the length in bytes of all that Write returns for a body of in
	// bytes; in and the result are negative where they are not known.
	Size(in int64) int64
}

// An Ender is a BodyFilter that may need nothing of a body: the upstream's is then
// not read.
type Ender interface {
	BodyFilter
	// Ended says that the next Write may be the last, whatever is left.
	Ended() bool
}

// A Witness is a BodyFilter that wants to see an upstream's body even where the
// client gets none of it (an answer to HEAD, 304).
type Witness interface {
	BodyFilter
	// Watches says whether it wants to; it is asked once.
	Watches() bool
}

// Env is what a compile function may use. There is no other way to reach the
// outside.
type Env struct {
	// Context ends when the gateway stops.
	Context context.Context

	// Owner is the object that carries the configuration: "routes/1".
	Owner string

	// Product is the 3scale product whose policy is compiled, a
	// *threescale.Product; nil for APISIX's plugins.
	Product any

	// Raw is the plugin's configuration as given.
	Raw json.RawMessage

	// Metadata is the plugin's metadata object (plugin_metadata), with its
	// defaults not filled in; nil: there is none. Only plugins defined with
	// Metadata get it; when it changes they are compiled again.
	Metadata json.RawMessage

	// Attr is the plugin's entry in plugin_attr of config.yaml; nil: none.
	Attr json.RawMessage

	// Version is the gateway's; ID tells this gateway from others.
	Version, ID string

	// Connections counts those of clients at this moment.
	Connections func() Connections

	// TLSPorts are the ports on which the gateway serves HTTPS.
	TLSPorts []int

	// Meter holds the metrics of the process.
	Meter *meter.Registry

	// Files are those that plugins write.
	Files *Files

	// Proto is the content of a proto object; false: it is not there. Only what a
	// plugin defined with Proto names may be read.
	Proto func(id string) (content string, ok bool)

	// Exists says whether an object is configured at this moment: "routes/1".
	Exists func(object string) bool

	Keep *Uses
	Now  func() time.Time
	Rand func() float64 // at least 0 and below 1, for samples; for any goroutine
	Log  *slog.Logger

	// Upstream compiles an upstream document for Destination.Upstream. Whoever
	// asked for it closes it.
	Upstream func(raw json.RawMessage) (Upstream, error)

	// Reach is Upstream for one that code has put together.
	Reach func(m *model.Upstream) (Upstream, error)

	// Endpoint finds the public API of a plugin of this build (Endpoints); nil:
	// there is none.
	Endpoint func(method, path string) func(*Ctx) *Reply

	// Plugin tells of another plugin of this build; false: there is none.
	Plugin func(name string) (Meta, bool)

	// Compile compiles the configuration of another plugin, for plugins that
	// contain plugins. What is wrong with it is a *ConfigError. The result belongs to the caller, who closes it.
	Compile func(name string, conf json.RawMessage) (Phases, error)
}

// Connections are those of the gateway's clients.
type Connections struct {
	Accepted int64 // since the start
	Requests int64 // since the start
	Active   int64 // open
	Busy     int64 // of the open ones those with a request
}

// An Upstream is a compiled upstream, opaque to plugins.
type Upstream interface{ Close() }

// An Endpoint is an API that a plugin offers through a public-api route.
type Endpoint struct {
	Methods []string
	Path    string
	Serve   func(*Ctx) *Reply
}

// A Control is an API that a plugin adds to the Control API, for operators.
type Control struct {
	Method, Path string
	Answer       func(query string) *Reply // of the request's URI
}

// A Reply answers a request in place of the upstream. It is immutable and,
// where its text is known beforehand, made at compile time, so that refusing a
// request does not allocate. Without a Body (nil), the answer to a redirect or an
// error is the gateway's own page for that status.
type Reply struct {
	Status int
	Header [][2]string
	Body   []byte

	// Stream, if not nil, writes the body instead, as it is made, on the request's
	// goroutine and without a pinned state. Its error cuts the answer short. A HEAD
	// request does not call it.
	Stream func(io.Writer) error
}

// PhaseOver is no answer: the policies after the one that returns it do not see
// this phase. Only policies of 3scale products may return it, from Rewrite.
var PhaseOver = new(Reply)

// JSON makes a Reply whose body is v as JSON and a line feed. The content type
// is the gateway's default, text/plain, as APISIX answers.
func JSON(status int, v any, header ...[2]string) *Reply {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // v is a literal in the code of a plugin
	}
	return &Reply{Status: status, Header: header, Body: b.Bytes()}
}

// Text makes a Reply with the given body.
func Text(status int, body string, header ...[2]string) *Reply {
	return &Reply{Status: status, Header: header, Body: []byte(body)}
}

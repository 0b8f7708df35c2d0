package engine

import (
	"bytes"
	"io"
	"runtime/debug"
	"time"

	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/upstream"
	"weir/internal/wire"
)

// A stream is the client's side of one exchange. Each protocol implements it;
// everything else about a request is the same for all.
type stream interface {
	// WriteHead sends a response head and the beginning of the body. Interim
	// responses (1xx) may come before the final one. last: the body is complete.
	WriteHead(r *wire.Response, body []byte, last bool) error
	// Write sends more of the body.
	Write(p []byte, last bool) error
}

// An upload is the client's body on its way to an upstream.
type upload struct {
	io.Reader                             // its Read may run on another goroutine than the exchange
	whole     func([]byte) ([]byte, bool) // appends the body if all of it is there
	trailer   func() *wire.Header         // after the end
	stop      func()                      // makes Read return
	want      func() error                // sends 100 Continue if the client waits for it
	continued func() bool                 // it was sent; nil: somebody else sends it
	waiting   func(bool)                  // the exchange begins or ends waiting for its upstream
	received  func() int64                // bytes read of the request, with its head
}

// An exchange is one request and its answer, whatever protocol carries it. It
// is reused for the requests of a connection.
type exchange struct {
	engine *Engine
	stream stream
	upload upload
	secure *secure // nil: not over TLS
	pin    *snapshot.Pin

	counted *cell  // the requests
	glance  glance // at who watches

	peer       string // the other end's address
	serverPort string // ours

	request wire.Request
	ctx     plugin.Ctx
	route   *snapshot.Route // nil until matched
	run     plan.Run
	call    upstream.Call

	// Methods as values, made once.
	earlyHook func(*wire.Response) error
	tryHook   func(int) error
	hashHook  func() string
	hash      func(*plugin.Ctx) string // what hashHook reads; nil: nothing

	local   wire.Response // an answer of the gateway's own
	trailer *wire.Header  // of the answer; nil: none
	filters []plan.Filter

	buffered []byte // what was read of the request's body for plugins and variables
	whole    bool   // that is all of it
	handed   bool   // the rest goes upstream
	gate     *gate  // before the rest, until the upstream wants it; nil: none
	bodyErr  error  // why it could not be read
	replay   bytes.Reader

	small  []byte // scratch of a chunked body that came with its head
	lines  []byte // header lines the gateway adds for the upstream
	path   []byte // scratch of the normalised path
	match  []byte // scratch of the path that routes are matched against
	target []byte // scratch of the forwarded target
	status []byte // scratch of X-APISIX-Upstream-Status

	up        *snapshot.Upstream // chosen for the request
	websocket bool               // the route or the upstream allows WebSockets
	upgrading bool               // a WebSocket was asked for upstream
	detached  bool               // the pin was dropped, references are held instead

	calling    bool // RoundTrip was called; Finish must follow
	answered   bool // a final head was sent
	closeAfter bool // the connection ends after this exchange
	quiet      bool // nothing is written to the access log
	broken     bool // the answer was cut: the client must not take it for whole
}

func (x *exchange) init(e *Engine, s stream, u upload) {
	x.engine, x.stream, x.upload = e, s, u
	x.pin, x.counted = e.State.NewPin(), e.counters.cell()
	x.ctx.Request = &x.request
	x.ctx.Buffer, x.ctx.Limits = x, e.BodyLimits
	x.earlyHook, x.tryHook, x.hashHook = x.early, x.beforeTry, x.hashKey
	x.path = make([]byte, 0, 256)
}

func (x *exchange) close() { x.engine.State.FreePin(x.pin) }

// begin readies x for a request whose head is complete.
func (x *exchange) begin(now time.Time) {
	x.ctx.Reset()
	x.ctx.Start = now
	x.route, x.trailer, x.up = nil, nil, nil
	x.buffered, x.whole, x.handed, x.bodyErr = nil, false, false, nil
	x.filters = x.filters[:0]
	x.run = plan.Run{}
	x.calling, x.answered, x.broken, x.quiet = false, false, false, false
	x.closeAfter = x.request.Close
}

// handle answers the request. A panic in a plugin loses this request alone.
func (x *exchange) handle() {
	x.counted.n.Add(1)
	x.glance.look(x.engine.watch.Load())
	x.wantHost()
	snap := x.pin.Take()
	defer x.end()
	x.ctx.Index = snap
	x.identify()
	if reply := x.decide(snap); reply != nil {
		x.answer(reply)
		return
	}
	x.proxy(snap)
}

// decide finds the route and runs its plan; a Reply answers the request.
func (x *exchange) decide(snap *snapshot.Snapshot) *plugin.Reply {
	if x.engine.Products {
		return x.decideProduct(snap)
	}
	if !x.readPath() || !x.admits() {
		return pages[400]
	}
	if limit := x.engine.MaxBody; limit > 0 && x.request.Length > limit {
		return pages[413]
	}
	global, open := snap.Global()
	if !open {
		return pages[503]
	}
	x.run.Global = global
	x.route = snap.Match(&x.ctx)
	x.observe()
	if page := x.bodyFault(); page != nil {
		return page
	}
	if x.route == nil {
		if reply := x.enter(snap); reply != nil {
			return reply
		}
		return notFound
	}
	x.ctx.Route = &x.route.Route
	if x.route.Fault != 0 {
		return pages[x.route.Fault]
	}
	x.run.Route = x.route.Plan
	x.observe()
	return x.enter(snap)
}

// enter runs the phases before the upstream is chosen.
func (x *exchange) enter(snap *snapshot.Snapshot) *plugin.Reply {
	if reply := x.run.Rewrite(&x.ctx); reply != nil {
		return reply
	}
	if x.ctx.Consumer != nil {
		if fault := snap.Attach(&x.run, x.ctx.Consumer); fault != 0 {
			return pages[fault]
		}
		x.observe()
	}
	if reply := x.run.Access(&x.ctx); reply != nil {
		return reply
	}
	return x.bodyFault()
}

// end runs whatever happened: it logs, counts and unpins.
func (x *exchange) end() {
	if p := recover(); p != nil {
		name, owner := x.culprit()
		x.engine.Log.Error("a request was lost to a panic", "route", x.routeID(), "plugin", name, "owner", owner,
			"panic", p, "stack", string(debug.Stack()))
		run, filters := x.run, x.filters
		x.run, x.filters = plan.Run{}, nil // the answer is the gateway's own
		x.fail(500, errPanic)
		x.run, x.filters = run, filters // what its plugins have begun they end
	}
	x.closeFilters()
	x.logFailure()
	if x.calling {
		x.call.Status = x.ctx.Sent.Status
		x.call.Stop()
	}
	if x.engine.AccessLog != nil || x.glance.counts() || x.run.HasLog() {
		x.ctx.Sent.End = x.endTime()
		x.ctx.Sent.Received += x.upload.received()
		x.logPhase()
	}
	if w := x.glance.watch; w != nil {
		w.end(x)
	}
	if x.calling {
		x.call.Finish()
	}
	x.release()
	x.leaveProduct()
	x.pin.Drop()
}

// culprit is the plugin whose function runs and the object that carries it; empty:
// none does.
func (x *exchange) culprit() (plugin, owner string) {
	if s := x.run.At(); s != nil {
		return s.Plugin, s.Owner
	}
	return "", ""
}

// endTime is when the last byte was sent, about now; an upstream's answer knows it.
func (x *exchange) endTime() time.Time {
	if x.calling {
		x.noteTries()
		if at := x.call.Ended(); !at.IsZero() {
			return at
		}
	}
	return time.Now()
}

// logPhase runs the Log phase and the access log.
func (x *exchange) logPhase() {
	x.runLog()
	if x.engine.AccessLog != nil && !x.quiet {
		x.writeAccess()
	}
}

func (x *exchange) runLog() {
	defer x.survive("a log phase panicked")
	x.run.Log(&x.ctx)
}

func (x *exchange) writeAccess() {
	defer x.survive("a log phase panicked")
	x.engine.AccessLog(&x.ctx)
}

// survive is deferred: it reports a panic and ends it.
func (x *exchange) survive(what string) {
	if p := recover(); p != nil {
		if l, ok := p.(*plan.Lost); ok {
			x.run.Enter(l.Step)
		}
		name, owner := x.culprit()
		x.engine.Log.Error(what, "route", x.routeID(), "plugin", name, "owner", owner, "panic", p, "stack", string(debug.Stack()))
		x.run.Enter(nil)
	}
}

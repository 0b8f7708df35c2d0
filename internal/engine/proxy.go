package engine

import (
	"cmp"
	"errors"
	"io"
	"strconv"
	"unsafe"

	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/upstream"
	"weir/internal/wire"
)

// proxy sends the request to its upstream and streams the answer back.
func (x *exchange) proxy(snap *snapshot.Snapshot) {
	up, fault := x.choose(snap)
	if fault != 0 {
		x.answer(pages[fault])
		return
	}
	x.up = up
	x.websocket = x.route.Websocket || up.Websocket || x.ctx.To.Websocket
	if err := x.prepare(up); err != nil {
		x.cut(err)
		return
	}
	x.calling = true
	x.upload.waiting(true)
	err := up.RoundTrip(&x.call)
	x.upload.waiting(false)
	x.noteTries()
	switch {
	case err != nil:
		x.failed(err)
	case x.call.Response.Status == 101:
		x.tunnel()
	default:
		x.relay()
	}
}

// choose finds the upstream: a plugin's choice, else the route's.
func (x *exchange) choose(snap *snapshot.Snapshot) (u *snapshot.Upstream, fault int) {
	if own, ok := x.ctx.To.Upstream.(*snapshot.Upstream); ok {
		return own, 0
	}
	return snap.Upstream(x.route, x.ctx.To.UpstreamID)
}

// failed answers for an upstream that did not.
func (x *exchange) failed(err error) {
	x.ctx.Sent.Cause, x.ctx.Sent.Source = err, plugin.FromProxy
	var refused refusal
	var up *upstream.Error
	switch {
	case errors.As(err, &refused):
		x.ctx.Sent.Cause, x.ctx.Sent.Source = nil, plugin.FromGateway
		x.answer(refused.reply)
	case errors.Is(err, errBodyTooLarge):
		x.fail(413, err)
	case errors.As(err, &up) && up.Kind == upstream.ClientBody && isTimeout(up.Err):
		x.fail(408, err)
	case errors.As(err, &up):
		x.closeAfter = x.closeAfter || up.Kind == upstream.Aborted || up.Kind == upstream.ClientBody
		if len(x.call.Tries) > 0 && x.showsStatus(up.Status()) {
			x.status = x.appendStatuses(x.status[:0])
			x.ctx.SetReplyHeader("X-APISIX-Upstream-Status", view(x.status))
		}
		x.fail(up.Status(), err)
	default:
		x.closeAfter = true
		x.fail(502, err)
	}
}

// refusal carries the reply of a BeforeProxy step through the upstream's hands.
type refusal struct{ reply *plugin.Reply }

func (refusal) Error() string { return "refused before proxying" }

// beforeTry runs the BeforeProxy phase.
func (x *exchange) beforeTry(int) error {
	if r := x.run.Before(&x.ctx); r != nil {
		return refusal{r}
	}
	return nil
}

// prepare fills the call.
func (x *exchange) prepare(up *snapshot.Upstream) error {
	c, to := &x.call, &x.ctx.To
	c.Reset()
	c.Request = &x.request
	c.Method, c.Target, c.ForceHost, c.Scheme = to.Method, to.Target, to.Host, to.Scheme
	if x.hash = up.Key; x.hash != nil {
		c.HashKey = x.hashHook
	}
	c.Timeout, c.Retries = cmp.Or(to.Timeout, x.route.Timeout), to.Retries
	x.lines = x.appendForwarded(x.lines[:0])
	if x.upgrading = x.wantsUpgrade(); x.upgrading {
		x.lines = append(x.lines, "Connection: upgrade\r\nUpgrade: websocket\r\n"...)
	}
	x.dropOwn()
	c.Extra = x.lines
	c.Early = x.earlyHook
	if x.run.HasBefore() {
		c.BeforeTry = x.tryHook
	}
	return x.prepareBody()
}

// hashKey is what the upstream's node is chosen by.
func (x *exchange) hashKey() string { return x.hash(&x.ctx) }

// prepareBody lets the call read the client's body, or what a plugin has
// buffered of it. 100 Continue goes out here and not at the first read, which
// may happen on another goroutine while the answer is being written.
func (x *exchange) prepareBody() error {
	c := &x.call
	c.Body, c.Length, c.Trailer, c.StopBody = nil, 0, nil, nil
	x.gate = nil
	switch own := x.ctx.To.Body; {
	case own != nil:
		x.tap(own)
		if len(own) > 0 || x.request.Length != 0 {
			x.replay.Reset(own)
			c.Body, c.Length = &x.replay, int64(len(own))
		}
	case x.whole, x.wholeChunked():
		x.tap(x.buffered)
		x.replay.Reset(x.buffered)
		c.Body, c.Length = &x.replay, int64(len(x.buffered))
	case x.request.Length != 0:
		x.handed = true
		c.Body, c.Length = x.tapped(x.rest()), x.request.Length
		c.Trailer, c.StopBody = x.upload.trailer, x.upload.stop
		if x.expects() {
			x.passExpect()
			return nil
		}
		return x.upload.want()
	}
	return nil
}

// wholeChunked takes a chunked body that has already arrived whole, to be sent
// on with a length. One with trailers keeps its framing.
func (x *exchange) wholeChunked() (ok bool) {
	if x.request.Length != wire.Chunked || x.request.Trailers || x.maxBody() > 0 || len(x.buffered) > 0 {
		return false
	}
	x.small, ok = x.upload.whole(x.small[:0])
	if ok {
		x.buffered, x.whole = x.small, true
	}
	return ok
}

// dropOwn drops what ends at the gateway, and what the client must not say in
// the gateway's name, in whatever spelling a backend could take for it.
func (x *exchange) dropOwn() {
	fields := x.request.Header.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Known == wire.KnownNone {
			continue
		}
		name := f.Known.Name()
		switch {
		case f.Known&(wire.Nominated|wire.Alias) != 0, hopByHop(name):
			f.Dropped = true
		case name >= wire.KnownXConsumerUsername:
			f.Dropped = f.Dropped || x.ctx.Consumer != nil
		case name == wire.KnownXRealIP, name == wire.KnownXForwardedFor && !x.engine.Products:
			f.Dropped = true
		}
	}
}

// hopByHop says that a field is the connection's own (RFC 9110 §7.6.1).
func hopByHop(k wire.Known) bool {
	switch k {
	case wire.KnownConnection, wire.KnownKeepAlive, wire.KnownProxyAuthenticate, wire.KnownProxyAuthorization,
		wire.KnownProxyConnection, wire.KnownTE, wire.KnownTrailer, wire.KnownTransferEncoding, wire.KnownUpgrade:
		return true
	}
	return false
}

// appendForwarded prints the headers that tell the upstream about the client
// and the consumer (apisix-runtime.md §9.1). What a plugin has set stays, the
// chain of X-Forwarded-For goes on behind it.
func (x *exchange) appendForwarded(dst []byte) []byte {
	c := &x.ctx
	dst = x.line(dst, "X-Real-IP", c.Client)
	if x.engine.Products {
		return dst
	}
	dst = append(dst, "X-Forwarded-For: "...)
	dst = x.appendChain(dst)
	dst = append(append(dst, c.Client...), "\r\n"...)
	if p := c.Consumer; p != nil {
		dst = x.line(dst, "X-Consumer-Username", p.Name)
		if p.CredentialID != "" {
			dst = x.line(dst, "X-Credential-Identifier", p.CredentialID)
		}
		if p.CustomID != "" {
			dst = x.line(dst, "X-Consumer-Custom-ID", p.CustomID)
		}
	}
	return dst
}

// appendChain prints what earlier proxies, or a plugin in their place, reported,
// each followed by a comma, and drops the fields.
func (x *exchange) appendChain(dst []byte) []byte {
	fields := x.request.Header.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Dropped || !wire.EqualFold(f.Name, "X-Forwarded-For") {
			continue
		}
		f.Dropped = true
		if f.Value != "" {
			dst = append(append(dst, f.Value...), ", "...)
		}
	}
	return dst
}

// line prints a header line, unless a plugin has set that header.
func (x *exchange) line(dst []byte, name, value string) []byte {
	for _, f := range x.request.Header.Added() {
		if !f.Dropped && wire.EqualFold(f.Name, name) {
			return dst
		}
	}
	return append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
}

// view is b as a string; b does not change before the request ends.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// early relays an interim response, except to HTTP/1.0, which has none.
func (x *exchange) early(r *wire.Response) error {
	switch {
	case r.Status == 100:
		return x.goesOn()
	case x.request.Proto == wire.HTTP10:
		return nil
	}
	dropResponseHop(r)
	return x.stream.WriteHead(r, nil, true)
}

func dropResponseHop(r *wire.Response) {
	fields := r.Header.Fields()
	for i := range fields {
		f := &fields[i]
		if f.Known == wire.KnownNone {
			continue
		}
		if f.Known&wire.Nominated != 0 || hopByHop(f.Known.Name()) {
			f.Dropped = true
		}
	}
}

// noteTries makes what was tried so far known to variables.
func (x *exchange) noteTries() {
	x.ctx.Sent.Node, x.ctx.Sent.Tries = x.call.Node, x.ctx.Sent.Tries[:0]
	for i := range x.call.Tries {
		t := &x.call.Tries[i]
		status := t.Status
		if status == 0 {
			status = statusOf(t.Err)
		}
		x.ctx.Sent.Tries = append(x.ctx.Sent.Tries, plugin.Try{
			Addr: t.Addr, Scheme: t.Scheme, Host: t.Host, Status: status, Connect: t.Connect, Header: t.Header, Total: t.Total,
		})
	}
}

func statusOf(err error) int {
	var up *upstream.Error
	if errors.As(err, &up) {
		return up.Status()
	}
	return 502
}

// relay streams the upstream's answer to the client.
func (x *exchange) relay() {
	r := x.call.Response
	x.ctx.Sent.Source = plugin.FromUpstream
	dropResponseHop(r)
	x.dropFraming(r)
	if x.showsStatus(r.Status) {
		x.status = x.appendStatuses(x.status[:0])
		r.Header.Set("X-APISIX-Upstream-Status", view(x.status))
	}
	first := x.call.Buffered()
	last := r.Length == 0 || r.Length >= 0 && int64(len(first)) == r.Length
	x.head(r)
	last = last || x.ended()
	none := !last && bodiless(x.request.Method, r.Status)
	watched := none && x.watched()
	err := x.stream.WriteHead(r, x.filter(first, last || none && !watched), last || none)
	x.call.Skip(len(first))
	if err == nil && (!last && !none || watched) {
		x.detach()
		err = x.relayBody(none)
	}
	x.cut(err)
}

// dropFraming drops what the gateway frames anew, and the upstream's Server.
// An announced length stays where there is no body to count (HEAD, 304).
func (x *exchange) dropFraming(r *wire.Response) {
	keep := (x.request.Method == "HEAD" || r.Status == 304) && r.Status != 204
	dated := false
	fields := r.Header.Fields()
	for i := range fields {
		switch f := &fields[i]; f.Known {
		case wire.KnownContentLength:
			f.Dropped = !keep
		case wire.KnownServer:
			f.Dropped = true
		case wire.KnownDate:
			dated = true
		}
	}
	if !dated { // RFC 9110 §6.6.1
		r.Header.AddValid("Date", x.engine.clock.Date())
	}
}

// showsStatus says that the client is told what the upstreams answered.
func (x *exchange) showsStatus(status int) bool {
	return x.engine.ShowUpstreamStatus || status >= 500 && !x.engine.Products
}

// appendStatuses prints the status of every try, as in $upstream_status.
func (x *exchange) appendStatuses(dst []byte) []byte {
	for i, t := range x.call.Tries {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		status := t.Status
		if status == 0 {
			status = statusOf(t.Err)
		}
		dst = strconv.AppendInt(dst, int64(status), 10)
	}
	return dst
}

// relayBody copies what is left of the body as it comes; none: only to the
// filters.
func (x *exchange) relayBody(none bool) error {
	b := wire.GetBuffer(relayBuffer)
	defer b.Free()
	for {
		n, err := x.call.ReadBody(b.B)
		last := err == io.EOF
		if err != nil && !last {
			return err
		}
		if t := x.call.Trailers(); last && t != nil {
			x.trailer = t
		}
		if p := x.filter(b.B[:n], last); !none {
			if werr := x.stream.Write(p, last); werr != nil {
				return werr
			}
		}
		if last {
			return nil
		}
	}
}

// relayBuffer is the size of one read of a body; large bodies gain from it.
const relayBuffer = 64 << 10

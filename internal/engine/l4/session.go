package l4

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/upstream"
)

// The statuses of sessions, as in nginx's stream module.
const (
	statusOK          = 200
	statusBadData     = 400
	statusNotFound    = 404
	statusServerError = 500
	statusBadGateway  = 502
	statusUnavailable = 503
)

// A session is one connection, or what one client of a UDP port sends.
type session struct {
	engine *Engine
	port   *counts
	ctx    plugin.StreamCtx
	pin    *snapshot.Pin
	route  *snapshot.StreamRoute
	plan   *plan.Stream
	up     *snapshot.Upstream // held; nil: a plugin's own or none
	link   *upstream.Link

	gone  context.Context // ends when the session is to end
	leave context.CancelFunc

	// last is when something came from either side, idle how long nothing may,
	// both in nanoseconds; 0: not watched.
	last, idle atomic.Int64

	sent, received atomic.Int64 // to and from the client
}

func (e *Engine) newSession(p *counts, protocol string, peer, server netip.AddrPort) *session {
	p.active.Add(1)
	s := &session{engine: e, port: p, pin: e.State.NewPin()}
	s.gone, s.leave = context.WithCancel(e.context)
	c := &s.ctx
	c.Protocol, c.Listener, c.Request = protocol, p.addr, &e.empty
	c.Peer, c.Server, c.Start = peer, server, time.Now()
	c.Client, c.ClientPort = peer.Addr().String(), peer.Port()
	c.Pause = s.pause
	e.add(s)
	return s
}

// end ends the session from outside; it may be called more than once.
func (s *session) end() { s.leave() }

// upward and downward count what the client sends, and what it gets.
func (s *session) upward() flow { return flow{&s.received, &s.port.fromClients, &s.port.toNodes} }

func (s *session) downward() flow { return flow{&s.sent, &s.port.fromNodes, &s.port.toClients} }

func (s *session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.gone.Done():
		return false
	}
}

func (s *session) touch() { s.last.Store(monotonic.Now()) }

func (s *session) expired(now time.Time) bool {
	idle := s.idle.Load()
	return idle > 0 && monotonic.Of(now)-s.last.Load() > idle
}

// A refusal ends a session with a status.
type refusal struct {
	status int
	err    error // for the log; nil: there is nothing to say
	early  bool  // nothing of the session went anywhere
}

var (
	errIdle       = errors.New("neither side has sent anything for too long")
	errNode       = errors.New("the node has ended the connection without an answer")
	errNoRoute    = errors.New("no stream route matches")
	errFault      = errors.New("the stream route cannot run as configured")
	errNoUpstream = errors.New("there is no such upstream")
)

// open finds the route, runs its plugins and connects to its upstream; nil: the
// session goes on.
func (s *session) open() *refusal {
	snap := s.pin.Take()
	s.route = snap.MatchStream(&s.ctx)
	switch {
	case s.route == nil:
		s.pin.Drop()
		return &refusal{status: statusNotFound, err: errNoRoute}
	case s.route.Fault:
		s.pin.Drop()
		return &refusal{status: statusUnavailable, err: errFault}
	}
	s.ctx.Route = &s.route.Route
	s.plan = s.route.Plan
	s.plan.Acquire()
	// Plugins may wait for the client. Nothing but the route may be kept for that.
	s.holdInline()
	s.pin.Drop()
	if reply := s.plan.Preread(&s.ctx); reply != nil {
		return &refusal{status: reply.Status}
	}
	up, r := s.upstream()
	if r != nil {
		return r
	}
	return s.connect(up)
}

// holdInline holds the upstream that stands in the route.
func (s *session) holdInline() {
	if u := s.route.Upstream; u != nil {
		u.Acquire()
		s.up = u
	}
}

// upstream settles where the session goes, and holds that.
func (s *session) upstream() (*snapshot.Upstream, *refusal) {
	if own, ok := s.ctx.To.Upstream.(*snapshot.Upstream); ok && own != nil {
		return own, nil // it lives as long as the plan
	}
	if s.ctx.To.UpstreamID == "" && s.route.UpstreamID == "" {
		if s.up == nil {
			return nil, &refusal{status: statusUnavailable, err: errNoUpstream}
		}
		return s.up, nil
	}
	snap := s.pin.Take()
	defer s.pin.Drop()
	up := snap.StreamUpstream(s.route, s.ctx.To.UpstreamID)
	if up == nil {
		return nil, &refusal{status: statusUnavailable, err: errNoUpstream}
	}
	up.Acquire()
	if s.up != nil {
		s.up.Release()
	}
	s.up = up
	return up, nil
}

// errRefused ends the tries because a plugin did.
type errRefused struct{ reply *plugin.Reply }

func (errRefused) Error() string { return "refused by a plugin" }

func (s *session) connect(up *snapshot.Upstream) *refusal {
	call := upstream.Session{
		Network: "tcp", ServerName: s.ctx.SNI,
		BeforeTry: func(int) error {
			if reply := s.plan.Before(&s.ctx); reply != nil {
				return errRefused{reply}
			}
			return nil
		},
	}
	if s.ctx.Protocol == "UDP" {
		call.Network = "udp"
	}
	if up.Key != nil {
		call.HashKey = func() string { return up.Key(&s.ctx.Ctx) }
	}
	link, err := up.Connect(s.gone, &call)
	s.ctx.Sent.Node = call.Node
	for _, t := range call.Tries {
		s.ctx.Sent.Tries = append(s.ctx.Sent.Tries, plugin.Try{
			Addr: t.Addr, Scheme: t.Scheme, Connect: t.Connect, Total: t.Total,
		})
	}
	var refused errRefused
	var failed *upstream.Error
	switch {
	case err == nil:
		s.link = link
		s.engine.Log.Info("proxy request to "+call.Node, "client", s.ctx.Client, "stream_route", s.route.ID)
		return nil
	case errors.As(err, &refused):
		return &refusal{status: refused.reply.Status}
	case errors.As(err, &failed):
		return &refusal{status: failed.Status(), err: err}
	}
	return &refusal{status: statusServerError, err: err}
}

// close ends what the session holds and logs it.
func (s *session) close(r *refusal) {
	if s.link != nil {
		s.link.Close()
	}
	s.finish(r)
	if s.plan != nil {
		s.plan.Log(&s.ctx)
	}
	if log := s.engine.AccessLog; log != nil {
		log(&s.ctx)
	}
	if s.up != nil {
		s.up.Release()
	}
	if s.plan != nil {
		s.plan.Release()
	}
	s.leave()
	s.port.active.Add(-1)
	s.engine.State.FreePin(s.pin)
	s.engine.remove(s)
}

// finish makes the outcome known to what runs in the log phase.
func (s *session) finish(r *refusal) {
	c := &s.ctx
	c.Sent.Status, c.Sent.End = statusOK, time.Now()
	if r != nil {
		c.Sent.Status, c.Sent.Cause = r.status, r.err
	}
	took := c.Sent.End.Sub(c.Start)
	if n := len(c.Sent.Tries); n > 0 && s.link != nil {
		c.Sent.Tries[n-1].Total = took
	}
	sent, received := s.sent.Load(), s.received.Load()
	c.Sent.Bytes, c.Sent.BodyBytes, c.Sent.Received = sent, sent, received
	c.SetVar("protocol", c.Protocol)
	c.SetVar("session_time", strconv.FormatFloat(took.Seconds(), 'f', 3, 64))
	c.SetVar("bytes_received", strconv.FormatInt(received, 10))
	c.SetVar("upstream_bytes_sent", strconv.FormatInt(received, 10))
	c.SetVar("upstream_bytes_received", strconv.FormatInt(sent, 10))
	if c.SNI != "" {
		c.SetVar("ssl_server_name", c.SNI)
	}
	if r != nil && r.err != nil {
		s.engine.Log.Warn("stream session refused", "client", c.Peer, "server", c.Server, "status", r.status, "err", r.err)
	}
}

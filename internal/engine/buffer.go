package engine

import (
	"bytes"
	"errors"
	"io"
	"runtime/debug"

	"weir/internal/plugin"
)

// Body implements plugin.Bufferer.
func (x *exchange) Body(limit int64) ([]byte, error) {
	switch {
	case x.ctx.To.Body != nil:
		return x.ctx.To.Body, nil
	case x.bodyErr != nil:
		return nil, x.bodyErr
	case x.request.Length > limit:
		return nil, plugin.ErrBodyTooLarge
	case x.request.Length == 0:
		return nil, nil
	case !x.whole && x.handed:
		return nil, plugin.ErrBodySent
	case !x.whole:
		x.fill(limit)
	}
	switch {
	case errors.Is(x.bodyErr, errBodyTooLarge):
		return nil, plugin.ErrBodyTooLarge
	case x.bodyErr != nil:
		return nil, x.bodyErr
	case int64(len(x.buffered)) > limit:
		return nil, plugin.ErrBodyTooLarge
	}
	return x.buffered, nil
}

// fill reads the body until its end is reached or limit is exceeded.
func (x *exchange) fill(limit int64) {
	if x.bodyErr = x.upload.want(); x.bodyErr != nil {
		return
	}
	more := limit + 1 - int64(len(x.buffered))
	if more <= 0 {
		return
	}
	b, err := io.ReadAll(io.LimitReader(x.upload.Reader, more))
	if x.buffered == nil {
		x.buffered = b
	} else {
		x.buffered = append(x.buffered, b...)
	}
	x.bodyErr = err
	x.whole = err == nil && int64(len(b)) < more
}

// rest is the body as it goes upstream: what was read of it, then what follows.
func (x *exchange) rest() io.Reader {
	if len(x.buffered) == 0 {
		return x.upload.Reader
	}
	x.replay.Reset(x.buffered)
	return prefixed{&x.replay, x.upload.Reader}
}

// A prefixed is a body whose beginning was read before.
type prefixed struct {
	head *bytes.Reader
	tail io.Reader
}

func (p prefixed) Read(b []byte) (int, error) {
	if p.head.Len() > 0 {
		return p.head.Read(b)
	}
	return p.tail.Read(b)
}

// Ready says that Read would not wait.
func (p prefixed) Ready() bool {
	if p.head.Len() > 0 {
		return true
	}
	r, ok := p.tail.(interface{ Ready() bool })
	return ok && r.Ready()
}

// tap shows a piece of the body to the plugins that want to see it.
func (x *exchange) tap(piece []byte) {
	for _, t := range x.ctx.Taps() {
		t.See(piece)
	}
}

// tapped is the body as r reads it; what is read of it is shown to the plugins
// that want to see it.
func (x *exchange) tapped(r io.Reader) io.Reader {
	if len(x.ctx.Taps()) == 0 {
		return r
	}
	return &tapped{r: r, x: x}
}

type tapped struct {
	r    io.Reader
	x    *exchange
	lost bool // a plugin panicked: nothing more is shown
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if !t.lost {
		t.see(p[:n])
	}
	return n, err
}

// see shows a piece. Reading may happen on a goroutine of its own, where a panic
// would end the gateway; who only looks on does not hold up the request either.
func (t *tapped) see(piece []byte) {
	defer func() {
		if p := recover(); p != nil {
			t.lost = true
			t.x.engine.Log.Error("a plugin panicked at a request's body", "route", t.x.routeID(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	t.x.tap(piece)
}

// Ready says that Read would not wait.
func (t *tapped) Ready() bool {
	r, ok := t.r.(interface{ Ready() bool })
	return ok && r.Ready()
}

// bodyFault answers a request whose body was asked for and could not be read;
// nil: there is none.
func (x *exchange) bodyFault() *plugin.Reply {
	if x.bodyErr == nil {
		return nil
	}
	x.ctx.Sent.Cause, x.closeAfter = x.bodyErr, true
	switch {
	case errors.Is(x.bodyErr, errBodyTooLarge):
		return pages[413]
	case isTimeout(x.bodyErr):
		return pages[408]
	}
	return pages[400]
}

package engine

import (
	"io"
	"os"
	"sync"
	"time"
)

// expects says that it is for the upstream to say whether it wants the body that
// the client holds back (RFC 9110 §10.1.1).
func (x *exchange) expects() bool {
	return x.ctx.To.Expect && x.request.Expect && x.upload.continued != nil && !x.upload.continued()
}

// passExpect sends the client's expectation on and holds its body back.
func (x *exchange) passExpect() {
	x.gate = newGate(x.call.Body)
	x.call.Body, x.call.StopBody = x.gate, x.gate.stop(x.upload.stop)
	x.lines = append(x.lines, "Expect: 100-continue\r\n"...)
	x.call.Extra = x.lines
}

// goesOn is called for an upstream's 100 Continue.
func (x *exchange) goesOn() error {
	if x.gate == nil {
		return nil
	}
	err := x.upload.want()
	x.gate.open()
	return err
}

// patience is how long an upstream may take to answer an expectation: one that
// knows nothing of them waits for the body.
const patience = time.Second

// A gate is a body that is not read before it is open.
type gate struct {
	body         io.Reader
	opened, over chan struct{}
	once         sync.Once
	ending       sync.Once
	passed       bool // of the reader's goroutine
}

func newGate(body io.Reader) *gate {
	return &gate{body: body, opened: make(chan struct{}), over: make(chan struct{})}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// stop is a StopBody: it ends a wait, too.
func (g *gate) stop(body func()) func() {
	return func() {
		g.ending.Do(func() { close(g.over) })
		if body != nil {
			body()
		}
	}
}

// Read implements io.Reader. It runs on the goroutine of the upload.
func (g *gate) Read(p []byte) (int, error) {
	if !g.passed {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-g.opened:
		case <-timer.C: // the client sends the body when it has waited long enough
		case <-g.over:
			return 0, os.ErrDeadlineExceeded
		}
		g.passed = true
	}
	return g.body.Read(p)
}

// Ready says that Read would not wait, which is never known.
func (g *gate) Ready() bool { return false }

package discovery

import (
	"context"
	"time"
)

// maxRetry is the longest pause after failures, in Env.Retry.
const maxRetry = 30

// A Pace says when to ask a registry again. It belongs to one goroutine.
type Pace struct {
	env   Env
	pause time.Duration // the last one after a failure; 0: there was none
}

// NewPace returns a Pace without failures.
func NewPace(env Env) *Pace { return &Pace{env: env.Filled()} }

// Failed waits after a failure, the longer the more there were; it reports false
// when ctx ends. The pause is at random between its half and its whole, so that
// gateways that failed together do not come back together.
func (p *Pace) Failed(ctx context.Context) bool {
	p.pause = min(max(2*p.pause, p.env.Retry), maxRetry*p.env.Retry)
	return Sleep(ctx, time.Duration((1+p.env.Rand())/2*float64(p.pause)))
}

// Next waits after a success for about d; it reports false when ctx ends.
func (p *Pace) Next(ctx context.Context, d time.Duration) bool {
	p.Succeeded()
	return Sleep(ctx, time.Duration((0.9+0.2*p.env.Rand())*float64(d)))
}

// Succeeded forgets failures.
func (p *Pace) Succeeded() { p.pause = 0 }

// Sleep waits for d; it reports false when ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Poll asks for the nodes of a service every interval until ctx ends.
func Poll(ctx context.Context, f *Feed, env Env, interval time.Duration, ask func(context.Context) ([]Node, error)) {
	pace := NewPace(env)
	for {
		nodes, err := ask(ctx)
		if err != nil {
			f.Fail(err)
			if !pace.Failed(ctx) {
				return
			}
			continue
		}
		f.Set(nodes)
		if !pace.Next(ctx, interval) {
			return
		}
	}
}

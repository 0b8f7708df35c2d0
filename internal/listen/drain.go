package listen

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Drain is what a server's acceptors and connections are counted in, so that it can
// end them. The zero value is open. All methods may be called by many goroutines.
type Drain struct {
	mu    sync.Mutex // between who enters and Begin
	begun atomic.Bool
	wg    sync.WaitGroup
}

// Enter counts one more that Wait waits for; Leave must follow. false: it does not
// any more.
func (d *Drain) Enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.Load() {
		return false
	}
	d.wg.Add(1)
	return true
}

// Leave ends what Enter has begun.
func (d *Drain) Leave() { d.wg.Done() }

// Go runs f on a goroutine that is counted, for one that has entered.
func (d *Drain) Go(f func()) { d.wg.Go(f) }

// Begin lets nobody in any more.
func (d *Drain) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun.Store(true)
}

// Begun reports that nobody gets in any more.
func (d *Drain) Begun() bool { return d.begun.Load() }

// Wait returns when all have left. Once ctx ends it has cut send the rest away, and
// returns the context's error when they are gone.
func (d *Drain) Wait(ctx context.Context, cut func()) error {
	done := make(chan struct{})
	go func() { d.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	cut()
	<-done
	return ctx.Err()
}

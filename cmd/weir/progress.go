package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A progress tells a waiting user, on standard error, how far a long run is:
// nothing for short ones, then a line every interval.
type progress struct {
	w     io.Writer
	every time.Duration

	mu   sync.Mutex
	what string
	done atomic.Int64
	of   int64 // 0: not known

	stop   chan struct{}
	ticker sync.WaitGroup
}

// startProgress begins; end ends it.
func startProgress(w io.Writer, every time.Duration) *progress {
	p := &progress{w: w, every: every, stop: make(chan struct{})}
	p.ticker.Go(func() {
		t := time.NewTicker(p.every)
		defer t.Stop()
		for began := time.Now(); ; {
			select {
			case <-p.stop:
				return
			case <-t.C:
				p.say(time.Since(began))
			}
		}
	})
	return p
}

func (p *progress) say(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what == "" {
		return
	}
	count := ""
	switch done := p.done.Load(); {
	case p.of > 0:
		count = fmt.Sprintf(": %d of %d objects", done, p.of)
	case done > 0:
		count = fmt.Sprintf(": %d objects", done)
	}
	fmt.Fprintf(p.w, "%s%s, %.0f s\n", p.what, count, after.Seconds())
}

// begin starts a stage of so many objects; 0: not known.
func (p *progress) begin(what string, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.of = what, int64(of)
	p.done.Store(0)
}

// at tells how many objects of the stage are done.
func (p *progress) at(done int) { p.done.Store(int64(done)) }

func (p *progress) end() {
	close(p.stop)
	p.ticker.Wait()
}

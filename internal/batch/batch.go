// Package batch collects entries and sends them together, in the background and
// with retries: what every logger and reporter has in common. Whoever adds an
// entry never waits.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Config says how entries are collected and sent.
type Config[T any] struct {
	Name string // of the processor, in the log

	Max        int           // entries of a batch; 1: each is sent at once
	Inactive   time.Duration // a batch is sent when so long no entry has come
	Age        time.Duration // or when its first entry is so old
	Retries    int           // further tries after the first
	RetryDelay time.Duration // before each

	// Send delivers entries, in order. If it fails, done is how many of the first
	// ones were delivered nevertheless. It returns soon after ctx ends. Several
	// calls may run at once.
	Send func(ctx context.Context, entries []T) (done int, err error)

	// Collected is told when the number of entries that wait for their batch to
	// be full or due changes; nil: nobody is.
	Collected func(change int)
}

// maxSenders is how many batches of one processor are sent at the same time. A
// slow receiver is not called more often than that; entries wait meanwhile.
const maxSenders = 16

// A Processor collects entries for one receiver. Make it with New.
type Processor[T any] struct {
	Config[T]
	backlog *Backlog

	mu          sync.Mutex
	filling     []T
	first, last time.Time // when the first and the last of filling came
	timer       *time.Timer
	full        [][]T // wait for a sender
	senders     int
	closed      bool
}

// New makes a processor whose entries count for backlog. Nothing runs as long as
// there are no entries. Close ends it.
func New[T any](c Config[T], backlog *Backlog) *Processor[T] {
	return &Processor[T]{Config: c, backlog: backlog}
}

// Add takes an entry. It returns false, and counts, when the entry is discarded
// because too many are waiting.
func (p *Processor[T]) Add(entry T) bool {
	if !p.backlog.take() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.backlog.discard()
		return false
	}
	p.filling = append(p.filling, entry)
	p.collected(1)
	if len(p.filling) >= p.Max {
		p.cut()
		return true
	}
	p.last = time.Now()
	if len(p.filling) == 1 {
		p.first = p.last
		p.wake(min(p.Inactive, p.Age))
	}
	return true
}

func (p *Processor[T]) collected(change int) {
	if p.Collected != nil {
		p.Collected(change)
	}
}

// wake looks after the batch after d.
func (p *Processor[T]) wake(d time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.look)
		return
	}
	p.timer.Reset(d)
}

// look sends what was collected if it is due.
func (p *Processor[T]) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.filling) == 0 {
		return
	}
	due := p.last.Add(p.Inactive)
	if old := p.first.Add(p.Age); old.Before(due) {
		due = old
	}
	if left := time.Until(due); left > 0 {
		p.wake(left)
		return
	}
	p.cut()
}

// cut hands what was collected to a sender.
func (p *Processor[T]) cut() {
	p.full = append(p.full, p.filling)
	p.collected(-len(p.filling))
	p.filling = nil
	if p.senders < maxSenders {
		p.senders++
		p.backlog.group.running.Go(p.send)
	}
}

// Close sends what is left, in the background: Group.Close waits for it. Entries
// added later are discarded.
func (p *Processor[T]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if len(p.filling) > 0 {
		p.cut()
	}
}

// send delivers full batches until there are none.
func (p *Processor[T]) send() {
	for {
		p.mu.Lock()
		if len(p.full) == 0 {
			p.senders--
			p.full = nil
			p.mu.Unlock()
			return
		}
		entries := p.full[0]
		p.full[0] = nil
		p.full = p.full[1:]
		p.mu.Unlock()
		p.deliver(entries)
	}
}

func (p *Processor[T]) deliver(entries []T) {
	ctx := p.backlog.group.ctx
	for try := 0; ; try++ {
		done, err := p.try(ctx, entries)
		if err == nil {
			p.backlog.give(len(entries))
			return
		}
		done = max(0, min(done, len(entries)))
		entries = entries[done:]
		p.backlog.give(done)
		if len(entries) == 0 {
			return
		}
		last := try >= p.Retries || ctx.Err() != nil
		p.backlog.failed(p.Name, len(entries), err, last)
		if last || !pause(ctx, p.RetryDelay) {
			p.backlog.lose(len(entries))
			return
		}
	}
}

// try calls Send. What panics there costs the batch and not the process.
func (p *Processor[T]) try(ctx context.Context, entries []T) (done int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return p.Send(ctx, entries)
}

// pause waits for d; false: not so long, since ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errClosed is why entries are lost that could not be sent in time.
var errClosed = errors.New("the gateway stops")

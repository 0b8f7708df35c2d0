package batch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/monotonic"
)

// DefaultLimit is how many entries of one plugin may wait to be sent, as in
// APISIX (max_pending_entries).
const DefaultLimit = 8192

// Drain is how long a Group that is closed goes on sending.
const Drain = 5 * time.Second

// A Group is what all processors of a gateway share: the background in which
// they send. Make it with NewGroup.
type Group struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	log     *slog.Logger

	mu       sync.Mutex
	backlogs map[string]*Backlog
}

// NewGroup makes a group. Close ends it.
func NewGroup(log *slog.Logger) *Group {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Group{ctx: ctx, cancel: cancel, log: log, backlogs: map[string]*Backlog{}}
}

// Close waits until everything is sent, at most for Drain; what is left then is
// lost. Every processor must be closed before.
func (g *Group) Close() {
	done := make(chan struct{})
	go func() {
		g.running.Wait()
		close(done)
	}()
	t := time.NewTimer(Drain)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		g.cancel(errClosed)
		<-done
	}
	g.cancel(errClosed)
}

// Backlog is the backlog of the named plugin. Its limit becomes that many
// entries.
func (g *Group) Backlog(plugin string, limit int) *Backlog {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.backlogs[plugin]
	if b == nil {
		b = &Backlog{group: g, plugin: plugin}
		g.backlogs[plugin] = b
	}
	b.limit.Store(int64(limit))
	return b
}

// A Backlog counts the entries of one plugin that are not sent yet, wherever they
// are, and bounds them: a receiver that is down must not cost the memory.
type Backlog struct {
	group  *Group
	plugin string

	limit   atomic.Int64
	pending atomic.Int64
	dropped atomic.Int64
	lost    atomic.Int64

	discards   monotonic.Seldom // reports of them
	unreported atomic.Int64
	failures   monotonic.Seldom // reports of them
}

// Pending is the number of entries that are not sent yet.
func (b *Backlog) Pending() int64 { return b.pending.Load() }

// Dropped is the number of entries that were discarded because too many were
// waiting.
func (b *Backlog) Dropped() int64 { return b.dropped.Load() }

// Lost is the number of entries that could not be sent.
func (b *Backlog) Lost() int64 { return b.lost.Load() }

func (b *Backlog) take() bool {
	if b.pending.Add(1) <= b.limit.Load() {
		return true
	}
	b.discard()
	return false
}

func (b *Backlog) give(n int) { b.pending.Add(-int64(n)) }

func (b *Backlog) lose(n int) {
	b.give(n)
	b.lost.Add(int64(n))
}

// discard gives an entry's place back and reports it.
func (b *Backlog) discard() {
	b.give(1)
	b.dropped.Add(1)
	b.unreported.Add(1)
	if !b.discards.Ready(time.Now()) {
		return
	}
	b.group.log.Error("too many log entries are waiting, new ones are discarded", "plugin", b.plugin,
		"waiting", b.Pending(), "max_pending_entries", b.limit.Load(), "discarded", b.unreported.Swap(0))
}

// failed reports a batch that was not delivered; last: it will not be tried again.
func (b *Backlog) failed(name string, entries int, err error, last bool) {
	if !b.failures.Ready(time.Now()) {
		return
	}
	msg := "log entries could not be sent, they are tried again"
	if last {
		msg = "log entries could not be sent and are lost"
	}
	b.group.log.Error(msg, "plugin", b.plugin, "processor", name, "entries", entries,
		"lost_so_far", b.Lost(), "err", err)
}

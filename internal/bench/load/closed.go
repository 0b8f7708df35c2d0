package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A ClosedConfig describes a closed-loop load: every connection sends its next
// request when the previous one is answered. It shows what a server can do, not
// what its clients wait: Generator does that.
type ClosedConfig struct {
	// Dial opens a connection to the server.
	Dial func(context.Context) (net.Conn, error)

	Requests [][]byte      // each connection sends them in turn, from another one on
	Conns    int           // keep-alive connections
	Status   int           // what answers are expected to have; others count as Other
	Timeout  time.Duration // for dialling, and for what is under way when the load stops
}

// Counts is what became of the requests so far.
type Counts struct {
	Answered uint64 // with the expected status
	Other    uint64 // with another
	Errors   uint64 // connection refused, cut, or a response that is not HTTP
}

// All is the number of answers of any status.
func (c Counts) All() uint64 { return c.Answered + c.Other }

// Since is what came after an earlier state.
func (c Counts) Since(before Counts) Counts {
	return Counts{c.Answered - before.Answered, c.Other - before.Other, c.Errors - before.Errors}
}

// A Closed is a running closed-loop load.
type Closed struct {
	cfg  ClosedConfig
	stop atomic.Bool
	wg   sync.WaitGroup

	answered, other, errors atomic.Uint64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// StartClosed opens the connections and starts the load. The caller stops it.
func StartClosed(ctx context.Context, cfg ClosedConfig) (*Closed, error) {
	l := &Closed{cfg: cfg, conns: map[net.Conn]struct{}{}}
	for i := range cfg.Conns {
		nc, err := l.dial(ctx)
		if err != nil {
			l.Stop()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, cfg.Conns, err)
		}
		l.wg.Go(func() { l.run(nc, i) })
	}
	return l, nil
}

// Counts are the figures as they stand now.
func (l *Closed) Counts() Counts {
	return Counts{l.answered.Load(), l.other.Load(), l.errors.Load()}
}

// Stop lets the requests under way end, closes the connections and waits.
func (l *Closed) Stop() {
	l.stop.Store(true)
	l.mu.Lock()
	for nc := range l.conns {
		_ = nc.SetDeadline(time.Now().Add(l.cfg.Timeout))
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *Closed) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	nc, err := l.cfg.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[nc] = struct{}{}
	if l.stop.Load() { // Stop may have missed this one
		_ = nc.SetDeadline(time.Now().Add(l.cfg.Timeout))
	}
	return nc, nil
}

func (l *Closed) hangUp(nc net.Conn) {
	_ = nc.Close()
	l.mu.Lock()
	delete(l.conns, nc)
	l.mu.Unlock()
}

// run keeps one connection busy, dialling again when it ends.
func (l *Closed) run(nc net.Conn, n int) {
	for {
		sent, err := l.exchange(nc, n)
		n += sent
		l.hangUp(nc)
		if l.stop.Load() {
			return
		}
		if err != nil {
			l.errors.Add(1)
			time.Sleep(redialDelay)
		}
		for nc, err = l.dial(context.Background()); err != nil; nc, err = l.dial(context.Background()) {
			if l.stop.Load() {
				return
			}
			l.errors.Add(1)
			time.Sleep(redialDelay)
		}
	}
}

// exchange sends requests from number n on until the connection or the load ends.
func (l *Closed) exchange(nc net.Conn, n int) (sent int, err error) {
	br := bufio.NewReaderSize(nc, 4096)
	for !l.stop.Load() {
		if _, err := nc.Write(l.cfg.Requests[(n+sent)%len(l.cfg.Requests)]); err != nil {
			return sent, err
		}
		status, last, err := readResponse(br)
		if err != nil {
			return sent, err
		}
		sent++
		if status == l.cfg.Status {
			l.answered.Add(1)
		} else {
			l.other.Add(1)
		}
		if last {
			break
		}
	}
	return sent, nil
}

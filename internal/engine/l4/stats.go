package l4

import (
	"sync/atomic"
)

// PortStats are what has happened on one port so far.
type PortStats struct {
	Addr   string // as it is listened on
	Active int64  // sessions now

	FromClients, ToClients int64 // bytes
	FromNodes, ToNodes     int64
}

// Counts are PortStats in the making.
type counts struct {
	addr                                               string
	active, fromClients, toClients, fromNodes, toNodes atomic.Int64
}

// Stats are those of every port, in the order in which they were opened.
func (e *Engine) Stats() []PortStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]PortStats, len(e.ports))
	for i, p := range e.ports {
		out[i] = PortStats{
			p.addr, p.active.Load(), p.fromClients.Load(), p.toClients.Load(), p.fromNodes.Load(), p.toNodes.Load(),
		}
	}
	return out
}

func (e *Engine) newPort(addr string) *counts {
	p := &counts{addr: addr}
	e.mu.Lock()
	e.ports = append(e.ports, p)
	e.mu.Unlock()
	return p
}

// A flow counts the bytes of one direction of a session: those that were read
// and, at the other end, those that were written.
type flow struct {
	moved         *atomic.Int64 // of the session, when they are written
	read, written *atomic.Int64
}

func (f *flow) came(n int) { f.read.Add(int64(n)) }

func (f *flow) went(n int64) {
	f.moved.Add(n)
	f.written.Add(n)
}

package engine

import "sync/atomic"

// Stats are what the data plane has done and is doing.
type Stats struct {
	Accepted int64 // connections since the start
	Requests int64 // since the start
	Active   int   // open connections
	Busy     int   // of them those with a request
}

// counters are the parts of Stats that are counted.
type counters struct {
	accepted atomic.Int64
	requests [64]cell
	next     atomic.Uint32
}

// A cell counts the requests of some exchanges: one for all would be contended
// for by every processor.
type cell struct {
	n atomic.Int64
	_ [56]byte // the rest of the cache line
}

func (c *counters) cell() *cell { return &c.requests[c.next.Add(1)%uint32(len(c.requests))] }

// Stats counts the connections, which requests do not wait for.
func (e *Engine) Stats() Stats {
	s := Stats{Accepted: e.counters.accepted.Load()}
	for i := range e.counters.requests {
		s.Requests += e.counters.requests[i].n.Load()
	}
	e.each(func(m member) {
		s.Active++
		if b, ok := m.(interface{ busy() bool }); ok && b.busy() {
			s.Busy++
		}
	})
	return s
}

func (c *conn) busy() bool { return c.state.Load() > tired }

func (c *Connection) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle) < len(c.all)
}

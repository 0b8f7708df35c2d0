package engine

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"weir/internal/listen"
)

// A door bounds the connections that are open at once.
type door struct {
	slots   chan struct{} // nil: unbounded
	waiting atomic.Int64  // for a slot
	room    *listen.Room
	max     int // of one address; 0: unbounded

	mu   sync.Mutex
	open map[netip.Prefix]int
}

func newDoor(total, perAddress int, room *listen.Room) *door {
	d := &door{room: room, max: perAddress, open: map[netip.Prefix]int{}}
	if total > 0 {
		d.slots = make(chan struct{}, total)
	}
	return d
}

// take waits for room for a socket; false: there is none, and stopping says so.
func (d *door) take(stopping func() bool) bool {
	if d.slots != nil {
		d.waiting.Add(1)
		d.slots <- struct{}{}
		d.waiting.Add(-1)
	}
	if !d.room.Enter(stopping) {
		d.give()
		return false
	}
	return true
}

// leaveSocket undoes take.
func (d *door) leaveSocket() {
	d.room.Leave()
	d.give()
}

// crowded reports that somebody waits.
func (d *door) crowded() bool { return d.waiting.Load() > 0 || d.room.Crowded() }

// try takes room for a client without a socket of its own, if there is some.
func (d *door) try() bool {
	if d.slots == nil {
		return true
	}
	select {
	case d.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (d *door) give() {
	if d.slots != nil {
		<-d.slots
	}
}

// enter counts a connection of that address, unless it has too many. leave must
// follow if it does.
func (d *door) enter(a netip.Addr) bool {
	if d.max <= 0 {
		return true
	}
	p := neighbourhood(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[p] >= d.max {
		return false
	}
	d.open[p]++
	return true
}

func (d *door) leave(a netip.Addr) {
	if d.max <= 0 {
		return
	}
	p := neighbourhood(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[p]--; d.open[p] <= 0 {
		delete(d.open, p)
	}
}

// neighbourhood is what one client has: an IPv4 address, or 64 bits of IPv6
// (RFC 6177).
func neighbourhood(a netip.Addr) netip.Prefix {
	bits := 64
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // fails for lengths that no address has
	return p
}

var errTooMany = errors.New("the client's address has too many connections")

// admitted serves a connection if its client may have one more.
func (e *Engine) admitted(nc net.Conn, serve func(net.Conn)) {
	if e.door.max <= 0 {
		serve(nc)
		return
	}
	from := addrPort(nc.RemoteAddr()).Addr()
	if !e.door.enter(from) {
		nc.Close()
		e.Log.Info("connection refused", "client", from, "err", errTooMany)
		return
	}
	defer e.door.leave(from)
	serve(nc)
}

// Admit is for protocols that accept connections themselves: leave must be called
// once when the connection of an admitted client has ended.
func (e *Engine) Admit(peer net.Addr) (leave func(), err error) {
	from := addrPort(peer).Addr()
	if !e.door.try() {
		return nil, errors.New("too many connections")
	}
	if !e.door.enter(from) {
		e.door.give()
		return nil, errTooMany
	}
	return sync.OnceFunc(func() {
		e.door.leave(from)
		e.door.give()
	}), nil
}

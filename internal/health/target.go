package health

import (
	"cmp"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A Status is what is thought of a target.
type Status uint32

// The statuses. A target is used in the first two.
const (
	Healthy         Status = iota
	MostlyHealthy          // healthy, with failures counted
	MostlyUnhealthy        // unhealthy, with successes counted
	Unhealthy
)

// String is the status in the Control API.
func (s Status) String() string {
	return [...]string{"healthy", "mostly_healthy", "mostly_unhealthy", "unhealthy"}[s]
}

func (s Status) usable() bool { return s <= MostlyHealthy }

// Counter is what was counted of a target. A success sets the failures to 0, a
// failure the successes.
type Counter struct {
	Success int `json:"success"`
	HTTP    int `json:"http_failure"`
	TCP     int `json:"tcp_failure"`
	Timeout int `json:"timeout_failure"`
}

// A Address is where a target is asked, and in whose name.
type Address struct {
	Addr netip.AddrPort
	Name string // Host header, and server name of TLS; empty: the address
}

// A Target is one checked address of an upstream. All methods may be called by
// many goroutines. A nil Target is healthy and counts nothing.
type Target struct {
	Address
	checker *Checker
	gone    atomic.Bool // it is not a target any more
	status  atomic.Uint32

	mu      sync.Mutex
	counter Counter
}

// Status is what is thought of the target now.
func (t *Target) Status() Status { return Status(t.status.Load()) }

// Healthy reports whether the target may be used.
func (t *Target) Healthy() bool { return t == nil || t.Status().usable() }

// Answered counts the status that a request was answered with.
func (t *Target) Answered(status int) {
	if t != nil {
		p := &t.checker.checks.Load().Passive
		t.answered(status, &p.Healthy, &p.Unhealthy)
	}
}

// Failed counts a request whose connection failed.
func (t *Target) Failed() {
	if t != nil {
		t.fail(&t.counter.TCP, t.checker.checks.Load().Passive.Unhealthy.TCP)
	}
}

// TimedOut counts a request that waited too long.
func (t *Target) TimedOut() {
	if t != nil {
		t.fail(&t.counter.Timeout, t.checker.checks.Load().Passive.Unhealthy.Timeouts)
	}
}

func (t *Target) answered(status int, healthy, unhealthy *Rule) {
	switch {
	case healthy.Statuses.Has(status):
		t.succeed(healthy.Successes)
	case unhealthy.Statuses.Has(status):
		t.fail(&t.counter.HTTP, unhealthy.HTTP)
	}
}

// succeed counts one success; enough of them make the target healthy. Nothing
// is counted of a target that is.
func (t *Target) succeed(enough int) {
	if enough == 0 || t.Status() == Healthy {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.Status()
	if was == Healthy {
		return
	}
	t.counter = Counter{Success: t.counter.Success + 1}
	switch {
	case t.counter.Success >= enough:
		t.become(Healthy, was)
	case was == Unhealthy:
		t.become(MostlyUnhealthy, was)
	}
}

// fail counts one failure of a kind; enough of them make the target unhealthy.
// Nothing is counted of a target that is.
func (t *Target) fail(kind *int, enough int) {
	if enough == 0 || t.Status() == Unhealthy {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.Status()
	if was == Unhealthy {
		return
	}
	t.counter.Success = 0
	*kind++
	switch {
	case *kind >= enough:
		t.become(Unhealthy, was)
	case was == Healthy:
		t.become(MostlyHealthy, was)
	}
}

func (t *Target) become(s, was Status) {
	t.status.Store(uint32(s))
	if s.usable() == was.usable() {
		return
	}
	log, say := t.checker.cfg.Log, t.checker.cfg.Log.Warn
	if s.usable() {
		say = log.Info
	}
	say("a node of an upstream changed its health", "upstream", t.checker.cfg.Name,
		"addr", t.Addr, "host", t.Name, "status", s.String())
}

// A Node is a target as the Control API tells it.
type Node struct {
	IP       string  `json:"ip"`
	Port     int     `json:"port"`
	Hostname string  `json:"hostname"`
	Header   string  `json:"hostheader,omitempty"`
	Status   string  `json:"status"`
	Counter  Counter `json:"counter"`
}

func (t *Target) report() Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	ip := t.Addr.Addr().String()
	return Node{
		IP: ip, Port: int(t.Addr.Port()), Hostname: cmp.Or(t.checker.checks.Load().Active.Host, ip),
		Header: t.Name, Status: t.Status().String(), Counter: t.counter,
	}
}

package load

import "time"

// Stats are the figures of one phase. A request belongs to the phase in which
// it was intended to be sent, whenever it ends.
type Stats struct {
	Scheduled int       // requests intended for the phase
	Sent      int       // requests whose time came (all, unless the run was cut short)
	Status    [6]uint64 // responses by status class; Status[2] counts 200 to 299
	NotFound  uint64    // of them, responses with 404
	Timeouts  uint64    // not answered in full within the timeout of the intended time
	Errors    uint64    // connection refused, reset, or a response that is not HTTP

	// Latency is from the intended send time to the last byte of the response,
	// for responses of any status; a timeout counts with the time it had.
	Latency Histogram

	// Late is how late the generator itself turned to each request: its own
	// delay, not the server's. It is part of Latency.
	Late Histogram

	// Stall is the longest time during which at least one request was due and
	// no response came: from the previous response, or from the intended time
	// of the request that ended an idle moment, to the next response. It counts
	// in the phase in which it began. A server that answers every lone request
	// in 1 ms has a stall of 1 ms.
	Stall time.Duration
}

// answered notes a response.
func (s *Stats) answered(status int, latency time.Duration) {
	s.Status[min(status/100, len(s.Status)-1)]++
	if status == 404 {
		s.NotFound++
	}
	s.Latency.Record(latency)
}

type outcome uint8

const (
	answered outcome = iota
	timedOut
	failed
)

// quiet follows the current silence of the server.
type quiet struct {
	on    bool // a request is due since the last response
	since time.Time
	phase int
}

// request notes that a request became due.
func (q *quiet) request(at time.Time, phase int) {
	if !q.on {
		*q = quiet{on: true, since: at, phase: phase}
	}
}

// completion notes a response; more says that other requests are due.
func (q *quiet) completion(now time.Time, more bool, phase int, stats []Stats) {
	q.finish(now, stats)
	*q = quiet{on: more, since: now, phase: phase}
}

// finish ends the current silence.
func (q *quiet) finish(now time.Time, stats []Stats) {
	if q.on {
		s := &stats[q.phase]
		s.Stall = max(s.Stall, now.Sub(q.since))
	}
}

package threescale

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weir/internal/meter"
	"weir/internal/monotonic"
	"weir/internal/plugin"
)

// A report is what the backend is told after a request was answered.
type report struct {
	client *Client
	target []byte // of a call that authorizes and reports; empty: form is sent
	form   []byte // transactions
	key    []byte // under which the answer is remembered
	mode   Caching
	limits bool // somebody shows limits
}

var reports = sync.Pool{New: func() any { return new(report) }}

// The bounds of what waits to be reported.
const (
	reportsWaiting = 16 << 10
	reportsAtOnce  = 1024
	reportersReady = 16
	reporterIdles  = 5 * time.Second
)

// A reporter sends reports in the background. Whatever happens to the backend, it
// neither grows without bound nor makes a request wait: what finds no room is
// counted and lost.
type reporter struct {
	queue   chan *report
	most    int32 // workers
	running atomic.Int32
	idle    atomic.Int32
	stop    chan struct{}
	workers sync.WaitGroup
	lost    *Counter
	say     func(lost int64)
	sparse  sparse
}

func newReporter(threads int, m *meter.Registry, say func(lost int64)) *reporter {
	r := &reporter{queue: make(chan *report, reportsWaiting), most: reportsAtOnce, stop: make(chan struct{}), say: say}
	if threads > 0 {
		r.most = int32(threads)
	}
	r.lost = NewCounter(m, "threescale_lost_reports", "Reports to the 3scale backend that found no room")
	return r
}

// post takes a report over.
func (r *reporter) post(j *report) bool {
	select {
	case r.queue <- j:
	default:
		r.lose()
		return false
	}
	if r.idle.Load() == 0 {
		// Under load all are busy most of the time. That is no reason for more of
		// them, each with a connection, but that reports pile up is.
		if n := r.running.Load(); n < reportersReady || len(r.queue) > int(n) {
			r.hire()
		}
	}
	return true
}

func (r *reporter) lose() {
	r.lost.Count()
	if n := r.sparse.due(); n > 0 {
		r.say(n)
	}
}

// hire starts a worker, if there may be one more.
func (r *reporter) hire() {
	for {
		n := r.running.Load()
		if n >= r.most {
			return
		}
		if r.running.CompareAndSwap(n, n+1) {
			r.workers.Go(r.work)
			return
		}
	}
}

func (r *reporter) work() {
	rest := time.NewTimer(reporterIdles)
	defer rest.Stop()
	for {
		select {
		case j := <-r.queue:
			j.do()
			continue
		default:
		}
		r.idle.Add(1)
		rest.Reset(reporterIdles)
		select {
		case j := <-r.queue:
			r.idle.Add(-1)
			j.do()
			continue
		case <-rest.C:
		case <-r.stop:
		}
		r.idle.Add(-1)
		r.running.Add(-1)
		if len(r.queue) > 0 { // it came while nobody was idle any more
			r.hire()
		}
		return
	}
}

// do sends the report and forgets it.
func (j *report) do() {
	rt := j.client.rt
	if len(j.target) == 0 {
		if !j.client.send(j.form) {
			rt.Log.Warn("3scale's backend did not take a report")
		}
	} else {
		a := j.client.authRep(unsafe.String(unsafe.SliceData(j.target), len(j.target)))
		rt.remember(j.mode, j.key, a.Status)
		if j.limits {
			rt.noteLimits(j.key, &a)
		}
	}
	*j = report{target: j.target[:0], form: j.form[:0], key: j.key[:0]}
	reports.Put(j)
}

// close waits until what is waiting was sent, at most so long, and ends the
// workers.
func (r *reporter) close(patience time.Duration) {
	by := time.After(patience)
	for waiting := true; waiting; {
		if len(r.queue) == 0 && r.idle.Load() == r.running.Load() {
			break
		}
		select {
		case <-by:
			waiting = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	close(r.stop)
	if n := len(r.queue); n > 0 {
		r.say(int64(n))
	}
}

// Report tells the backend, after the answer, about a request whose authorization
// was remembered.
func (k *Client) Report(c *plugin.Ctx, r *Request) {
	j := reports.Get().(*report)
	j.client, j.mode, j.limits = k, r.caching(), r.ShowsLimits
	b := appendAsked(append(j.target[:0], k.authrep...), r)
	if k.rt.ResponseCodes {
		b = strconv.AppendInt(append(b, "&log%5Bcode%5D="...), int64(c.Sent.Status), 10)
	}
	j.target = appendExtra(b, r.Extra)
	j.key = append(j.key[:0], r.asked.key...)
	k.rt.reporter.post(j)
	r.asked.pending = false
}

// ReportUsage tells the backend, in its time, about more that the caller of a
// request has used.
func (k *Client) ReportUsage(who *Credentials, u Usage) {
	if who.None() || len(u) == 0 {
		return
	}
	j := reports.Get().(*report)
	j.client, j.target = k, j.target[:0]
	j.form = appendTransaction(j.form[:0], 0, who, u)
	k.rt.reporter.post(j)
}

// appendTransaction appends a transaction to a form. A caller is named by one of
// its credentials; a service has only one kind.
func appendTransaction(b []byte, n int, who *Credentials, u Usage) []byte {
	if n > 0 {
		b = append(b, '&')
	}
	name, value := who.named()
	b = appendMember(b, n)
	b = append(append(b, "%5B"...), name...)
	b = appendEscaped(append(b, "%5D="...), value)
	for i := range u {
		b = appendMember(append(b, '&'), n)
		b = appendEscaped(append(b, "%5Busage%5D%5B"...), u[i].Metric)
		b = strconv.AppendInt(append(b, "%5D="...), u[i].Delta, 10)
	}
	return b
}

func appendMember(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, "transactions%5B"...), int64(n), 10), "%5D"...)
}

// named is the credential by which reports name the caller.
func (c *Credentials) named() (name, value string) {
	switch has := c.has(); {
	case has&showsUserKey != 0:
		return "user_key", c.UserKey
	case has&showsAppID != 0:
		return "app_id", c.AppID
	}
	return "access_token", c.AccessToken
}

// A sparse is what happens to many requests and is logged once a second.
type sparse struct{ said, since atomic.Int64 }

// due counts one more, and returns how often it has happened since it was last
// said; 0: it need not be said now.
func (s *sparse) due() int64 {
	s.since.Add(1)
	now, said := monotonic.Now()/int64(time.Second)+1, s.said.Load()
	if now > said && s.said.CompareAndSwap(said, now) {
		return s.since.Swap(0)
	}
	return 0
}

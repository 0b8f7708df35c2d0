package threescale

import (
	"cmp"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cache"
)

// accounts are what is remembered of callers, and what the backend is to be told
// of them, for all products of the process.
type accounts struct {
	authorizations  *cache.Cache[int16]   // statuses of the backend
	delegated       *cache.Cache[verdict] // of 3scale_batcher
	limits          *cache.Cache[*limit]
	calls           *calls
	reporter        *reporter
	flights         flights
	silent, aimless sparse // backends, requests without an upstream
	hostname        string

	// Batches.
	batched   atomic.Int64 // bytes
	batchRoom int64
	sending   chan struct{} // has room for who may send
	closed    atomic.Bool
	batches   struct {
		sync.Mutex
		all map[*Batch]struct{}
	}

	asked struct { // Runtime.UnknownKey
		sync.Mutex
		last map[string]time.Time // by issuer
	}
}

// closePatience is how long the end waits for backends.
const closePatience = 5 * time.Second

func (a *accounts) open(rt *Runtime) {
	a.authorizations = cache.New[int16](authorizationsRoom, rt.Now)
	a.delegated = cache.New[verdict](verdictsRoom, rt.Now)
	a.limits = cache.New[*limit](limitsRoom, rt.Now)
	a.calls = newCalls(rt.Meter)
	a.reporter = newReporter(rt.ReportingThreads, rt.Meter, func(lost int64) {
		rt.Log.Error("reports to 3scale's backend found no room and are lost", "reports", lost)
	})
	a.batchRoom = cmp.Or(rt.BatchRoom, batchRoom)
	a.sending = make(chan struct{}, batchesAtOnce)
	a.hostname, _ = os.Hostname() // for a debug header
}

func (a *accounts) close() {
	if a.closed.Swap(true) {
		return
	}
	a.flushAll(closePatience)
	a.reporter.close(closePatience)
}

// unknownKeyEvery is how often an issuer is asked for keys because of tokens that
// anybody can send.
const unknownKeyEvery = time.Minute

// unknownKey says that a token names a key that its issuer is not known to have.
func (rt *Runtime) unknownKey(issuer string) {
	if rt.UnknownKey == nil {
		return
	}
	now := rt.Now()
	rt.asked.Lock()
	last, was := rt.asked.last[issuer]
	due := !was || now.Sub(last) >= unknownKeyEvery
	if due {
		if rt.asked.last == nil {
			rt.asked.last = map[string]time.Time{}
		}
		rt.asked.last[issuer] = now
	}
	rt.asked.Unlock()
	if due {
		rt.UnknownKey(issuer)
	}
}

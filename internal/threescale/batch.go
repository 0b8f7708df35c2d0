package threescale

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/plugin"
)

// batchRoom is the memory of what waits in batches, in bytes, unless
// Settings.BatchRoom says how much.
const batchRoom = 20 << 20

// batchesAtOnce bounds the batches that are sent at the same time.
const batchesAtOnce = 16

// transactionsAtOnce bounds the transactions of one report.
const transactionsAtOnce = 1000

const batchShards = 16

// A Batch gathers what the callers of one product use, and reports it from time
// to time (policy 3scale_batcher). Nothing of it is lost while the backend is
// down: what could not be reported is gathered further.
type Batch struct {
	rt     *Runtime
	client atomic.Pointer[Client]
	every  atomic.Int64 // time.Duration
	seed   maphash.Seed
	shards [batchShards]batchShard
	armed  atomic.Bool // it is known when the batch is sent next
	timer  atomic.Pointer[time.Timer]

	mu     sync.Mutex // one sends at a time
	closed atomic.Bool
}

type batchShard struct {
	mu     sync.Mutex
	byName map[string]*used // by kind and value of a credential
	_      [48]byte
}

// used is what one caller has used.
type used struct {
	who   Credentials
	usage Usage
}

// usedSize is the memory of a caller in a batch, beside its name, and of a metric.
const (
	usedSize   = 200
	metricSize = 24
)

// KeepBatch returns the product's batch, which outlives changes of the product,
// and has it reported every so often.
func KeepBatch(env plugin.Env, client *Client, every time.Duration) *Batch {
	p := ProductOf(env)
	b := plugin.Keep(env, "3scale batch "+p.ID, func() *Batch {
		b := &Batch{rt: p.Runtime, seed: maphash.MakeSeed()}
		p.Runtime.enlist(b)
		return b
	})
	b.client.Store(client)
	b.every.Store(int64(every))
	return b
}

// Add gathers what a caller has used.
func (b *Batch) Add(who *Credentials, u Usage) {
	var stack [256]byte
	name, value := who.named()
	key := append(append(append(stack[:0], name...), 0), value...)
	s := &b.shards[maphash.Bytes(b.seed, key)%batchShards]
	s.mu.Lock()
	at := s.byName[string(key)]
	if at == nil {
		if at = b.welcome(name, value); at == nil {
			s.mu.Unlock()
			b.client.Load().ReportUsage(who, u) // at once, since there is no room
			return
		}
		if s.byName == nil {
			s.byName = map[string]*used{}
		}
		s.byName[string(key)] = at
	}
	for i := range u {
		at.usage.count(b.rt, u[i])
	}
	s.mu.Unlock()
	b.arm()
}

// welcome makes the entry of a caller, if there is room.
func (b *Batch) welcome(name, value string) *used {
	size := int64(usedSize + 2*len(value))
	if b.rt.batched.Add(size) > b.rt.batchRoom {
		b.rt.batched.Add(-size)
		return nil
	}
	at := new(used)
	value = string([]byte(value)) // the request's memory does not last
	switch name {
	case "user_key":
		at.who.show(showsUserKey, value)
	case "app_id":
		at.who.show(showsAppID, value)
	default:
		at.who.show(showsToken, value)
	}
	return at
}

// count is Add for what stays.
func (u *Usage) count(rt *Runtime, n Count) {
	for i := range *u {
		if (*u)[i].Metric == n.Metric {
			(*u)[i].Delta += n.Delta
			return
		}
	}
	rt.batched.Add(metricSize)
	*u = append(*u, Count{strings.Clone(n.Metric), n.Delta})
}

// arm has the batch sent when it is time.
func (b *Batch) arm() {
	if b.armed.Load() || !b.armed.CompareAndSwap(false, true) {
		return
	}
	b.timer.Store(time.AfterFunc(time.Duration(b.every.Load()), func() {
		if !b.rt.closed.Load() {
			b.flush()
		}
	}))
}

// flush is Flush when it is the batch's turn.
func (b *Batch) flush() (ok bool) {
	b.rt.sending <- struct{}{}
	defer func() { <-b.rt.sending }()
	return b.Flush()
}

// Flush reports what was gathered. What the backend does not take stays; then ok
// is false.
func (b *Batch) Flush() (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed.Store(false)
	client := b.client.Load()
	var form []byte
	var pack []*used
	refused := false
	send := func() {
		if len(pack) == 0 {
			return
		}
		if refused = refused || !client.send(form); refused {
			b.giveBack(pack)
		}
		form, pack = form[:0], pack[:0]
	}
	for _, at := range b.take() {
		form = appendTransaction(form, len(pack), &at.who, at.usage)
		if pack = append(pack, at); len(pack) == transactionsAtOnce {
			send()
		}
	}
	send()
	if refused {
		b.rt.Log.Warn("3scale's backend did not take the reports of a product; they stay in its batch")
		return false
	}
	if b.closed.Load() {
		b.rt.dismiss(b)
	}
	return true
}

// take empties the batch.
func (b *Batch) take() (all []*used) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		taken := s.byName
		s.byName = nil
		s.mu.Unlock()
		for _, at := range taken {
			_, value := at.who.named()
			b.rt.batched.Add(-int64(usedSize + 2*len(value) + metricSize*len(at.usage)))
			all = append(all, at)
		}
	}
	return all
}

func (b *Batch) giveBack(all []*used) {
	for _, at := range all {
		b.Add(&at.who, at.usage)
	}
}

// Close is called when no product has the batch any more: the rest is reported
// now, or as soon as the backend takes it.
func (b *Batch) Close() {
	b.closed.Store(true)
	b.every.Store(int64(flushAgain))
	if t := b.timer.Load(); t == nil || t.Stop() || !b.armed.Load() {
		go b.flush()
	}
}

// flushAgain is how soon what the backend has not taken is reported again when
// nothing more is gathered.
const flushAgain = time.Second

func (a *accounts) enlist(b *Batch) {
	a.batches.Lock()
	defer a.batches.Unlock()
	if a.batches.all == nil {
		a.batches.all = map[*Batch]struct{}{}
	}
	a.batches.all[b] = struct{}{}
}

func (a *accounts) dismiss(b *Batch) {
	a.batches.Lock()
	defer a.batches.Unlock()
	delete(a.batches.all, b)
}

// flushAll reports what all batches have, again and again where the backend does
// not take it, but not for long.
func (a *accounts) flushAll(patience time.Duration) {
	a.batches.Lock()
	all := slices.Collect(maps.Keys(a.batches.all))
	a.batches.Unlock()
	end := time.Now().Add(patience)
	var flushes sync.WaitGroup
	for _, b := range all {
		flushes.Go(func() {
			for !b.flush() && time.Now().Before(end) {
				time.Sleep(flushAgain / 20)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		flushes.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

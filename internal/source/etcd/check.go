package etcd

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/model"
)

// A Check says how the running state is compared with the store, a slice of the
// keys at a time. What differs is delivered again.
type Check struct {
	Every time.Duration // from the start of one slice to that of the next; default 30 s
	Keys  int           // of a slice, at most; default 10,000

	// State is the state that was delivered last; nil: nothing is checked.
	State func() Running
}

// Running is what runs in one state.
type Running interface {
	// IDs yields the ids of the objects of a kind, in any order.
	IDs(k model.Kind) iter.Seq[string]
	// Modified is the revision of an object's version; ok is false if none runs.
	Modified(key model.Key) (revision int64, ok bool)
}

// The kinds of drift.
const (
	DriftMissing  = "missing"  // the store has an object that does not run
	DriftExtra    = "extra"    // an object runs that the store does not have
	DriftRevision = "revision" // another version runs
)

// Checked is what comparing has found so far.
type Checked struct {
	Keys   int64            // of the store that were compared
	Cycles int64            // times that all of the store was
	Cycle  time.Duration    // how long the last of them took, pauses included
	Drift  map[string]int64 // differences that were healed, by kind
}

// progress is how far comparing is. It outlives watches.
type progress struct {
	cursor string    // path where the next slice begins; empty: at the first
	listed listing   // what ran from there on, for the next slices
	began  time.Time // of the cycle
	next   time.Time // when the next slice is due
}

// A checker compares slices while a watch lasts. All but read belong to the
// goroutine that delivers.
type checker struct {
	*progress
	store   *Store
	client  *clientv3.Client
	timer   *time.Timer
	results chan slice
	reading sync.WaitGroup
	flying  bool
	changed map[string]struct{} // paths of what was delivered since a slice was begun
}

// A slice is what was found in a range of the store's keys.
type slice struct {
	from, to string // paths below the prefix; to is empty at the end of the store
	keys     int
	drift    map[string]string // kinds by path
	listed   listing
	err      error
}

func (s *Store) newChecker(client *clientv3.Client) *checker {
	c := &checker{progress: &s.checking, store: s, client: client, results: make(chan slice, 1), changed: map[string]struct{}{}}
	if s.cfg.Check.State != nil {
		if c.next.IsZero() {
			c.next = s.cfg.Now().Add(s.cfg.Check.Every)
		}
		c.timer = time.NewTimer(max(c.next.Sub(s.cfg.Now()), 0))
	}
	return c
}

// stop ends the checker; the session's context has ended.
func (c *checker) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.reading.Wait()
}

// due delivers when a slice is to be read; nil, which never does, if nothing is
// checked.
func (c *checker) due() <-chan time.Time {
	if c.timer == nil || c.flying {
		return nil
	}
	return c.timer.C
}

// start compares the next slice, as of the revision rev that was delivered: both sides
// keep still, and nothing waits for it.
func (c *checker) start(ctx context.Context, rev int64) {
	c.flying, c.next = true, c.store.cfg.Now().Add(c.store.cfg.Check.Every)
	c.timer.Reset(c.store.cfg.Check.Every)
	clear(c.changed)
	from, running := c.cursor, c.store.cfg.Check.State()
	if from == "" {
		c.began = c.store.cfg.Now()
	}
	listed := c.listed.from(from)
	c.reading.Go(func() { c.results <- c.compare(ctx, listed, from, rev, running) })
}

// note remembers what is delivered while a slice is being compared.
func (c *checker) note(changes []change) {
	if !c.flying {
		return
	}
	for _, ch := range changes {
		c.changed[ch.path] = struct{}{}
	}
}

// compare reads as much of the store as a slice of the running objects spans. etcd
// counts all that is left of a range at every read of a part of it, so an open range
// would cost it the whole store.
func (c *checker) compare(ctx context.Context, listed listing, from string, rev int64, running Running) slice {
	n := c.store.cfg.Check.Keys
	if from == "" || listed.next != "" && len(listed.paths) <= n {
		listed = ahead(running, from, slicesListed*n)
	}
	runs, to := listed.first(n)
	got, stored := c.read(ctx, from, to, rev)
	got.listed, got.drift = listed, map[string]string{}
	for path, modified := range stored {
		switch runs, ok := modifiedAt(running, path); {
		case !ok:
			got.drift[path] = DriftMissing
		case runs != modified:
			got.drift[path] = DriftRevision
		}
	}
	for _, path := range runs {
		if got.to != "" && path >= got.to {
			break
		}
		if _, ok := stored[path]; ok {
			continue
		}
		if _, ok := modifiedAt(running, path); ok {
			got.drift[path] = DriftExtra
		}
	}
	return got
}

func modifiedAt(running Running, path string) (revision int64, ok bool) {
	key, ok := ObjectKey(path)
	if !ok {
		return 0, false
	}
	return running.Modified(key)
}

// read reads the store's keys in a range, as many as a slice may have, and returns the
// revisions of its objects by path.
func (c *checker) read(ctx context.Context, from, to string, rev int64) (slice, map[string]int64) {
	ctx, cancel := context.WithTimeout(ctx, c.store.cfg.Timeout)
	defer cancel()
	dir := c.store.cfg.Prefix + "/"
	end := dir + to
	if to == "" {
		end = clientv3.GetPrefixRangeEnd(dir)
	}
	res, err := c.client.Get(ctx, dir+from, clientv3.WithRange(end), clientv3.WithLimit(int64(c.store.cfg.Check.Keys)),
		clientv3.WithKeysOnly(), clientv3.WithRev(rev))
	if err != nil {
		return slice{err: err}, nil
	}
	stored := make(map[string]int64, len(res.Kvs))
	for _, kv := range res.Kvs {
		path := string(kv.Key[len(dir):])
		if _, ok := ObjectKey(path); ok {
			stored[path] = kv.ModRevision
		}
		if res.More {
			to = path + "\x00"
		}
	}
	return slice{from: from, to: to, keys: len(stored)}, stored
}

// finish returns what has to be delivered after a slice. What has been delivered since
// it was begun is no drift. A slice that could not be read is read again at the next
// turn.
func (c *checker) finish(ctx context.Context, got slice, v *view) model.Delta {
	c.flying, c.listed = false, got.listed
	d := model.Delta{Revision: v.rev}
	if got.err != nil {
		c.store.cfg.Log.Warn("store: the running state could not be compared", "err", got.err)
		return d
	}
	for path, kind := range got.drift {
		if _, ok := c.changed[path]; ok || !c.heal(ctx, path, v, &d) {
			delete(got.drift, path)
			continue
		}
		c.store.cfg.Log.Error("store: the running state differs from the store", "object", path, "drift", kind)
	}
	c.report(got)
	return d
}

func (c *checker) report(got slice) {
	c.cursor = got.to
	c.store.status.update(func(st *Status) {
		st.Checked.Keys += int64(got.keys)
		if got.to == "" {
			st.Checked.Cycles++
			st.Checked.Cycle = c.store.cfg.Now().Sub(c.began)
		}
		for _, kind := range got.drift {
			if st.Checked.Drift == nil {
				st.Checked.Drift = map[string]int64{}
			}
			st.Checked.Drift[kind]++
		}
	})
}

// slicesListed is for how many slices what runs is listed at a time. Objects are in no
// order: each listing passes by all of them.
const slicesListed = 8

// A listing is the paths of what ran when it was made, in order. What has begun to run
// since is compared for what the store has of it, and whole in the next cycle.
type listing struct {
	paths []string
	next  string // path of the first that has no place here; empty: that is all
}

// from is the rest of a listing.
func (l listing) from(path string) listing {
	i, _ := slices.BinarySearch(l.paths, path)
	return listing{l.paths[i:], l.next}
}

// first are the first n, and the path of the next.
func (l listing) first(n int) (paths []string, next string) {
	if len(l.paths) > n {
		return l.paths[:n], l.paths[n]
	}
	return l.paths, l.next
}

// ahead lists the first n of what runs from a path on.
func ahead(running Running, from string, n int) (l listing) {
	cut := func() {
		slices.Sort(l.paths)
		if len(l.paths) > n {
			l.paths, l.next = l.paths[:n], l.paths[n]
		}
	}
	seen := 0
	for k := range model.KindCount {
		low, high, some := within(k, from, l.next)
		if !some {
			continue
		}
		for id := range running.IDs(k) {
			if seen++; seen%256 == 0 {
				runtime.Gosched() // requests go first
			}
			if id < low || high != "" && id >= high {
				continue
			}
			l.paths = append(l.paths, model.Key{Kind: k, ID: id}.String())
			if len(l.paths) > 2*n {
				cut()
				if _, high, some = within(k, from, l.next); !some {
					break
				}
			}
		}
	}
	cut()
	return l
}

// within are the ids of a kind whose paths lie from one path to before another; an
// empty high or to is open. some is false if there can be none.
func within(k model.Kind, from, to string) (low, high string, some bool) {
	dir := model.Key{Kind: k}.String() // with the slash at its end, but for KindPlugins
	if to != "" && to <= dir || from > dir && !strings.HasPrefix(from, dir) {
		return "", "", false
	}
	low, _ = strings.CutPrefix(from, dir)
	if from <= dir {
		low = ""
	}
	if rest, inside := strings.CutPrefix(to, dir); inside {
		high = rest
	}
	return low, high, true
}

// heal has the store's version delivered again. It is false where there is nothing
// to heal after all.
func (c *checker) heal(ctx context.Context, path string, v *view, d *model.Delta) bool {
	ctx, cancel := context.WithTimeout(ctx, c.store.cfg.Timeout)
	defer cancel()
	res, err := c.client.Get(ctx, c.store.cfg.Prefix+"/"+path)
	if err != nil {
		return false
	}
	key, ok := ObjectKey(path)
	if !ok {
		return false
	}
	if len(res.Kvs) == 0 {
		v.del(path)
		d.Del = append(d.Del, key)
		return true
	}
	ch, ok := c.store.change(mvccpb.PUT, res.Kvs[0])
	if !ok || ch.del {
		return false
	}
	v.set(ch)
	d.Put = append(d.Put, ch.object)
	return true
}

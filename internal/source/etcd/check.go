package etcd

import (
	"context"
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
	Keys  int           // of a slice; default 10,000

	// Running yields the running objects of a kind with the revisions of their
	// versions; nil: nothing is checked.
	Running func(k model.Kind, yield func(id string, modified int64) bool)
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
	cursor string    // key where the next slice begins; empty: at the first
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
	deleted map[string]struct{} // paths that were deleted since the slice was read
}

// A slice is a range of the store's keys as of a revision.
type slice struct {
	from, to string // paths below the prefix; to is empty at the end of the store
	rev      int64
	modified map[string]int64 // by path
	err      error
}

func (s *Store) newChecker(client *clientv3.Client) *checker {
	c := &checker{progress: &s.checking, store: s, client: client, results: make(chan slice, 1), deleted: map[string]struct{}{}}
	if s.cfg.Check.Running != nil {
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

// start reads the next slice, as of the revision that is delivered.
func (c *checker) start(ctx context.Context, rev int64) {
	c.flying, c.next = true, c.store.cfg.Now().Add(c.store.cfg.Check.Every)
	c.timer.Reset(c.store.cfg.Check.Every)
	clear(c.deleted)
	from := c.cursor
	if from == "" {
		from, c.began = c.store.cfg.Prefix+"/", c.store.cfg.Now()
	}
	c.reading.Go(func() { c.results <- c.read(ctx, from, rev) })
}

// note remembers what happens while a slice is being read.
func (c *checker) note(changes []change) {
	if !c.flying {
		return
	}
	for _, ch := range changes {
		if ch.del {
			c.deleted[ch.path] = struct{}{}
		}
	}
}

func (c *checker) read(ctx context.Context, from string, rev int64) slice {
	ctx, cancel := context.WithTimeout(ctx, c.store.cfg.Timeout)
	defer cancel()
	end := clientv3.GetPrefixRangeEnd(c.store.cfg.Prefix + "/")
	res, err := c.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(c.store.cfg.Check.Keys)),
		clientv3.WithKeysOnly(), clientv3.WithRev(rev))
	out := slice{from: strings.TrimPrefix(from, c.store.cfg.Prefix+"/"), rev: rev, err: err, modified: map[string]int64{}}
	if err != nil {
		return out
	}
	for _, kv := range res.Kvs {
		path := string(kv.Key[len(c.store.cfg.Prefix)+1:])
		if _, ok := ObjectKey(path); ok {
			out.modified[path] = kv.ModRevision
		}
		if res.More {
			out.to = path + "\x00"
		}
	}
	return out
}

// finish compares a slice with what runs and returns what has to be delivered. A
// slice that could not be read is read again at the next turn.
func (c *checker) finish(ctx context.Context, got slice, v *view) model.Delta {
	c.flying = false
	d := model.Delta{Revision: v.rev}
	if got.err != nil {
		c.store.cfg.Log.Warn("store: the running state could not be compared", "err", got.err)
		return d
	}
	found := c.compare(got)
	for path, kind := range found {
		if !c.heal(ctx, path, v, &d) {
			delete(found, path)
			continue
		}
		c.store.cfg.Log.Error("store: the running state differs from the store", "object", path, "drift", kind)
	}
	c.report(got, found)
	return d
}

func (c *checker) report(got slice, found map[string]string) {
	c.cursor = ""
	if got.to != "" {
		c.cursor = c.store.cfg.Prefix + "/" + got.to
	}
	c.store.status.update(func(st *Status) {
		st.Checked.Keys += int64(len(got.modified))
		if got.to == "" {
			st.Checked.Cycles++
			st.Checked.Cycle = c.store.cfg.Now().Sub(c.began)
		}
		for _, kind := range found {
			if st.Checked.Drift == nil {
				st.Checked.Drift = map[string]int64{}
			}
			st.Checked.Drift[kind]++
		}
	})
}

// compare finds the paths at which something else runs than the store had. What has
// changed since the slice was read is no drift.
func (c *checker) compare(got slice) map[string]string {
	found := map[string]string{}
	running := make(map[string]struct{}, len(got.modified))
	for k := range model.KindCount {
		low, high, some := within(k, got.from, got.to)
		if !some {
			continue
		}
		c.store.cfg.Check.Running(k, func(id string, modified int64) bool {
			if id < low || high != "" && id >= high {
				return true
			}
			path := model.Key{Kind: k, ID: id}.String()
			want, stored := got.modified[path]
			running[path] = struct{}{}
			switch {
			case modified > got.rev:
			case !stored:
				found[path] = DriftExtra
			case modified != want:
				found[path] = DriftRevision
			}
			return true
		})
	}
	for path := range got.modified {
		_, runs := running[path]
		_, gone := c.deleted[path]
		if !runs && !gone {
			found[path] = DriftMissing
		}
	}
	return found
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
		delete(v.objects, path)
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

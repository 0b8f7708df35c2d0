package etcd

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/model"
	"weir/internal/source/embed"
)

// running are revisions of objects by path.
type running map[string]int64

func (r running) IDs(k model.Kind) iter.Seq[string] {
	return func(yield func(string) bool) {
		for path := range r {
			if key, ok := ObjectKey(path); ok && key.Kind == k && !yield(key.ID) {
				return
			}
		}
	}
}

func (r running) Modified(key model.Key) (int64, bool) {
	modified, ok := r[key.String()]
	return modified, ok
}

// listed counts the times that what runs is walked.
type listed struct {
	running
	walks *atomic.Int64
}

func (l listed) IDs(k model.Kind) iter.Seq[string] {
	if k == model.KindConsumer {
		l.walks.Add(1)
	}
	return l.running.IDs(k)
}

// TestAhead: slice after slice, what runs comes once and in order.
func TestAhead(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 3))
	objects := map[string]int64{"plugins": 1, "plugin_configs/1": 2, "plugin_metadata/x": 3, "secrets/vault/a": 4}
	for i := range 300 {
		objects[fmt.Sprintf("%s/%d", []string{"routes", "consumers", "services", "ssls"}[r.IntN(4)], r.IntN(1000))] = int64(i)
		objects[fmt.Sprintf("consumers/%d/credentials/%d", r.IntN(1000), r.IntN(3))] = int64(i)
	}
	want := slices.Sorted(maps.Keys(objects))
	for _, n := range []int{1, 3, 50, len(want), 10_000} {
		var got []string
		for from := ""; ; {
			l := ahead(running(objects), from, n)
			got = append(got, l.paths...)
			if from = l.next; from == "" {
				break
			}
			if len(l.paths) != n {
				t.Errorf("%d of %d before %s", len(l.paths), n, from)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("slices of %d: %d objects, want %d", n, len(got), len(want))
		}
	}
}

// counted notes what etcd counts for reads of keys.
type counted struct {
	clientv3.KV
	mu   sync.Mutex
	most int64
}

func (c *counted) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	res, err := c.KV.Get(ctx, key, opts...)
	if op := clientv3.OpGet(key, opts...); err == nil && op.IsKeysOnly() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.most = max(c.most, res.Count)
	}
	return res, err
}

// TestSlicesAreBounded: etcd counts all of the range that is read, whatever the limit;
// that is no more than a slice. Nor is all that runs walked for each, and what changes
// meanwhile is no drift.
func TestSlicesAreBounded(t *testing.T) {
	t.Parallel()
	const keys, slice = 2000, 100
	const fresh = 6 // of the keys that come and go, those there at a time: they may not be listed yet
	s := startEmbed(t, embed.Config{})
	reads := &counted{KV: s.Client().KV}
	var walks atomic.Int64
	s.Client().KV = reads
	for i := 0; i < keys; i += 100 {
		var ops []clientv3.Op
		for j := i; j < i+100; j++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/apisix/consumers/u%d", j), fmt.Sprintf(`{"username":"u%d"}`, j)))
		}
		if _, err := s.Client().Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s.Client(), "gen_id", "1")
	r := &receiver{t: t, state: map[model.Key]model.Object{}, gate: func() {}}
	r.store = inProcess(t, s, Config{Check: Check{Every: time.Millisecond, Keys: slice, State: func() Running {
		r.mu.Lock()
		defer r.mu.Unlock()
		state := running{}
		for k, o := range r.state {
			state[k.String()] = o.Modified
		}
		return listed{state, &walks}
	}}})
	r.run()
	cycles := func() int64 { return r.store.Status().Checked.Cycles }
	for i := 0; cycles() < 3; i++ {
		key := fmt.Sprintf("consumers/u%d", i%keys)
		put(t, s.Client(), key, fmt.Sprintf(`{"username":"u%d","desc":"%d"}`, i%keys, i))
		put(t, s.Client(), fmt.Sprintf("consumers/v%d", i), fmt.Sprintf(`{"username":"v%d"}`, i))
		if _, err := s.Client().Delete(t.Context(), fmt.Sprintf("/apisix/consumers/v%d", i+1-fresh)); err != nil {
			t.Fatal(err)
		}
	}
	done := cycles()
	r.stopOnce()
	// A listing is of slicesListed slices, of which a cycle has a few more than keys/slice.
	if most := (done + 1) * (2*keys/slice/slicesListed + 1); walks.Load() > most {
		t.Errorf("what runs was walked %d times in %d cycles", walks.Load(), done)
	}
	st := r.store.Status().Checked
	if len(st.Drift) != 0 || st.Keys < 3*keys {
		t.Errorf("%+v", st)
	}
	if reads.most > slice+1+fresh || reads.most < slice {
		t.Errorf("etcd counted up to %d keys for a slice of %d", reads.most, slice)
	}
}

// TestWithin: the ids of a kind between two paths.
func TestWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      model.Kind
		from, to  string
		low, high string
		some      bool
	}{
		{model.KindRoute, "", "", "", "", true},
		{model.KindRoute, "routes/5", "routes/7", "5", "7", true},
		{model.KindRoute, "consumers/x", "routes/7", "", "7", true},
		{model.KindRoute, "routes/5", "services/", "5", "", true},
		{model.KindRoute, "services/1", "", "", "", false},
		{model.KindRoute, "", "plugins", "", "", false},
		{model.KindCredential, "consumers/a", "consumers/b", "a", "b", true},
		{model.KindPlugins, "plugin_metadata/x", "protos/", "", "", true},
		{model.KindPlugins, "plugins\x00", "", "\x00", "", true},
	} {
		if low, high, some := within(c.kind, c.from, c.to); low != c.low || high != c.high || some != c.some {
			t.Errorf("%v from %q to %q: %q %q %v", c.kind, c.from, c.to, low, high, some)
		}
	}
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdserver "go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"weir/internal/model"
	"weir/internal/source/embed"
)

func TestRunDelivers(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	put(t, c, "routes/", initDir)
	put(t, c, "plugins/", initDir)
	put(t, c, "plugins", "[]")
	put(t, c, "gen_id", "1")
	put(t, c, "consumers/jack", "j")
	put(t, c, "consumers/jack/credentials/1", "c")
	put(t, c, "secrets/vault/1", "s")
	put(t, c, "data_plane/server_info/x", "{}")
	first := put(t, c, "routes/1", "not JSON")
	if _, err := c.Put(t.Context(), "/apisix2/routes/1", "other prefix"); err != nil {
		t.Fatal(err)
	}
	s := inProcess(t, server, Config{})
	r := receive(t, s)
	want := map[string]string{"plugins": "[]", "consumers/jack": "j", "consumers/jack/credentials/1": "c",
		"secrets/vault/1": "s", "routes/1": "not JSON"}
	r.has(want)
	if o := r.since(0)[0].Put; !slices.ContainsFunc(o, func(o model.Object) bool {
		return o.Key == model.Key{Kind: model.KindRoute, ID: "1"} && o.Created == first && o.Modified == first
	}) {
		t.Error("revisions of routes/1:", o)
	}
	put(t, c, "routes/1", "2")
	want["routes/1"] = "2"
	r.has(want)
	del(t, c, "secrets/vault/1")
	delete(want, "secrets/vault/1")
	r.has(want)
	put(t, c, "routes/1", initDir)
	delete(want, "routes/1")
	r.has(want)
	// A write that changes no object still moves the revision.
	rev, err := s.NextID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.reaches(rev)
	st := s.Status()
	if !st.Connected || st.Delivered != rev || st.StoreRevision != rev || st.Objects != len(want) ||
		st.LastEvent.IsZero() || st.LastError != "" || st.Resyncs[ReasonStart] != 1 {
		t.Errorf("status %+v", st)
	}
}

func TestEmptyStore(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	r := receive(t, inProcess(t, server, Config{}))
	r.until("a first step", func() bool { return len(r.steps) == 1 && r.rev > 0 })
}

// What comes while apply runs is delivered in one step.
func TestGather(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	s := inProcess(t, server, Config{})
	r := receive(t, s)
	r.connected()
	entered, leave := make(chan struct{}), make(chan struct{})
	r.setGate(func() { entered <- struct{}{}; <-leave })
	put(t, c, "routes/0", "0")
	<-entered
	before := r.count()
	var last int64
	for i := range 100 {
		last = put(t, c, fmt.Sprint("routes/", i%10), fmt.Sprint(i))
	}
	del(t, c, "routes/3")
	put(t, c, "routes/new", "x")
	last = del(t, c, "routes/new")
	eventually(t, "all received", func() bool { return s.Status().StoreRevision >= last })
	time.Sleep(20 * time.Millisecond)
	leave <- struct{}{}
	<-entered
	r.setGate(func() {})
	leave <- struct{}{}
	r.reaches(last)
	if steps := r.since(before); len(steps) != 2 || len(steps[1].Put) != 9 || len(steps[1].Del) != 0 {
		t.Errorf("steps %+v", steps)
	}
}

func TestApplyError(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	err := inProcess(t, server, Config{}).Run(t.Context(), func(model.Delta) error { return errTest })
	if !errors.Is(err, errTest) {
		t.Error(err)
	}
}

// Case 50: a write between the first read and the watch.
func TestWriteBetweenReadAndWatch(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	put(t, server.Client(), "routes/1", "{}")
	r := receive(t, inProcess(t, server, Config{Loading: func(int) {
		put(t, server.Client(), "routes/2", "{}")
		del(t, server.Client(), "routes/1")
	}}))
	r.has(map[string]string{"routes/2": "{}"})
	if n := r.store.Status().Resyncs[ReasonStart]; n != 1 {
		t.Error(n, "reads")
	}
}

// fill stores n routes by the hundred.
func fill(t *testing.T, c *clientv3.Client, n int, value string) {
	t.Helper()
	const txn = 100
	for i := 0; i < n; i += txn {
		ops := make([]clientv3.Op, txn)
		for j := range ops {
			ops[j] = clientv3.OpPut(fmt.Sprintf("/apisix/routes/%d", i+j), value)
		}
		if _, err := c.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// Case 57: a prefix larger than the 4 MiB that gRPC carries by default.
func TestLargePrefix(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	const objects = 8000
	fill(t, server.Client(), objects, strings.Repeat("x", 2000))
	const limit = 4 << 20
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.ClientURL()},
		MaxCallRecvMsgSize: limit, MaxCallSendMsgSize: limit, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var progress []int
	r := receive(t, New(client, Config{Loading: func(n int) { progress = append(progress, n) }}))
	r.until("everything", func() bool { return len(r.state) == objects })
	r.stopOnce()
	if !slices.IsSorted(progress) || len(progress) < 8 || progress[len(progress)-1] != objects {
		t.Error("progress", progress)
	}
}

// pagedKV notes the sizes of range reads.
type pagedKV struct {
	clientv3.KV
	sizes []int
}

func (kv *pagedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	res, err := kv.KV.Get(ctx, key, opts...)
	size := 0
	if err == nil {
		for _, one := range res.Kvs {
			size += len(one.Value)
		}
	}
	kv.sizes = append(kv.sizes, size)
	return res, err
}

// Pages shrink where the values are large.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	const objects = 300
	fill(t, server.Client(), objects, strings.Repeat("x", 80<<10))
	client := *server.Client()
	kv := &pagedKV{KV: client.KV}
	client.KV = kv
	list, _, err := New(&client, Config{}).List(t.Context(), "/routes")
	if err != nil || len(list) != objects {
		t.Fatal(len(list), err)
	}
	if most := slices.Max(kv.sizes[1:]); len(kv.sizes) < 3 || most > 4<<20 {
		t.Error("pages", kv.sizes)
	}
}

// BenchmarkLoad reads 60 MB: 30,000 objects of 2 kB.
func BenchmarkLoad(b *testing.B) {
	server, err := embed.Start(b.Context(), embed.Config{Dir: b.TempDir(), Listen: embed.Off})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	value := strings.Repeat("x", 2000)
	for i := range 30_000 / 100 {
		ops := make([]clientv3.Op, 100)
		for j := range ops {
			ops[j] = clientv3.OpPut(fmt.Sprintf("/apisix/routes/%d", 100*i+j), value)
		}
		if _, err := server.Client().Txn(b.Context()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
	s := New(server.Client(), Config{})
	for b.Loop() {
		if _, _, err := s.read(b.Context(), server.Client(), newView(0)); err != nil {
			b.Fatal(err)
		}
	}
}

// A store whose pages are compacted away while it is read.
func TestCompactionWhileReading(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	want := map[string]string{}
	for i := range 20 {
		put(t, c, fmt.Sprint("routes/", i), "{}")
		want[fmt.Sprint("routes/", i)] = "{}"
	}
	var once sync.Once
	r := receive(t, inProcess(t, server, Config{PageSize: 5, Loading: func(int) {
		once.Do(func() {
			del(t, c, "routes/0")
			compact(t, c, put(t, c, "routes/x", "{}"))
		})
	}}))
	delete(want, "routes/0")
	want["routes/x"] = "{}"
	r.has(want)
	if steps := r.since(0); len(steps[0].Put) != 20 {
		t.Errorf("first step has %d objects", len(steps[0].Put))
	}
}

// Case 60: what the receiver has from a saved copy is not delivered again.
func TestAssume(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	rev := put(t, c, "routes/1", "{}")
	put(t, c, "routes/2", "new")
	object := func(id, raw string) model.Object {
		return model.Object{Key: model.Key{Kind: model.KindRoute, ID: id}, Created: rev, Modified: rev, Raw: []byte(raw)}
	}
	s := inProcess(t, server, Config{})
	saved := []model.Object{object("1", "{}"), object("2", "old"), object("3", "{}")}
	s.Assume(saved)
	r := &receiver{t: t, store: s, state: map[model.Key]model.Object{}, gate: func() {}}
	for _, o := range saved {
		r.state[o.Key] = o
	}
	r.run()
	r.has(map[string]string{"routes/1": "{}", "routes/2": "new"})
	if d := r.since(0)[0]; len(d.Put) != 1 || len(d.Del) != 1 {
		t.Errorf("first step %+v", d)
	}
}

// The record of what was delivered is small.
func TestViewSize(t *testing.T) {
	const objects = 200_000
	heap := func() int64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	v := newView(0)
	for i := range objects {
		path := fmt.Sprint("consumers/user-", i)
		v.set(change{path: path, object: model.Object{Modified: int64(i)}})
	}
	each := (heap() - before) / objects
	t.Logf("%d bytes per object", each)
	if each >= 100 {
		t.Error("more than 100 bytes per object")
	}
	runtime.KeepAlive(v)
}

func TestProgressIsSafe(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.4.24": false, "3.4.25": true, "3.5.0": false, "3.5.7": false, "3.5.8": true, "3.6.0": true,
		"3.7.3": true, "4.0.0": true, "2.3.0": false, "": false, "x": false, "3.3.27": false, "3.5.9-rc.1": true,
	} {
		if got := progressIsSafe(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	s := newStore(Config{Rand: func() float64 { return 1 }}, "")
	failures, v := 0, newView(0)
	var got []time.Duration
	for range 9 {
		got = append(got, s.after(errTest, v, &failures, 0))
	}
	sec := time.Second
	want := []time.Duration{sec / 10, sec, 2 * sec, 4 * sec, 8 * sec, 16 * sec, 32 * sec, 32 * sec, 32 * sec}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
	v.watched = true
	if d := s.after(errTest, v, &failures, time.Minute); d != sec/10 {
		t.Error("after a good session:", d)
	}
	if d := s.after(fmt.Errorf("%w: x", errSilent), v, &failures, 0); d != 0 {
		t.Error("after silence:", d)
	}
	if d := s.after(errCompacted, v, &failures, 0); d != 0 || v.stale != ReasonCompacted {
		t.Error("after compaction:", d, v.stale)
	}
	s.cfg.Rand = func() float64 { return 0 }
	if d := s.jitter(sec); d != sec/2 {
		t.Error("jitter", d)
	}
}

// BenchmarkAck is the time from the start of a write to its delivery.
func BenchmarkAck(b *testing.B) {
	server, err := embed.Start(b.Context(), embed.Config{Dir: b.TempDir(), Listen: embed.Off})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	s := New(server.Client(), Config{})
	delivered := make(chan int64, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(b.Context(), func(d model.Delta) error { delivered <- d.Revision; return nil })
	}()
	<-delivered
	var after time.Duration
	for b.Loop() {
		res, err := s.Put(b.Context(), "/routes/1", []byte("{}"), PutOptions{})
		if err != nil {
			b.Fatal(err)
		}
		answered := time.Now()
		for <-delivered < res.Revision {
		}
		after += time.Since(answered)
	}
	b.ReportMetric(float64(after.Nanoseconds())/float64(b.N), "ns-after-answer/op")
}

// What etcd permits by default; it ends a connection with more.
func TestPingsArePermitted(t *testing.T) {
	store := open(t, "http://127.0.0.1:1", Config{})
	cfg := store.clientConfig()
	if least := etcdserver.DefaultGRPCKeepAliveMinTime; cfg.DialKeepAliveTime < least {
		t.Errorf("pings every %v, etcd permits one in %v", cfg.DialKeepAliveTime, least)
	}
	if cfg.PermitWithoutStream {
		t.Error("pings while no call waits, which etcd does not permit")
	}
}

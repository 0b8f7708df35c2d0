package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/source/embed"
)

// Case 49: a stream that dies without a word, and a write that only it could
// have told of. Other connections show later revisions; they must not be
// mistaken for delivered.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	p := newProxy(t, address(server))
	s := open(t, p.url, Config{WatchTimeout: 400 * time.Millisecond, DialTimeout: time.Second})
	put(t, c, "routes/1", "a")
	r := receive(t, s)
	r.has(map[string]string{"routes/1": "a"})
	r.connected()
	steps := r.count()
	p.mute()
	put(t, c, "routes/1", "b")
	del(t, c, "routes/1")
	last := put(t, c, "routes/2", "c")
	r.reaches(last)
	r.has(map[string]string{"routes/2": "c"})
	if n := s.Status().Resyncs; n[ReasonStart] != 1 || len(n) != 1 {
		t.Errorf("the watch must resume, not read anew: %v", n)
	}
	for _, d := range r.since(steps) {
		if d.Revision < last && len(d.Put)+len(d.Del) == 0 {
			t.Errorf("revision %d delivered without its change", d.Revision)
		}
	}
	eventually(t, "one connection", func() bool { return p.connections() == 1 })
}

// mutedWatcher is a watcher whose messages are lost after the first ones, on a
// connection that otherwise works.
type mutedWatcher struct {
	clientv3.Watcher
	mute    atomic.Bool
	started chan int64
}

func (w *mutedWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet(key, opts...)
	select {
	case w.started <- op.Rev():
	default:
	}
	in, out := w.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	mute := w.mute.Swap(false)
	go func() {
		defer close(out)
		for m := range in {
			if mute && !m.Created {
				continue
			}
			select {
			case out <- m:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// The stream is silent although the store has moved on: the watch is made anew
// from the revision after the last delivered one.
func TestSilentStream(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	watcher := &mutedWatcher{Watcher: server.Client().Watcher, started: make(chan int64, 100)}
	watcher.mute.Store(true)
	client := *server.Client()
	client.Watcher = watcher
	first := put(t, server.Client(), "routes/1", "a")
	s := New(&client, Config{WatchTimeout: 200 * time.Millisecond})
	r := receive(t, s)
	if rev := <-watcher.started; rev != first+1 {
		t.Fatalf("watch from %d after a read at %d", rev, first)
	}
	r.connected()
	last := put(t, server.Client(), "routes/2", "b")
	if rev := <-watcher.started; rev != first+1 {
		t.Errorf("resumed from %d, delivered %d", rev, first)
	}
	r.reaches(last)
	r.has(map[string]string{"routes/1": "a", "routes/2": "b"})
	r.stopOnce()
}

// Case 55: nothing happens for longer than the timeout of a watch. That is no
// trouble, and the next change is not late.
func TestIdle(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	const timeout = 150 * time.Millisecond
	for name, s := range map[string]*Store{
		"embedded": inProcess(t, server, Config{WatchTimeout: timeout, ResyncDelay: time.Hour}),
		"external": open(t, server.ClientURL(), Config{WatchTimeout: timeout, ResyncDelay: time.Hour}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range s.retries {
				s.retries[i] = time.Hour // any pause is noticed
			}
			r := receive(t, s)
			r.connected()
			time.Sleep(3 * timeout)
			for i := range 4 {
				r.reaches(put(t, c, "routes/1", fmt.Sprint(name, i)))
				time.Sleep(timeout + time.Duration(i)*timeout/4)
			}
			r.connected()
			if st := s.Status(); st.LastError != "" || len(st.Resyncs) != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// While only other prefixes change the delivered revision advances, so that
// compaction does not force a new read.
func TestIdlePrefixAdvances(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	s := open(t, server.ClientURL(), Config{WatchTimeout: 200 * time.Millisecond})
	r := receive(t, s)
	r.connected()
	res, err := server.Client().Put(t.Context(), "/elsewhere", "x")
	if err != nil {
		t.Fatal(err)
	}
	r.reaches(res.Header.Revision)
	if d := r.since(1); len(d) == 0 || len(d[0].Put)+len(d[0].Del) != 0 {
		t.Errorf("%+v", d)
	}
}

// Case 52 and 56: compaction under a watch that is up to date does nothing.
func TestCompactionWhileWatching(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	s := inProcess(t, server, Config{})
	put(t, c, "global_rules/1", "{}")
	r := receive(t, s)
	r.connected()
	for range 5 {
		compact(t, c, put(t, c, "routes/1", "{}"))
	}
	r.reaches(put(t, c, "routes/2", "{}"))
	r.has(map[string]string{"global_rules/1": "{}", "routes/1": "{}", "routes/2": "{}"})
	if st := s.Status(); len(st.Resyncs) != 1 {
		t.Errorf("%+v", st)
	}
}

// Cases 52 and 53: compaction while the watch is away. Only the difference is
// delivered.
func TestCompactionWhileAway(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	p := newProxy(t, address(server))
	s := open(t, p.url, Config{})
	put(t, c, "global_rules/1", "same")
	put(t, c, "routes/1", "old")
	put(t, c, "routes/2", "gone")
	r := receive(t, s)
	r.connected()
	p.refuse.Store(true)
	p.cut()
	eventually(t, "disconnected", func() bool { return !s.Status().Connected })
	steps := r.count()
	put(t, c, "routes/1", "new")
	del(t, c, "routes/2")
	put(t, c, "routes/3", "made")
	compact(t, c, put(t, c, "gen_id", "1"))
	p.refuse.Store(false)
	r.has(map[string]string{"global_rules/1": "same", "routes/1": "new", "routes/3": "made"})
	d := r.since(steps)
	if len(d) == 0 || len(d[0].Put) != 2 || len(d[0].Del) != 1 {
		t.Errorf("%+v", d)
	}
	eventually(t, "counted", func() bool { return s.Status().Resyncs[ReasonCompacted] == 1 && s.Status().Connected })
}

// Case 59: the store is restarted many times.
func TestRestarts(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), freePort(t)
	p := newProxy(t, addr)
	server := startEmbed(t, embed.Config{Dir: dir, Listen: addr})
	s := open(t, p.url, Config{})
	r := receive(t, s)
	r.connected()
	const restarts = 50
	var last int64
	for i := range restarts {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		server = startEmbed(t, embed.Config{Dir: dir, Listen: addr})
		last = put(t, server.Client(), "routes/1", fmt.Sprint(i))
	}
	r.reaches(last)
	r.has(map[string]string{"routes/1": fmt.Sprint(restarts - 1)})
	eventually(t, "one connection", func() bool { return p.connections() == 1 })
	if n := s.Status().Resyncs; len(n) != 1 {
		t.Errorf("a restart needs no new read: %v", n)
	}
}

// A store that is down when the gateway starts.
func TestStoreDownAtStart(t *testing.T) {
	t.Parallel()
	addr := freePort(t)
	s := open(t, "http://"+addr, Config{Timeout: time.Second})
	r := receive(t, s)
	eventually(t, "an error", func() bool { return s.Status().LastError != "" })
	if st := s.Status(); st.Connected || !strings.Contains(st.LastError, addr) {
		t.Errorf("%+v", st)
	}
	server := startEmbed(t, embed.Config{Listen: addr})
	put(t, server.Client(), "routes/1", "{}")
	r.has(map[string]string{"routes/1": "{}"})
	r.connected()
	if st := s.Status(); st.LastError != "" {
		t.Errorf("%+v", st)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// A store that is restored from a backup, has another history from there, and
// is at a lower revision, at the same or at a higher one than was delivered.
func TestRestored(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]int{"behind": 1, "level": 5, "ahead": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, backup, addr := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup"), freePort(t)
			server := startEmbed(t, embed.Config{Dir: dir, Listen: addr})
			put(t, server.Client(), "routes/kept", "same")
			put(t, server.Client(), "routes/1", "backup")
			server.Close()
			copyDir(t, dir, backup)

			server = startEmbed(t, embed.Config{Dir: dir, Listen: addr})
			s := open(t, "http://"+addr, Config{})
			r := receive(t, s)
			r.has(map[string]string{"routes/kept": "same", "routes/1": "backup"})
			put(t, server.Client(), "routes/1", "lost")
			put(t, server.Client(), "routes/2", "lost")
			for range 2 {
				put(t, server.Client(), "routes/3", "lost")
			}
			put(t, server.Client(), "routes/4", "lost")
			r.until("all", func() bool { return len(r.state) == 5 })

			server.Close()
			copyDir(t, backup, dir)
			// The new history is made where the client does not see it.
			server = startEmbed(t, embed.Config{Dir: dir, Listen: embed.Off})
			for i := range writes {
				put(t, server.Client(), "routes/4", fmt.Sprint("new", i))
			}
			server.Close()
			server = startEmbed(t, embed.Config{Dir: dir, Listen: addr})
			r.has(map[string]string{"routes/kept": "same", "routes/1": "backup", "routes/4": fmt.Sprint("new", writes-1)})
			r.reaches(put(t, server.Client(), "routes/5", "more"))
			if n := s.Status().Resyncs; n[ReasonRestored] != 1 {
				t.Errorf("%v", n)
			}
		})
	}
}

// Another store at the same address.
func TestReplaced(t *testing.T) {
	t.Parallel()
	addr := freePort(t)
	server := startEmbed(t, embed.Config{Listen: addr})
	s := open(t, "http://"+addr, Config{})
	put(t, server.Client(), "routes/1", "a")
	r := receive(t, s)
	r.has(map[string]string{"routes/1": "a"})
	server.Close()
	server = startEmbed(t, embed.Config{Listen: addr})
	put(t, server.Client(), "routes/1", "a")
	put(t, server.Client(), "routes/2", "b")
	r.has(map[string]string{"routes/1": "a", "routes/2": "b"})
	eventually(t, "counted", func() bool { return s.Status().Resyncs[ReasonRestored] == 1 })
}

// A slow store is not taken for a dead one.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	p := newProxy(t, address(server))
	s := open(t, p.url, Config{WatchTimeout: 500 * time.Millisecond})
	r := receive(t, s)
	r.connected()
	p.delay.Store(int64(100 * time.Millisecond))
	for i := range 10 {
		put(t, server.Client(), "routes/1", fmt.Sprint(i))
		time.Sleep(80 * time.Millisecond)
	}
	r.has(map[string]string{"routes/1": "9"})
	if st := s.Status(); len(st.Resyncs) != 1 {
		t.Errorf("%+v", st)
	}
}

// Random writes while connections break: what is folded equals what is stored.
func TestDifferential(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	p := newProxy(t, address(server))
	s := open(t, p.url, Config{PageSize: 10, Timeout: 500 * time.Millisecond,
		WatchTimeout: 300 * time.Millisecond, DialTimeout: 300 * time.Millisecond})
	r := receive(t, s)
	rnd := rand.New(rand.NewPCG(1, 2))
	dirs := []string{"routes/", "consumers/", "consumers/jack/credentials/", "services/", "unknown/"}
	for i := range 1500 {
		key := dirs[rnd.IntN(len(dirs))] + fmt.Sprint(rnd.IntN(30))
		switch n := rnd.IntN(100); {
		case n < 25:
			del(t, c, key)
		case n < 27:
			p.cut()
		case n < 28:
			p.mute()
		case n < 30:
			compact(t, c, put(t, c, key, fmt.Sprint("c", i)))
		case n < 33:
			time.Sleep(5 * time.Millisecond)
		default:
			put(t, c, key, fmt.Sprint(i))
		}
	}
	r.reaches(put(t, c, "gen_id", "1"))
	res, err := c.Get(t.Context(), "/apisix/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kv := range res.Kvs {
		key, ok := ObjectKey(strings.TrimPrefix(string(kv.Key), "/apisix/"))
		if !ok {
			continue
		}
		want++
		if o := r.state[key]; string(o.Raw) != string(kv.Value) || o.Modified != kv.ModRevision || o.Created != kv.CreateRevision {
			t.Errorf("%v is %+v, stored %v", key, o, kv)
		}
	}
	if len(r.state) != want {
		t.Errorf("%d objects, stored %d", len(r.state), want)
	}
	t.Logf("%d steps, resyncs %v", len(r.steps), s.Status().Resyncs)
}

// signal is a log handler that tells of long pauses.
type signal struct {
	slog.Handler
	long chan struct{}
}

func (h *signal) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "retry_in" && a.Value.Duration() > time.Minute {
			select {
			case h.long <- struct{}{}:
			default:
			}
		}
		return true
	})
	return nil
}

func (h *signal) Enabled(context.Context, slog.Level) bool { return true }

// A store that was away for long is watched again as soon as a write shows that it
// is back: the write is not live before.
func TestWriteEndsThePause(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	p := newProxy(t, address(server))
	log := &signal{Handler: slog.DiscardHandler, long: make(chan struct{}, 1)}
	s := open(t, p.url, Config{Log: slog.New(log), Timeout: 300 * time.Millisecond, DialTimeout: 300 * time.Millisecond})
	for i := range s.retries[2:] {
		s.retries[2+i] = time.Hour
	}
	r := receive(t, s)
	r.connected()
	p.refuse.Store(true)
	p.cut()
	<-log.long
	p.refuse.Store(false)
	var last int64
	eventually(t, "a write", func() bool {
		res, err := s.Put(t.Context(), "/routes/1", []byte("back"), PutOptions{})
		last = res.Revision
		return err == nil
	})
	r.reaches(last)
	r.has(map[string]string{"routes/1": "back"})
	if n := s.Status().Resyncs; len(n) != 1 {
		t.Errorf("the watch must resume, not read anew: %v", n)
	}
}

// A store that was restored while nobody watched numbers a write below what was
// delivered. The write is not answered before the restored state is delivered: its
// revision would be taken for one that is live.
func TestWriteToRestored(t *testing.T) {
	t.Parallel()
	dir, backup, addr := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup"), freePort(t)
	server := startEmbed(t, embed.Config{Dir: dir, Listen: addr})
	put(t, server.Client(), "routes/1", "backup")
	server.Close()
	copyDir(t, dir, backup)
	server = startEmbed(t, embed.Config{Dir: dir, Listen: addr})
	s := open(t, "http://"+addr, Config{})
	for i := range s.retries {
		s.retries[i] = time.Hour // the watch is not taken up again by itself
	}
	s.retries[1] = 20 * time.Millisecond
	r := receive(t, s)
	r.connected()
	for i := range 20 {
		put(t, server.Client(), "routes/1", fmt.Sprint("lost", i))
	}
	r.has(map[string]string{"routes/1": "lost19"})
	before := s.Status().Delivered
	server.Close()
	copyDir(t, backup, dir)
	startEmbed(t, embed.Config{Dir: dir, Listen: addr})
	var res PutResult
	eventually(t, "a write", func() (ok bool) {
		var err error
		res, err = s.Put(t.Context(), "/routes/2", []byte("new"), PutOptions{})
		return err == nil
	})
	st := s.Status()
	if res.Revision > before || st.Delivered > before || st.Resyncs[ReasonRestored] != 1 {
		t.Errorf("revision %d was written, %d delivered before, now %+v", res.Revision, before, st)
	}
	r.has(map[string]string{"routes/1": "backup", "routes/2": "new"})
}

// A watch on which nothing comes any more is noticed by a write of its own process
// long before it has been silent for too long.
func TestOwnWriteTellsOfSilence(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	watcher := &mutedWatcher{Watcher: server.Client().Watcher, started: make(chan int64, 100)}
	watcher.mute.Store(true)
	client := *server.Client()
	client.Watcher = watcher
	s := New(&client, Config{WatchTimeout: time.Minute})
	r := receive(t, s)
	<-watcher.started
	r.connected()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := s.Put(ctx, "/routes/1", []byte("a"), PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.reaches(res.Revision)
	r.has(map[string]string{"routes/1": "a"})
}

// Case 7: 500 of 7,000 objects change in a batch. What comes from the store is what
// changed, once, on one connection; nothing is read again.
func TestBatchCostsItsSize(t *testing.T) {
	t.Parallel()
	const objects, changed, size = 7000, 500, 1000
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	fill(t, c, objects, strings.Repeat("x", size))
	p := newProxy(t, address(server))
	r := receive(t, open(t, p.url, Config{}))
	r.connected()
	loaded := p.passed.Load()
	if loaded < objects*size {
		t.Fatalf("%d bytes for everything", loaded)
	}
	steps, last := r.count(), int64(0)
	for i := 0; i < changed; i += 100 {
		var ops []clientv3.Op
		for j := i; j < i+100; j++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/apisix/routes/%d", j), strings.Repeat("y", size)))
		}
		res, err := c.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		last = res.Header.Revision
	}
	r.reaches(last)
	if got, want := p.passed.Load()-loaded, int64(changed*size); got < want || got > want+want/2 {
		t.Errorf("%d bytes came for changes of %d", got, want)
	}
	puts := 0
	for _, d := range r.since(steps) {
		puts += len(d.Put)
	}
	if n := p.connections(); puts != changed || n != 1 {
		t.Errorf("%d objects came on %d connections", puts, n)
	}
}

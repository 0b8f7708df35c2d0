package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/source/embed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const patience = 15 * time.Second

func startEmbed(t *testing.T, cfg embed.Config) *embed.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := embed.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func address(s *embed.Server) string { return strings.TrimPrefix(s.ClientURL(), "http://") }

// freePort is a fixed address for servers that are stopped and started.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func quick(cfg Config) Config {
	cfg.ResyncDelay = time.Millisecond
	if cfg.WatchTimeout == 0 {
		cfg.WatchTimeout = 5 * time.Second
	}
	return cfg
}

func inProcess(t *testing.T, s *embed.Server, cfg Config) *Store {
	t.Helper()
	store := New(s.Client(), quick(cfg))
	t.Cleanup(func() { store.Close() })
	return store
}

func open(t *testing.T, url string, cfg Config) *Store {
	t.Helper()
	cfg.Endpoints = []string{url}
	store, err := Open(quick(cfg))
	if err != nil {
		t.Fatal(err)
	}
	for i := range store.retries {
		store.retries[i] = 20 * time.Millisecond
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// A receiver folds the steps of a store and checks each against the contract
// of model.Delta.
type receiver struct {
	t     *testing.T
	store *Store

	mu    sync.Mutex
	cond  *sync.Cond
	state map[model.Key]model.Object
	rev   int64
	steps []model.Delta
	gate  func() // called within apply

	stopOnce func()
}

func receive(t *testing.T, store *Store) *receiver {
	t.Helper()
	r := &receiver{t: t, store: store, state: map[model.Key]model.Object{}, gate: func() {}}
	r.run()
	return r
}

func (r *receiver) run() {
	r.cond = sync.NewCond(&r.mu)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.store.Run(ctx, r.apply); err != nil {
			r.t.Error("Run:", err)
		}
	}()
	r.stopOnce = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(r.stopOnce)
}

func (r *receiver) apply(d model.Delta) error {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	gate()
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[model.Key]bool{}
	for _, o := range d.Put {
		if seen[o.Key] {
			r.t.Errorf("%v twice in one step", o.Key)
		}
		if was, ok := r.state[o.Key]; ok && was.Modified == o.Modified && string(was.Raw) == string(o.Raw) {
			r.t.Errorf("%v delivered again unchanged", o.Key)
		}
		seen[o.Key], r.state[o.Key] = true, o
	}
	for _, k := range d.Del {
		if _, ok := r.state[k]; !ok || seen[k] {
			r.t.Errorf("%v deleted but unknown or put in the same step", k)
		}
		seen[k] = true
		delete(r.state, k)
	}
	r.rev = d.Revision
	r.steps = append(r.steps, d)
	r.cond.Broadcast()
	return nil
}

func (r *receiver) setGate(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = f
}

// until waits for a condition on the receiver.
func (r *receiver) until(what string, ok func() bool) {
	r.t.Helper()
	timer := time.AfterFunc(patience, func() { r.mu.Lock(); defer r.mu.Unlock(); r.cond.Broadcast() })
	defer timer.Stop()
	end := time.Now().Add(patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	for !ok() {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not in %v; state %v, revision %d, %+v", what, patience, r.list(), r.rev, r.store.Status())
		}
		r.cond.Wait()
	}
}

func (r *receiver) reaches(rev int64) {
	r.t.Helper()
	r.until(fmt.Sprint("revision ", rev), func() bool { return r.rev >= rev })
}

// list is the state in short; r.mu is held.
func (r *receiver) list() map[string]string {
	out := map[string]string{}
	for k, o := range r.state {
		if len(out) < 50 {
			out[k.String()] = string(o.Raw)
		}
	}
	return out
}

func (r *receiver) has(want map[string]string) {
	r.t.Helper()
	r.until(fmt.Sprint("state ", want), func() bool { return maps.Equal(r.list(), want) })
}

// count is the number of steps so far.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

func (r *receiver) since(n int) []model.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[n:]
}

func (r *receiver) connected() {
	r.t.Helper()
	eventually(r.t, "connected", func() bool { return r.store.Status().Connected })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

// put writes past the store under test.
func put(t *testing.T, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	res, err := c.Put(t.Context(), "/apisix/"+key, value)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header.Revision
}

func del(t *testing.T, c *clientv3.Client, key string) int64 {
	t.Helper()
	res, err := c.Delete(t.Context(), "/apisix/"+key)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header.Revision
}

func compact(t *testing.T, c *clientv3.Client, rev int64) {
	t.Helper()
	if _, err := c.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

var errTest = errors.New("no")

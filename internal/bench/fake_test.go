package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fakeGateway behaves like a gateway as far as the bench can see: a data plane
// and an Admin API over one set of documents, and faults on demand.
type fakeGateway struct {
	// Faults; nil and zero: none.
	dataDelay  func(since time.Duration) time.Duration // how long a request of the data plane takes
	adminDelay time.Duration                           // how long a write takes
	adminFails func(n int) bool                        // whether write n (from 1) is refused
	lag        func(n int) time.Duration               // how long write n stays unseen after its answer

	mu     sync.Mutex
	start  time.Time
	writes int
	apart  int                     // writes beside
	docs   map[string]fakeDocument // by key below the prefix
	paths  map[string]string       // uri → key of the route
	keys   map[string]string       // apikey → key of the consumer
	late   sync.WaitGroup          // writes still to take effect

	applied, compiled atomic.Int64 // of what came from etcd
}

// control is GET /v1/revision.
func (f *fakeGateway) control(w http.ResponseWriter, _ *http.Request) {
	n := f.compiled.Load()
	fmt.Fprintf(w, `{"applied":%d,"compiled":{"routes":%d},"apply_seconds":%g}`, f.applied.Load(), n, float64(n)/1000)
}

type fakeDocument struct {
	URI        string `json:"uri"`
	ServiceID  string `json:"service_id"`
	UpstreamID string `json:"upstream_id"`
	Upstream   *struct {
		Type  string         `json:"type"`
		Nodes map[string]int `json:"nodes"`
	} `json:"upstream"`
	Nodes   map[string]int `json:"nodes"`
	Plugins struct {
		KeyAuth *struct {
			Key string `json:"key"`
		} `json:"key-auth"`
	} `json:"plugins"`
}

func newFakeGateway() *fakeGateway {
	return &fakeGateway{start: time.Now(), docs: map[string]fakeDocument{}, paths: map[string]string{}, keys: map[string]string{}}
}

// apply makes a document (nil: none) the one of a key.
func (f *fakeGateway) apply(key string, value []byte) error {
	var d fakeDocument
	if value != nil {
		if err := json.Unmarshal(value, &d); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.docs[key]
	delete(f.paths, old.URI)
	if old.Plugins.KeyAuth != nil {
		delete(f.keys, old.Plugins.KeyAuth.Key)
	}
	delete(f.docs, key)
	if value == nil {
		return nil
	}
	f.docs[key] = d
	if d.URI != "" {
		f.paths[d.URI] = key
	}
	if d.Plugins.KeyAuth != nil && strings.HasPrefix(key, "consumers/") {
		f.keys[d.Plugins.KeyAuth.Key] = key
	}
	return nil
}

// status is what the data plane answers.
func (f *fakeGateway) status(path, apikey string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	route, ok := f.docs[f.paths[path]]
	if !ok {
		return 404
	}
	_, service := f.docs["services/"+route.ServiceID]
	_, upstream := f.docs["upstreams/"+route.UpstreamID]
	if !service && !upstream && route.Upstream == nil {
		return 503
	}
	if _, known := f.keys[apikey]; route.Plugins.KeyAuth != nil && !known {
		return 401
	}
	return 200
}

func (f *fakeGateway) data(w http.ResponseWriter, r *http.Request) {
	if f.dataDelay != nil {
		time.Sleep(f.dataDelay(time.Since(f.start)))
	}
	w.WriteHeader(f.status(r.URL.Path, r.Header.Get("apikey")))
}

func (f *fakeGateway) adminAPI(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/apisix/admin/")
	if r.Header.Get("X-API-KEY") == "" {
		http.Error(w, `{"error_msg":"failed to check token"}`, http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		return
	}
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodDelete {
		body = nil
	}
	time.Sleep(f.adminDelay)
	f.mu.Lock()
	f.writes++
	n := f.writes
	_, exists := f.docs[key]
	f.mu.Unlock()
	switch {
	case f.adminFails != nil && f.adminFails(n):
		http.Error(w, `{"error_msg":"no quorum"}`, http.StatusServiceUnavailable)
		return
	case body == nil && !exists:
		http.Error(w, `{"message":"Key not found"}`, 404)
		return
	}
	if f.lag != nil && f.lag(n) > 0 {
		f.late.Go(func() {
			time.Sleep(f.lag(n))
			_ = f.apply(key, body)
		})
	} else if err := f.apply(key, body); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	if body != nil {
		w.WriteHeader(201)
	}
}

// The store side, for tests without etcd.
func (f *fakeGateway) put(_ context.Context, docs []document) error {
	for _, d := range docs {
		if err := f.apply(d.key, []byte("{"+d.members+"}")); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeGateway) create(ctx context.Context, docs []document) error { return f.put(ctx, docs) }

func (f *fakeGateway) remove(_ context.Context, docs []document) error {
	for _, d := range docs {
		if err := f.apply(d.key, nil); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeGateway) beside() writer { return (*vain)(f) }

// vain counts writes that are none of the gateway's.
type vain fakeGateway

func (v *vain) create(_ context.Context, docs []document) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.apart += len(docs)
	return nil
}

func (v *vain) remove(ctx context.Context, docs []document) error { return v.create(ctx, docs) }

func (f *fakeGateway) removeAll(context.Context) error { return errors.New("not asked for here") }
func (f *fakeGateway) close() error                    { return nil }

// pipeListener lets an http.Server be dialled without the kernel, so that it
// can live in virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

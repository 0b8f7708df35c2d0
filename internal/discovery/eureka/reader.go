package eureka

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/discovery"
	"weir/internal/model"
	"weir/internal/schema"
)

// leastPause is the least time between two readings: applications that come into
// use at about the same time are found by one.
const leastPause = 500 * time.Millisecond

// reader is the discovery.Backend. It reads while any application is followed.
type reader struct {
	env       discovery.Env
	client    *discovery.Client
	endpoints []endpoint
	first     atomic.Int64 // the endpoint that answered last
	interval  time.Duration
	least     time.Duration // leastPause
	timeout   time.Duration
	weight    int
	joined    chan struct{} // an application came into use

	mu    sync.Mutex
	feeds map[*discovery.Feed]string // names of applications, in upper case
	stop  func()                     // ends the reading and waits for that; nil: there is none
}

func newReader(c *Config, env discovery.Env) (*reader, error) {
	b := &reader{
		env: env.Filled(), weight: defaultWeight, feeds: map[*discovery.Feed]string{}, joined: make(chan struct{}, 1),
		interval: schema.Seconds(c.FetchInterval), least: leastPause,
		timeout: schema.Milliseconds(float64(c.Timeout.Connect) + float64(c.Timeout.Send) + float64(c.Timeout.Read)),
		client: discovery.NewClient(discovery.ClientOptions{
			Connect: schema.Milliseconds(c.Timeout.Connect),
			TLS:     &tls.Config{InsecureSkipVerify: true}, // as APISIX does
		}),
	}
	if c.Weight != nil {
		b.weight = *c.Weight
	}
	for _, h := range c.Host {
		e, err := newEndpoint(h, c.Prefix)
		if err != nil {
			return nil, err
		}
		b.endpoints = append(b.endpoints, e)
	}
	b.first.Store(int64(b.env.Rand() * float64(len(b.endpoints))))
	return b, nil
}

// Close implements discovery.Backend.
func (b *reader) Close() { b.client.Close() }

// Target implements discovery.Backend. Eureka's names of applications are in
// upper case.
func (b *reader) Target(m *model.Upstream) (discovery.Target, error) {
	app := strings.ToUpper(m.ServiceName)
	return discovery.Target{Key: app, Follow: func(ctx context.Context, f *discovery.Feed) {
		b.join(f, app)
		<-ctx.Done()
		b.leave(f)
	}}, nil
}

func (b *reader) join(f *discovery.Feed, app string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feeds[f] = app
	if b.stop != nil {
		select {
		case b.joined <- struct{}{}:
		default:
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		b.run(ctx)
	}()
}

func (b *reader) leave(f *discovery.Feed) {
	b.mu.Lock()
	delete(b.feeds, f)
	var stop func()
	if len(b.feeds) == 0 {
		stop, b.stop = b.stop, nil
	}
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// following are the feeds and their applications at present.
func (b *reader) following() map[*discovery.Feed]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.feeds)
}

// run reads until ctx ends.
func (b *reader) run(ctx context.Context) {
	pace := discovery.NewPace(b.env)
	for {
		answer, err := b.read(ctx)
		if ctx.Err() != nil {
			return
		}
		feeds := b.following()
		if err != nil {
			for f := range feeds {
				f.Fail(err)
			}
			if !pace.Failed(ctx) {
				return
			}
			continue
		}
		found := b.find(answer, feeds)
		for f, app := range feeds {
			if err := found[app].err; err != nil {
				f.Fail(err)
			} else {
				f.Set(slices.Clone(found[app].nodes))
			}
		}
		if !pace.Next(ctx, b.least) || !b.rest(ctx) {
			return
		}
	}
}

// rest waits for the next reading; it reports false when ctx ends.
func (b *reader) rest(ctx context.Context) bool {
	t := time.NewTimer(max(0, b.interval-b.least))
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.joined:
	case <-ctx.Done():
		return false
	}
	return true
}

// read returns the answer of the first endpoint that has one.
func (b *reader) read(ctx context.Context) (*registry, error) {
	first := int(b.first.Load())
	var errs []error
	for i := range b.endpoints {
		at := (first + i) % len(b.endpoints)
		e := &b.endpoints[at]
		r, err := http.NewRequest(http.MethodGet, e.apps, nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "application/json")
		if e.auth != "" {
			r.Header.Set("Authorization", e.auth)
		}
		answer := new(registry)
		if _, err = b.client.JSON(ctx, r, b.timeout, answer); err == nil && answer.Applications == nil {
			err = errors.New(e.apps + ": no applications in the answer")
		}
		if err == nil {
			b.first.Store(int64(at))
			return answer, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

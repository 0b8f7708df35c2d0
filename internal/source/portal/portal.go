// Package portal delivers the products of 3scale: from a file, a data URL or the
// portal, all at once (loader boot) or the host that a request asks for (loader
// lazy), as apicast.md §3 says. What is delivered is the difference: a product
// whose document and keys are the same is not in a step.
package portal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/dialect/apicast"
	"weir/internal/model"
	"weir/internal/plugin"
)

// A Config says where products come from.
type Config struct {
	Configuration string // APICAST_CONFIGURATION: a URL or a path; empty: the following
	File          string // THREESCALE_CONFIG_FILE; empty: the portal
	Endpoint      string // THREESCALE_PORTAL_ENDPOINT, with user and password
	Environment   string // THREESCALE_DEPLOYMENT_ENV

	Versions map[string]string // by service id: APICAST_SERVICE_*_CONFIGURATION_VERSION
	Services []string          // APICAST_SERVICES_LIST
	Filter   apicast.Filter

	Standalone bool // the document is one of the policy standalone

	Idle    bool          // load nothing
	Lazy    bool          // load a host when a request asks for it
	TTL     time.Duration // how long what was loaded is kept; below 0: for ever
	Timeout time.Duration // how long the portal may take to be there (old API)

	// Limit is how many bytes the portal's answers to one question may have
	// together, the pages of a list for instance; 0: DefaultLimit.
	Limit int64

	UserAgent string
	Transport http.RoundTripper // default: http.DefaultTransport
	Dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	Log       *slog.Logger
	Now       func() time.Time
}

// DefaultLimit is enough for some ten thousand products.
const DefaultLimit = 128 << 20

// hostWait bounds how long a request waits for the configuration of its host.
const hostWait = 15 * time.Second

// ErrCacheOff says that nothing can be loaded once and then kept for no time. An
// APIcast that is told so ends, and reports success.
var ErrCacheOff = errors.New("cache is off, cannot store configuration, exiting")

// errEnded says that the source does not run.
var errEnded = errors.New("the source of products has ended")

// A Source delivers products.
type Source struct {
	cfg    Config
	origin *origin
	steps  chan step
	ended  chan struct{} // when Run has

	begun      atomic.Int64 // counts loads, and what takes their place
	taken      int64        // the one that is in force; Run's own
	refreshing atomic.Bool

	current atomic.Pointer[state]
	routed  atomic.Pointer[apicast.Standalone]
	hosts   hosts
	loads   sync.WaitGroup // in the background

	mu     sync.Mutex
	status Status
	alive  context.Context // of loads; nil: Run has not begun
}

// A step makes the next state.
type step struct {
	onward func(*state) *state
	done   chan error // gets the outcome; buffered
}

// A Status is how far the delivery is.
type Status struct {
	Configured bool
	Revision   int64     // counts the steps
	Loaded     time.Time // when the origin gave something last; zero: never
	Problem    string    // why it did not since; empty: it did
	Loads      int64     // that ended well
	Traffic    Traffic
}

// New makes a source. Nothing is read yet; an error says that the configuration
// cannot be read as a place.
func New(cfg Config) (*Source, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Limit = cmp.Or(cfg.Limit, DefaultLimit)
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	o, err := newOrigin(cfg)
	if err != nil {
		return nil, fmt.Errorf("3scale configuration: %w", err)
	}
	s := &Source{cfg: cfg, origin: o, steps: make(chan step), ended: make(chan struct{})}
	s.current.Store(&state{configured: cfg.Lazy})
	s.hosts.flights = map[string]*flight{}
	s.hosts.slots, s.hosts.own = make(slots, loadsAtOnce), make(slots, loadsAtOnce)
	return s, nil
}

// Status returns the state of the delivery.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	now := s.current.Load()
	st.Configured, st.Revision, st.Traffic = now.configured, now.revision, s.origin.traffic()
	return st
}

// Document is the configuration that is served, a JSON object with services; with
// oidc that list, too. nil: there is no configuration.
func (s *Source) Document(oidc bool) json.RawMessage {
	now := s.current.Load()
	if !now.configured {
		return nil
	}
	return now.document(oidc)
}

// Place is where products come from, for people.
func (s *Source) Place() string {
	switch o := s.origin; {
	case o.data != nil:
		return "a data URL"
	case o.file != "":
		return o.file
	case o.endpoint != "":
		return plugin.BareURL(o.endpoint)
	}
	return "nowhere"
}

// Routed is the document of the policy standalone that is served; nil: it is none.
func (s *Source) Routed() *apicast.Standalone { return s.routed.Load() }

// Len is the number of products.
func (s *Source) Len() int { return len(s.current.Load().order) }

// Run delivers products until ctx ends, and then returns nil: first everything,
// or with the lazy loader nothing, then what has changed. That the first load
// fails, or apply, ends it with that error; a later load that fails leaves
// everything as it is.
func (s *Source) Run(ctx context.Context, apply func(model.Delta) error) error {
	defer close(s.ended)
	alive, cancel := context.WithCancel(ctx)
	s.live(alive)
	defer func() {
		cancel()
		s.live(nil) //lint:ignore SA1012 nil: nobody runs
		s.loads.Wait()
	}()
	first := func(old *state) *state { return old }
	if !s.cfg.Lazy && !s.cfg.Idle {
		out, err := s.load(ctx, "")
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("failed to load configuration: %w", err)
		case s.cfg.TTL == 0:
			return ErrCacheOff
		}
		first = s.accept(out)
	}
	if err := s.take(first, apply, true); err != nil {
		return err
	}
	refresh, stop := s.ticker(s.cfg.TTL)
	defer stop()
	retry, stop := s.ticker(unknownKeyEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-refresh:
			if s.refreshing.CompareAndSwap(false, true) { // a slow portal is not asked twice
				s.background(s.refresh)
			}
		case <-retry:
			s.background(s.retryIssuers)
		case st := <-s.steps:
			err := s.take(st.onward, apply, false)
			st.done <- err
			if err != nil {
				return err
			}
		}
	}
}

// ticker ticks where what is loaded is to be loaded anew.
func (s *Source) ticker(every time.Duration) (<-chan time.Time, func()) {
	if s.cfg.Lazy || s.cfg.Idle || every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// take makes the next state current.
func (s *Source) take(onward func(*state) *state, apply func(model.Delta) error, first bool) error {
	old := s.current.Load()
	next := onward(old)
	d := next.since(old)
	if first && next == old {
		d.Revision++
		same := *old
		same.revision++
		next = &same
	}
	if !first && len(d.Put)+len(d.Del) == 0 {
		if next != old {
			next.revision = old.revision
			s.current.Store(next)
		}
		return nil
	}
	s.current.Store(next)
	if err := apply(d); err != nil {
		return fmt.Errorf("apply revision %d of the products: %w", d.Revision, err)
	}
	s.cfg.Log.Info("3scale configuration: applied", "products", len(next.order), "put", len(d.Put), "deleted", len(d.Del), "revision", d.Revision)
	return nil
}

// submit has a step taken, and waits until it is.
func (s *Source) submit(ctx context.Context, onward func(*state) *state) error {
	st := step{onward, make(chan error, 1)}
	select {
	case s.steps <- st:
	case <-s.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-st.done:
		return err
	case <-s.ended:
		return errEnded
	}
}

// live sets what loads in the background live with; nil: there are none more.
func (s *Source) live(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = ctx
}

// background runs f beside Run, which waits for it in the end. It reports whether
// Run runs.
func (s *Source) background(f func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := s.alive
	if alive == nil {
		return false
	}
	s.loads.Go(func() { f(alive) })
	return true
}

// load asks the origin and notes how that went.
func (s *Source) load(ctx context.Context, host string) (*loaded, error) {
	begun := s.begun.Add(1)
	out, err := s.origin.load(ctx, host)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		err = missing(err)
		s.status.Problem = err.Error()
		return nil, err
	}
	out.begun = begun
	s.status.Loads++
	s.status.Problem, s.status.Loaded = "", s.cfg.Now()
	return out, nil
}

// accept is the step that what was loaded makes.
func (s *Source) accept(out *loaded) func(*state) *state {
	return func(old *state) *state {
		if out.whole && !s.newest(out.begun) {
			return old
		}
		if out.standalone != nil {
			s.routed.Store(out.standalone)
		}
		s.origin.issuers.newest(out.services)
		if out.whole {
			s.origin.issuers.only(out.issuers())
		}
		next := old.loaded(out)
		s.warn(out, old, next)
		return next
	}
}

// newest says that nothing that was begun later took effect before.
func (s *Source) newest(begun int64) bool {
	if begun < s.taken {
		return false
	}
	s.taken = begun
	return true
}

func (l *loaded) issuers() map[string]bool {
	m := map[string]bool{}
	for _, v := range l.services {
		m[v.Issuer] = true
	}
	return m
}

// refresh loads everything anew.
func (s *Source) refresh(ctx context.Context) {
	defer s.refreshing.Store(false)
	_ = s.Reload(ctx) // it is logged
}

// Reload loads everything anew and returns when that is applied. A failure is in
// the log, too, whoever asked for it.
func (s *Source) Reload(ctx context.Context) error {
	out, err := s.load(ctx, "")
	if err == nil {
		err = s.serve(ctx, out)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("3scale configuration: not refreshed, what was loaded before stays in force", "err", err)
	}
	return err
}

// serve applies what was loaded.
func (s *Source) serve(ctx context.Context, out *loaded) error {
	if err := s.submit(ctx, s.accept(out)); err != nil {
		return err
	}
	s.hosts.loaded(out, s.current.Load(), s.expiry(out))
	return nil
}

// Replace serves a document instead of what was loaded, until that is loaded anew,
// and returns the number of its services that can be read. Where that is none the
// document is not served.
func (s *Source) Replace(ctx context.Context, d *apicast.Document) (int, error) {
	out := &loaded{whole: true, begun: s.begun.Add(1)}
	w := s.origin.whole(d)
	out.ttl = w.ttl
	out.services, out.unread = s.origin.services(ctx, w.entries)
	if len(out.services) == 0 && len(out.unread) > 0 {
		return 0, out.unread[0].Unread
	}
	return len(out.services), s.serve(ctx, out)
}

// Clear serves nothing, until something is loaded anew.
func (s *Source) Clear(ctx context.Context) error {
	s.hosts.loaded(&loaded{whole: true}, &state{}, time.Time{})
	begun := s.begun.Add(1)
	return s.submit(ctx, func(old *state) *state {
		s.newest(begun)
		next := old.whole(nil, nil)
		next.configured = s.cfg.Lazy
		return next
	})
}

// UnknownKey says that a token of an issuer names a key that is not known. The
// issuer may have new keys, and is asked for them, at most once a minute. It does
// not block.
func (s *Source) UnknownKey(issuer string) {
	for _, endpoint := range s.origin.issuers.named(issuer) {
		s.background(func(ctx context.Context) { s.rekey(ctx, endpoint, unknownKeyEvery) })
	}
}

// retryIssuers asks those issuers again whose last answer was of no use.
func (s *Source) retryIssuers(ctx context.Context) {
	failed := s.origin.issuers.failed()
	atOnce(issuersAtOnce, len(failed), func(i int) { s.rekey(ctx, failed[i], -1) })
}

// rekey asks an issuer for its keys, unless they are not older than age.
func (s *Source) rekey(ctx context.Context, endpoint string, age time.Duration) {
	oidc, err := s.origin.issuers.part(ctx, endpoint, age)
	if err != nil {
		s.cfg.Log.Warn("3scale configuration: tokens of an issuer cannot be verified anew", "kept", oidc != nil, "err", err)
		return
	}
	if err := s.submit(ctx, func(old *state) *state { return old.rekeyed(endpoint, oidc) }); err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("3scale configuration: new keys are not applied", "err", err)
	}
}

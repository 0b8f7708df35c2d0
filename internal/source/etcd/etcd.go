// Package etcd is the client of the configuration store: an external etcd
// cluster or the server that runs inside this process. It delivers the whole
// configuration and then every change of it, in order and without gaps, and it
// carries the writes of the Admin API.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"weir/internal/model"
)

// A Config says which store is used and how. The zero value of every field but
// Endpoints is usable.
type Config struct {
	// Gone is closed when the store is lost for good; nil: it never is. Operations
	// fail at once from then on.
	Gone <-chan struct{}

	Endpoints      []string // URLs; Open needs at least one
	Prefix         string   // parent of all keys; default "/apisix"
	User, Password string   // both or neither

	// TLS is asked at every handshake with an https endpoint, so that what it is made
	// of can be replaced meanwhile. nil: the system's CAs, no certificate of our own.
	TLS func() (*tls.Config, error)

	DialTimeout  time.Duration // to connect, to answer a probe; default 5 s
	Timeout      time.Duration // one read or write; default 30 s
	WatchTimeout time.Duration // longest silence of a watch; default 50 s
	ResyncDelay  time.Duration // least time between two full reads; default 5 s
	PageSize     int           // most keys per range read; default 100,000
	Check        Check         // of the running state against the store
	Log          *slog.Logger  // default: none

	// Loading is told how many objects a full read has seen so far, after each
	// page and from the goroutine of Run. It may be nil.
	Loading func(objects int)

	Now  func() time.Time // default time.Now
	Rand func() float64   // uniform in [0,1), for jitter; default math/rand
}

func (c Config) withDefaults() Config {
	orDuration := func(p *time.Duration, d time.Duration) {
		if *p <= 0 {
			*p = d
		}
	}
	orDuration(&c.DialTimeout, 5*time.Second)
	orDuration(&c.Timeout, 30*time.Second)
	orDuration(&c.WatchTimeout, 50*time.Second)
	orDuration(&c.ResyncDelay, 5*time.Second)
	orDuration(&c.Check.Every, 30*time.Second)
	if c.Check.Keys <= 0 {
		c.Check.Keys = 10_000
	}
	if c.Prefix == "" {
		c.Prefix = "/apisix"
	}
	c.Prefix = strings.TrimRight(c.Prefix, "/")
	if c.PageSize <= 0 {
		c.PageSize = 100_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Loading == nil {
		c.Loading = func(int) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// A Store is the connection to one store. Its methods may be called from many
// goroutines; Run may be called by one at a time.
type Store struct {
	cfg      Config
	endpoint string // for messages, without secrets
	retries  []time.Duration
	status   statusBoard
	assumed  []model.Object
	checking progress      // of Run's goroutine
	suspect  chan int64    // a write has shown that the store was restored, after so many setbacks; holds one
	written  atomic.Int64  // revision of the newest write of this process
	setbacks atomic.Int64  // restored stores that were delivered
	answered chan struct{} // an operation has succeeded while nothing was watched; holds one

	mu     sync.Mutex
	client *clientv3.Client // nil: dial when needed
	owned  bool             // the client was dialled here
	closed bool
}

// Open returns the store at the endpoints of the configuration. It does not
// connect: a store that cannot be reached shows in the errors of the calls and
// in the status.
func Open(cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint is configured")
	}
	hosts := make([]string, len(cfg.Endpoints))
	for i, e := range cfg.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("etcd: endpoint %d is not a URL with a host", i+1)
		}
		hosts[i] = u.Host
	}
	s := newStore(cfg, strings.Join(hosts, ","))
	s.owned = true
	return s, nil
}

// New returns the store behind a client that somebody else opened and closes.
func New(client *clientv3.Client, cfg Config) *Store {
	s := newStore(cfg, "embedded")
	s.client = client
	return s
}

func newStore(cfg Config, endpoint string) *Store {
	s := &Store{cfg: cfg.withDefaults(), endpoint: endpoint, answered: make(chan struct{}, 1), suspect: make(chan int64, 1)}
	s.retries = []time.Duration{
		100 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 16 * time.Second, 32 * time.Second,
	}
	return s
}

// Assume tells the store what the receiver of Run already has, for instance
// from a saved copy: the first step is then the difference to it. It must be
// called before Run.
func (s *Store) Assume(objects []model.Object) { s.assumed = objects }

// Close ends the connection. Run must have returned.
func (s *Store) Close() error {
	s.mu.Lock()
	client := s.client
	s.closed, s.client = true, nil
	s.mu.Unlock()
	if !s.owned || client == nil {
		return nil
	}
	return closeClient(client)
}

// closeClient closes a client; that its context ended is how it closes.
func closeClient(client *clientv3.Client) error {
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: close: %w", err)
	}
	return nil
}

// conn returns the client and makes one if there is none.
func (s *Store) conn() (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.client == nil {
		client, err := clientv3.New(s.clientConfig())
		if err != nil {
			return nil, err
		}
		s.client = client
	}
	return s.client, nil
}

// drop closes a client that no longer answers, so that the next call dials
// anew: within gRPC a black-holed connection would be kept.
func (s *Store) drop(client *clientv3.Client) {
	s.mu.Lock()
	mine := s.owned && s.client == client && client != nil
	if mine {
		s.client = nil
	}
	s.mu.Unlock()
	if mine {
		if err := closeClient(client); err != nil {
			s.cfg.Log.Warn("store: closing a dead connection", "err", err)
		}
	}
}

// clientConfig pings a connection that calls wait on. etcd ends one that is pinged
// more often than every 5 s or while no call waits ("too_many_pings"), as none does on
// those to the members that are not watched, and gRPC then pings less and less often.
func (s *Store) clientConfig() clientv3.Config {
	const keepalive, most = 10 * time.Second, 64 << 20
	dial := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.5, MaxDelay: 32 * time.Second}
	opts := []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: dial, MinConnectTimeout: s.cfg.DialTimeout}),
		grpc.WithChainStreamInterceptor(reportBreak),
	}
	if s.cfg.User != "" {
		opts = append(opts, newLogin(s.cfg.User, s.cfg.Password).dialOptions()...)
	}
	if s.cfg.TLS != nil && strings.HasPrefix(s.cfg.Endpoints[0], "https:") {
		opts = append(opts, grpc.WithTransportCredentials(fresh{s.cfg.TLS}))
	}
	return clientv3.Config{
		Endpoints:             s.cfg.Endpoints,
		DialTimeout:           s.cfg.DialTimeout,
		DialKeepAliveTime:     keepalive,
		DialKeepAliveTimeout:  keepalive / 2,
		MaxCallSendMsgSize:    most,
		MaxUnaryRetries:       5,
		BackoffWaitBetween:    40 * time.Millisecond,
		BackoffJitterFraction: 0.5,
		Logger:                zap.NewNop(),
		DialOptions:           opts,
	}
}

// path is the full key of one given without the prefix.
func (s *Store) path(key string) string {
	if !strings.HasPrefix(key, "/") {
		key = "/" + key
	}
	return s.cfg.Prefix + key
}

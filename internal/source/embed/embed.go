// Package embed runs an etcd server inside this process: the configuration
// store of a gateway whose user named no other.
package embed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
)

// Off as Config.Listen means that no client address is opened.
const Off = "off"

// A Config says where the server keeps its data and where it listens.
type Config struct {
	Dir string // data directory, made with mode 0700; required

	// Listen is the address for clients without TLS, "127.0.0.1:2379" by
	// default. If its port is taken the next free one is used; port 0 means any.
	// Off opens none.
	Listen string

	Quota int64        // most bytes of the database; default 4 GiB
	Log   *slog.Logger // gets the server's warnings and errors; default: none
}

// ErrLocked: another process uses the data directory.
var ErrLocked = errors.New("in use by another process")

// A Server is a running store of one member.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	url    string
	lock   *os.File
	fatal  *fatal

	grpcMu sync.Mutex
	grpc   []*grpc.Server

	close func() error
}

// Start runs the server and returns once it answers. ctx bounds only the
// start. A write that the server has acknowledged is on disk: it survives the
// loss of the process and of the machine.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Quota <= 0 {
		cfg.Quota = 4 << 30
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:2379"
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	s := &Server{lock: lock, fatal: newFatal(cfg.Log)}
	s.close = sync.OnceValue(s.stop)
	s.fatal.quiet.Store(true)
	stuck, err := s.isolated(func() error { return s.start(ctx, cfg) })
	switch {
	case stuck:
		// What was started may still use the directory: it stays locked.
		return nil, fmt.Errorf("embedded store: data directory %s: %w", cfg.Dir, err)
	case err != nil:
		return nil, fmt.Errorf("embedded store: %w", errors.Join(err, s.Close()))
	}
	s.fatal.quiet.Store(false)
	return s, nil
}

// Client returns the client that calls the server without a connection. It is
// closed with the server.
func (s *Server) Client() *clientv3.Client { return s.client }

// ClientURL is where other processes reach the server, "" if it does not
// listen.
func (s *Server) ClientURL() string { return s.url }

// Failed is closed when the server cannot go on, for instance because its disk
// is full; Err then tells why. Writes fail from then on. The goroutine that met
// the error has ended, be it one that called the client.
func (s *Server) Failed() <-chan struct{} { return s.fatal.done }

// Err returns why the server failed, or nil.
func (s *Server) Err() error { return s.fatal.cause() }

// Close stops the server and frees its directory. Connections from other
// processes are cut.
func (s *Server) Close() error { return s.close() }

// lockDir makes the directory and takes it for this process. The lock is the
// kernel's: it does not outlive the process.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no data directory is configured")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	return f, nil
}

// isolated runs f on a goroutine of its own, which a fatal error of the server
// ends or leaves waiting for another one that has ended; then stuck is true. On
// the way out etcd may trip over what it has not made yet, which must not end
// the process either.
func (s *Server) isolated(f func() error) (stuck bool, err error) {
	result := make(chan error, 1)
	go func() {
		defer close(result)
		defer func() {
			if p := recover(); p != nil && s.fatal.cause() == nil {
				result <- fmt.Errorf("the server does not start, its data may be damaged: %v", p)
			}
		}()
		result <- f()
	}()
	select {
	case <-s.fatal.done:
	case err, returned := <-result:
		if returned {
			return false, err
		}
	}
	return true, s.fatal.cause()
}

func (s *Server) start(ctx context.Context, cfg Config) error {
	err := s.attempt(ctx, cfg)
	if !errors.Is(err, errUnfinished) {
		return err
	}
	// Nothing can have been written to it, but it is the user's disk.
	aside := s.dataDir(cfg) + ".unfinished"
	if err := errors.Join(s.stopServer(), os.RemoveAll(aside), os.Rename(s.dataDir(cfg), aside)); err != nil {
		return err
	}
	cfg.Log.Warn("embedded store: its first start was cut off, it starts anew", "aside", aside)
	return s.attempt(ctx, cfg)
}

func (s *Server) attempt(ctx context.Context, cfg Config) error {
	if cfg.Listen == Off {
		if err := s.launch(cfg, nil); err != nil {
			return err
		}
		return s.ready(ctx, cfg)
	}
	host, portText, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return fmt.Errorf("listen address %q: not a port number", cfg.Listen)
	}
	const tries = 100
	for range tries {
		err = s.launch(cfg, &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(port))})
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		port++
	}
	if err != nil {
		return err
	}
	s.url = "http://" + s.etcd.Clients[0].Addr().String()
	return s.ready(ctx, cfg)
}

func (s *Server) launch(cfg Config, listen *url.URL) error {
	e, err := embed.StartEtcd(s.etcdConfig(cfg, listen))
	if err != nil {
		return err
	}
	s.etcd = e
	return nil
}

func (s *Server) dataDir(cfg Config) string { return filepath.Join(cfg.Dir, "etcd") }

// etcdConfig tunes the server for one member in the process of a gateway.
func (s *Server) etcdConfig(cfg Config, listen *url.URL) *embed.Config {
	ec := embed.NewConfig()
	ec.Name = "weir"
	ec.Dir = s.dataDir(cfg)
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(s.fatal.logger())

	// A lone member needs no peers; the address only names it. The token makes
	// the identity of the cluster unlike that of other stores.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	ec.ListenPeerUrls = nil
	ec.AdvertisePeerUrls = []url.URL{peer}
	ec.InitialCluster = ec.Name + "=" + peer.String()
	ec.InitialClusterToken = rand.Text()
	ec.ListenClientUrls, ec.AdvertiseClientUrls = nil, nil
	if listen != nil {
		ec.ListenClientUrls = []url.URL{*listen}
		ec.AdvertiseClientUrls = []url.URL{*listen}
	}
	// The JSON gateway would let any web page in the user's browser write.
	ec.EnableGRPCGateway = false
	ec.ServiceRegister = func(g *grpc.Server) {
		s.grpcMu.Lock()
		defer s.grpcMu.Unlock()
		s.grpc = append(s.grpc, g)
	}

	// The election timeout is what a lone member waits before it leads.
	ec.TickMs, ec.ElectionMs = 10, 50
	ec.PreVote = false

	ec.QuotaBackendBytes = cfg.Quota
	ec.MaxRequestBytes = 8 << 20
	ec.AutoCompactionMode = embed.CompactorModeRevision
	ec.AutoCompactionRetention = "10000"
	// Nobody needs old entries to catch up, and they are held in memory.
	ec.SnapshotCount, ec.SnapshotCatchUpEntries = 5000, 100
	ec.WatchProgressNotifyInterval = time.Minute
	ec.WarningApplyDuration = time.Second
	ec.WarningUnaryRequestDuration = 2 * time.Second
	return ec
}

// errUnfinished: the process ended between making the log of a new store and
// the log's first entry, which names the member. Such a store has no member
// that could ever lead, so it never took a write either.
var errUnfinished = errors.New("the store has no member")

// ready waits until the server leads, and opens the client.
func (s *Server) ready(ctx context.Context, cfg Config) error {
	const replay = 2 * time.Second // more than enough to read a member from the log
	late := time.NewTimer(replay)
	defer late.Stop()
	for {
		select {
		case <-s.etcd.Server.ReadyNotify():
			s.client = v3client.New(s.etcd.Server)
			return s.disarm(ctx, cfg)
		case <-s.fatal.done:
			return s.fatal.cause()
		case err := <-s.etcd.Err():
			return err
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", context.Cause(ctx))
		case <-late.C:
			server := s.etcd.Server
			if len(server.Cluster().Members()) == 0 && server.CommittedIndex() == 0 && server.KV().Rev() <= 1 {
				return errUnfinished
			}
		}
	}
}

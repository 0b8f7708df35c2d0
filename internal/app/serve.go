package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/version"

	"weir/internal/config"
	"weir/internal/control"
	"weir/internal/echo"
	"weir/internal/engine"
	"weir/internal/engine/h2"
	"weir/internal/engine/h3"
	"weir/internal/listen"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// openEngine starts the data plane. Its addresses open only now, when a whole
// state is applied: no request meets a gateway that does not know its routes
// yet. A control plane has none.
func (g *Gateway) openEngine(ctx context.Context) error {
	if g.Config.Deployment.Role == "control_plane" {
		return nil
	}
	cfg, err := g.engineConfig()
	if err != nil {
		return err
	}
	g.engine = engine.New(cfg)
	g.onStop(func(ctx context.Context) error { return g.engine.Shutdown(ctx, g.data...) })
	for _, s := range g.Config.APISIX.Sockets() {
		if err := g.openSocket(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// engineConfig is how the data plane treats its clients.
func (g *Gateway) engineConfig() (engine.Config, error) {
	h, a := &g.Config.Nginx.HTTP, &g.Config.APISIX
	cfg := engine.Config{
		State: g.state, Log: g.log, Server: g.serverName(), Limits: wire.DefaultLimits(),
		KeepaliveTimeout: h.Timeouts.Keepalive, HeaderTimeout: h.Timeouts.Header,
		BodyTimeout: h.Timeouts.Body, SendTimeout: h.Timeouts.Send,
		NoUnderscores: !h.UnderscoresInHeader, MaxBody: int64(h.MaxBodySize), ShowUpstreamStatus: a.Server.ShowUpstreamStatus,
		Paths: engine.Paths{
			DeleteTailSlash: a.URI.DeleteTailSlash, LikeServlet: a.URI.NormalizeLikeServlet,
			MatchEncodedSlash: a.URI.MatchEncodedSlash,
		},
		BodyLimits: plugin.Limits{PostArgs: int64(a.URI.MaxPostArgsSize) << 20, GraphQL: g.Config.GraphQL.MaxSize},
	}
	if g.accessLog != nil {
		cfg.AccessLog = g.accessLog.Write
	}
	if err := g.believe(&cfg); err != nil {
		return cfg, err
	}
	if a.HTTP.EnableHTTP2 {
		var err error
		if cfg.HTTP2, err = h2.New(h2.Config{
			IdleTimeout: h.Timeouts.Keepalive, SendTimeout: h.Timeouts.Send, HeadLimit: cfg.Limits.Head, Log: g.log,
		}); err != nil {
			return cfg, fmt.Errorf("HTTP/2: %w", err)
		}
	}
	cfg.HTTP3 = h3.New(h3.Config{
		IdleTimeout: h.Timeouts.Keepalive, HandshakeTimeout: h.Timeouts.Header, HeadLimit: cfg.Limits.Head,
	})
	cfg.FallbackSNI = a.SSL.FallbackSNI
	cfg.MaxConnections, cfg.Room = g.Config.Nginx.Event.WorkerConnections*runtime.GOMAXPROCS(0), g.room
	cfg.MaxPerAddress = g.Config.Weir.MaxPerAddress
	cfg.KeepSlashes = !g.Config.Weir.MergeSlashes
	return cfg, nil
}

// openSocket opens one of the data plane's addresses and serves it.
func (g *Gateway) openSocket(ctx context.Context, s config.Socket) error {
	l, err := g.listen(ctx, s)
	switch {
	case err != nil:
		return err
	case l == nil:
		g.log.Info("no socket for this address: there is no IPv6, or another socket serves it", "addr", s.Addr)
		return nil
	}
	if s.Proxy {
		if l, err = g.behindProxy(l); err != nil {
			return err
		}
	}
	g.data = append(g.data, l)
	scheme, serve := "http", g.engine.Serve
	if s.TLS {
		scheme, serve = "https", g.engine.ServeTLS
	}
	g.dataURLs = append(g.dataURLs, scheme+"://"+l.Addr().String())
	g.background.Go(func() {
		if err := serve(l); err != nil {
			g.fail(fmt.Errorf("http %s: %w", l.Addr(), err))
		}
	})
	if !s.HTTP3 {
		return nil
	}
	// The port is the same, if that was left to the system, too.
	pc, err := g.sockets.ListenPacket(ctx, "udp"+strings.TrimPrefix(s.Network, "tcp"), l.Addr().String())
	if err != nil {
		return fmt.Errorf("HTTP/3: %w", err)
	}
	g.background.Go(func() {
		if err := g.engine.ServePackets(pc); err != nil {
			g.fail(fmt.Errorf("http/3 %s: %w", l.Addr(), err))
		}
	})
	return nil
}

// serverName is the Server header.
func (g *Gateway) serverName() string {
	if g.Config.APISIX.Server.Tokens {
		return "Weir/" + g.Version
	}
	return "Weir"
}

// listen opens a socket; nil for one that another covers, or an optional one that
// this host cannot have.
func (g *Gateway) listen(ctx context.Context, s config.Socket) (net.Listener, error) {
	l, err := g.sockets.Listen(ctx, s.Network, s.Addr)
	switch {
	case errors.Is(err, listen.ErrCovered),
		s.Optional && (errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)):
		return nil, nil
	}
	return l, err
}

func (g *Gateway) openControl(ctx context.Context) error {
	a := &g.Config.APISIX
	if !a.EnableControl {
		return nil
	}
	var err error
	api := control.API(g.controlConfig())
	if isLoopback(a.Control.String()) {
		api = control.Local("Control API", api)
	}
	during, end := context.WithCancelCause(context.Background())
	g.control, err = g.serve(ctx, "control", a.Control.String(), within(during, api), nil)
	g.onStop(func(context.Context) error { // who measures for minutes does not hold up the stop
		end(errStopping)
		return nil
	})
	return err
}

// within has the contexts of h's requests end with ctx at the latest, for its cause.
func within(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		both, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		h.ServeHTTP(w, r.WithContext(both))
	})
}

// isLoopback says whether only this machine reaches an address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	a, parseErr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || parseErr == nil && a.IsLoopback())
}

func (g *Gateway) openStatus(ctx context.Context) error {
	e := g.Config.APISIX.Status
	if e == nil {
		return nil
	}
	var err error
	g.status, err = g.serve(ctx, "status", e.String(), control.Status(g.controlConfig()), nil)
	return err
}

func (g *Gateway) controlConfig() control.Config {
	c := control.Config{
		Revision: g.revision, Ready: g.notReady, Snapshot: g.state.Current, Documents: g.documents,
		Source: g.configurationSource, Server: g.server, More: g.controlHandlers(),
		Reload: func(ctx context.Context) error {
			revision, err := g.reload(ctx)
			if err != nil {
				return err
			}
			return g.state.Wait(ctx, revision)
		},
	}
	if g.Config.Deployment.Provider() == "etcd" {
		c.KeyPrefix = g.Config.Deployment.Etcd.Prefix
	}
	return c
}

// server is what the Control API tells of the process.
func (g *Gateway) server(ctx context.Context) control.Server {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	store := "unknown"
	switch {
	case g.store == nil:
	case g.Config.Embedded:
		store = version.Version
	default:
		if v, err := g.store.Version(ctx); err == nil && v != "" {
			store = v
		}
	}
	return control.Server{Etcd: store, ID: g.id, Hostname: host, Version: g.Version, Boot: g.began.Unix()}
}

// Why the gateway is not ready.
var (
	errNotReady = errors.New("the configuration is not loaded yet")
	errStopping = errors.New("the gateway is stopping")
)

func (g *Gateway) notReady() error {
	if g.ready.Load() {
		return cmp.Or(g.awaited(), g.undiscovered())
	}
	if g.stopping.Load() {
		return errStopping
	}
	return errNotReady
}

func (g *Gateway) revision() control.Revision {
	st, work := g.sourceStatus(), g.state.Work()
	r := control.Revision{
		Applied: g.state.Current().Revision, Connected: st.Connected, LastError: st.LastError,
		Compiled: work.Compiled, Deltas: work.Deltas, Applying: work.Spent.Seconds(), Resyncs: st.Resyncs,
	}
	r.StaleSince = g.staleSince.Load()
	if g.store != nil {
		r.Checked = &control.Checked{
			Keys: st.Checked.Keys, Cycles: st.Checked.Cycles, CycleSeconds: st.Checked.Cycle.Seconds(), Drift: st.Checked.Drift,
		}
	}
	r.Store = max(st.StoreRevision, r.Applied)
	r.Lag = r.Store - r.Applied
	r.Objects, _ = g.objects()
	return r
}

// serve runs an HTTP server for operators, with TLS if that is not nil.
func (g *Gateway) serve(ctx context.Context, name, addr string, h http.Handler, t *tls.Config) (net.Listener, error) {
	l, err := g.sockets.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := operatorServer(h, g.log)
	accept := l
	if t != nil {
		accept = tls.NewListener(l, t)
	}
	g.background.Go(func() {
		if err := s.Serve(accept); !errors.Is(err, http.ErrServerClosed) {
			g.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
	g.onStop(func(ctx context.Context) error {
		err := s.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		return err
	})
	return l, nil
}

// operatorServer bounds how long each part of a call may take to arrive.
func operatorServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: patient(h, bodyPatience), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	}
}

// openEcho starts the example's upstream on a free port.
func (g *Gateway) openEcho(ctx context.Context) error {
	if !g.Example {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("echo: %w", err)
	}
	g.echo = l
	run, cancel := context.WithCancel(context.Background())
	g.onStop(func(context.Context) error {
		cancel()
		return nil
	})
	g.background.Go(func() {
		if err := echo.Serve(run, l); err != nil {
			g.fail(fmt.Errorf("echo: %w", err))
		}
	})
	return nil
}

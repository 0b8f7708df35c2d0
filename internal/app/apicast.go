package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"weir/internal/accesslog"
	"weir/internal/cert"
	"weir/internal/config"
	"weir/internal/engine"
	"weir/internal/engine/h2"
	"weir/internal/expr"
	"weir/internal/management"
	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/pemkey"
	"weir/internal/plugin"
	"weir/internal/policies"
	"weir/internal/proxyproto"
	"weir/internal/resolve"
	"weir/internal/snapshot"
	"weir/internal/source/portal"
	"weir/internal/threescale"
)

// An account is the part of a gateway that serves products of 3scale as APIcast
// does: its source, its listeners and its logs.
type account struct {
	config    *config.APIcast
	runtime   *threescale.Runtime
	meter     *meter.Registry
	source    *portal.Source
	engine    *engine.Engine
	api       *management.API
	accessLog *accesslog.Log

	certificate *cert.Certificate // of the HTTPS port

	listeners []net.Listener
	urls      []string
	admin     net.Listener
	metrics   net.Listener

	// ballast is never touched and so takes no memory, but the collector counts it:
	// where the heap is small it begins only when so much more is garbage. A
	// collection takes all cores for its time, and what a refresh leaves behind is
	// otherwise a reason for one every minute (bench reload, 600 products of which
	// 10 % change: p99.9 of 200 requests/s 2.4 to 4.7 ms, with it 0.7 to 0.9 ms as
	// without refreshes).
	ballast []byte
}

// ballastSize is how much more than the heap may be garbage, besides as much as
// the heap.
const ballastSize = 64 << 20

// apicastVersion is the APIcast whose behaviour this is.
const apicastVersion = "3.16.0"

// openAccount makes what the products have in common, and where they come from.
func (g *Gateway) openAccount(context.Context) error {
	c := g.APIcast
	if c == nil {
		return nil
	}
	a := &account{config: c, meter: meter.New(0), ballast: make([]byte, ballastSize)}
	settings, err := settingsOf(c)
	if err != nil {
		return err
	}
	a.runtime = threescale.NewRuntime(settings, g.log, a.meter, time.Now)
	g.onStop(func(context.Context) error {
		a.runtime.Close()
		return nil
	})
	cfg, err := g.portalConfig(a)
	if err != nil {
		return err
	}
	if a.source, err = portal.New(cfg); err != nil {
		return err
	}
	a.runtime.UnknownKey, a.runtime.Discover = a.source.UnknownKey, a.source.Discover
	a.runtime.Transport = cfg.Transport
	if c.Ports.HTTPS != 0 {
		if a.runtime.TLS, err = gatewayTLS(c); err != nil {
			return err
		}
		a.certificate = &cert.Certificate{Config: a.runtime.TLS}
	}
	g.account = a
	return g.newManagement(a)
}

func settingsOf(c *config.APIcast) (threescale.Settings, error) {
	s := threescale.Settings{
		BackendOverride: c.Backend.Override, Resilient: c.Backend.Resilient, ReportingThreads: c.Backend.Threads, ResponseCodes: c.Backend.Codes,
		BatchRoom:   int64(c.Backend.Batches),
		PathRouting: c.PathRouting, PathRoutingOnly: c.PathRoutingOnly, VerifyTLS: c.Upstream.Verify, ExtendedMetrics: c.ExtendedMetrics,
		RetryCases: c.Upstream.RetryCases, UserAgent: userAgent(c.Portal.Channel), Environment: c.Portal.Channel,
		CacheStatusCodes: c.Upstream.CacheStatuses, CacheMaxTime: c.Upstream.CacheTime,
		UpstreamHead: int(c.Upstream.HeadSize),
		HTTPProxy:    c.Proxies.HTTP, HTTPSProxy: c.Proxies.HTTPS, AllProxy: c.Proxies.All, NoProxy: c.Proxies.No,
	}
	if c.Upstream.Certificate == "" {
		return s, nil
	}
	pem, err := os.ReadFile(c.Upstream.Certificate)
	if err != nil {
		return s, fmt.Errorf("APICAST_PROXY_HTTPS_CERTIFICATE: %w", err)
	}
	key, err := os.ReadFile(c.Upstream.Key)
	if err != nil {
		return s, fmt.Errorf("APICAST_PROXY_HTTPS_CERTIFICATE_KEY: %w", err)
	}
	if c.Upstream.PassPhrases != "" {
		lines, err := os.ReadFile(c.Upstream.PassPhrases)
		if err == nil {
			key, err = pemkey.Open(key, strings.Split(strings.TrimRight(string(lines), "\n"), "\n"))
		}
		if err != nil {
			return s, fmt.Errorf("APICAST_PROXY_HTTPS_PASSWORD_FILE: %w", err)
		}
	}
	s.Certificate, s.CertificateKey = string(pem), string(key)
	return s, nil
}

// userAgent is how APIcast names itself to 3scale.
func userAgent(channel string) string {
	system, arch := map[string]string{"linux": "Linux", "darwin": "OSX"}[runtime.GOOS], map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if system == "" {
		system = runtime.GOOS
	}
	if arch == "" {
		arch = runtime.GOARCH
	}
	if channel == "" {
		channel = "unknown"
	}
	return fmt.Sprintf("APIcast/%s (%s; %s; env:%s)", apicastVersion, system, arch, channel)
}

func (g *Gateway) portalConfig(a *account) (portal.Config, error) {
	p := &a.config.Portal
	cfg := portal.Config{
		Standalone:    p.Standalone,
		Configuration: p.Configuration, File: p.File, Endpoint: p.Endpoint, Environment: p.Channel,
		Versions: p.Versions, Services: p.Services, Idle: p.Loader == "test", Lazy: p.Loader == "lazy", TTL: p.Cache, Timeout: p.Wait, Limit: int64(p.Limit),
		UserAgent: a.runtime.UserAgent, Log: g.log,
	}
	if p.Example {
		cfg.Configuration = exampleProducts
	}
	for _, id := range p.Services {
		if cfg.Filter.IDs == nil {
			cfg.Filter.IDs = map[string]bool{}
		}
		cfg.Filter.IDs[id] = true
	}
	if p.Hosts != "" {
		re, err := expr.CompilePattern(p.Hosts, false)
		if err != nil {
			g.log.Error("APICAST_SERVICES_FILTER_BY_URL cannot be used; no service is served", "err", err)
			cfg.Filter.None = true
		} else {
			cfg.Filter.Host = func(host string) bool {
				ok, err := re.Match(host)
				return ok && err == nil
			}
		}
	}
	pool, err := roots(a.config.Upstream.CAs)
	if err != nil {
		return cfg, err
	}
	dial := g.accountDial(a.config)
	cfg.Dial = dial
	cfg.Transport = &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		Proxy:               func(r *http.Request) (*url.URL, error) { return a.runtime.ProxyURL(r.URL), nil },
		TLSClientConfig:     &tls.Config{RootCAs: pool, InsecureSkipVerify: !a.config.Upstream.Verify}, // as APIcast
		TLSHandshakeTimeout: 10 * time.Second,
	}
	return cfg, nil
}

// exampleProducts is the configuration of the environment development.
const exampleProducts = `data:application/json,{"services":[{"proxy":{"hosts":["localhost","127.0.0.1"],"policy_chain":[{"name":"apicast.policy.echo"}]}}]}`

// accountDial connects to names as the name servers of RESOLVER know them.
func (g *Gateway) accountDial(c *config.APIcast) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if c.Resolver == "" {
		return d.DialContext
	}
	client := resolve.NewClient(resolve.Config{Servers: []string{c.Resolver}, Search: true, IPv6: true})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if net.ParseIP(host) != nil {
			return d.DialContext(ctx, network, addr)
		}
		answer, err := client.Lookup(ctx, host, resolve.ForHosts())
		if err != nil {
			return nil, err
		}
		for _, r := range answer.Records {
			var c net.Conn
			if c, err = d.DialContext(ctx, network, net.JoinHostPort(r.Addr.String(), port)); err == nil {
				return c, nil
			}
		}
		if err == nil {
			err = fmt.Errorf("%s has no address", host)
		}
		return nil, err
	}
}

// products is what the state needs to serve them.
func (g *Gateway) products() (p snapshot.Products, err error) {
	if g.account == nil {
		return p, nil
	}
	p = snapshot.Products{Policies: policies.All(), Runtime: g.account.runtime}
	if g.account.config.Portal.Standalone {
		p.Choose = g.account.route
	}
	if t := g.account.config.Tracing; t != nil {
		err = trace(&p, t)
	}
	return p, err
}

// loadProducts follows the source of products and waits until the first step is
// applied.
func (g *Gateway) loadProducts(ctx context.Context) error {
	a := g.account
	if a == nil {
		return nil
	}
	follow, cancel := context.WithCancel(context.Background())
	ended, loaded := make(chan struct{}), make(chan struct{})
	var failed error // when ended is closed
	first := true
	go func() {
		defer close(ended)
		failed = a.source.Run(follow, func(d model.Delta) error {
			g.state.ApplyProducts(d)
			if first {
				close(loaded)
				first = false
			}
			return nil
		})
		if failed != nil {
			failed = fmt.Errorf("3scale: %w", failed)
			g.fail(failed)
		}
	}()
	g.onStop(func(context.Context) error {
		cancel()
		<-ended
		return nil
	})
	select {
	case <-loaded:
		g.say("products", "%d from %s, loader %s", a.source.Len(), a.source.Place(), a.config.Portal.Loader)
		return nil
	case <-ended:
		return failed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reloadProducts loads the products anew, without having anybody wait.
func (g *Gateway) reloadProducts(ctx context.Context) {
	g.background.Go(func() { _ = g.account.source.Reload(ctx) }) // it logs its failures
}

// openProducts starts the data plane of products. Its addresses open when the
// first configuration is applied.
func (g *Gateway) openProducts(ctx context.Context) error {
	a := g.account
	if a == nil {
		return nil
	}
	if err := errors.Join(g.openProductLog(), g.openMock(ctx)); err != nil {
		return err
	}
	c, t := a.config, &g.Config.Nginx.HTTP.Timeouts
	cfg := engine.Config{
		Products: true, State: g.state, Log: g.log, Server: g.serverName(),
		KeepaliveTimeout: c.Keepalive, NoKeepalive: c.Keepalive == 0, HeaderTimeout: t.Header, BodyTimeout: t.Body, SendTimeout: t.Send,
		BodyLimits: plugin.Limits{PostArgs: int64(g.Config.APISIX.URI.MaxPostArgsSize) << 20},
	}
	counted := newProductMetrics(a.meter, c.ExtendedMetrics)
	cfg.AccessLog = func(c *plugin.Ctx) {
		counted.count(c)
		a.accessLog.Write(c)
	}
	cfg.Limits.Head, cfg.Limits.Line = c.HeadLine*c.HeadLines, c.HeadLine
	cfg.MaxConnections, cfg.Room = g.Config.Nginx.Event.WorkerConnections*runtime.GOMAXPROCS(0), g.room
	if c.Portal.Loader == "lazy" {
		cfg.WantHost = g.wantHost
	}
	var err error
	if cfg.HTTP2, err = h2.New(h2.Config{IdleTimeout: t.Keepalive, SendTimeout: t.Send, HeadLimit: cfg.Limits.Head, Log: g.log}); err != nil {
		return fmt.Errorf("HTTP/2: %w", err)
	}
	if cfg.Certificate, err = g.chooser(); err != nil {
		return err
	}
	a.engine = engine.New(cfg)
	// What requests have left to be reported goes out when there are no more of
	// them, and there still are ways to the backends.
	g.onStop(func(context.Context) error {
		a.runtime.Close()
		return nil
	})
	g.onStop(func(ctx context.Context) error { return a.engine.Shutdown(ctx, a.listeners...) })
	if s := a.source.Routed(); s != nil && len(s.Unused) > 0 {
		g.log.Warn("members of the standalone document without effect: " + strings.Join(s.Unused, ", "))
	}
	for _, p := range a.ports() {
		if err := g.listenProducts(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// wantHost has the lazy loader bring a host, which bounds the wait.
func (g *Gateway) wantHost(host string) {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	_ = g.account.source.Want(context.Background(), strings.ToLower(strings.TrimSuffix(host, "."))) // the source has logged it
}

func (g *Gateway) listenProducts(ctx context.Context, p productPort) error {
	l, err := g.sockets.Listen(ctx, "tcp", ":"+strconv.Itoa(p.port))
	if err != nil {
		return fmt.Errorf("3scale: %w", err)
	}
	if p.proxy {
		l = &proxyproto.Listener{Listener: l, Timeout: g.Config.Nginx.HTTP.Timeouts.Header}
	}
	a := g.account
	scheme, serve := "http", a.engine.Serve
	if p.tls {
		scheme, serve = "https", a.engine.ServeTLS
	}
	a.listeners = append(a.listeners, l)
	a.urls = append(a.urls, scheme+"://"+l.Addr().String())
	g.background.Go(func() {
		if err := serve(l); err != nil {
			g.fail(fmt.Errorf("3scale %s: %w", l.Addr(), err))
		}
	})
	return nil
}

// apicastFormat is the log format that APIcast calls time. What follows a request
// does not delay it here: its impact is always 0.
const apicastFormat = `[$time_local] $host:$server_port $remote_addr:$remote_port "$request" $status $body_bytes_sent ($request_time) 0`

func (g *Gateway) openProductLog() (err error) {
	l := &g.account.config.Logs
	g.account.accessLog, err = accesslog.Open(accesslog.Config{
		Path: l.Access, Format: apicastFormat, BufferSize: int(l.AccessBuffer), Log: g.log,
	})
	if err != nil {
		return fmt.Errorf("3scale: %w", err)
	}
	g.onStop(func(context.Context) error { return g.account.accessLog.Close() })
	return nil
}

// gatewayTLS is what handshakes at the HTTPS port use; products may change it for
// their hosts.
func gatewayTLS(c *config.APIcast) (*tls.Config, error) {
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	var pair tls.Certificate
	var err error
	if c.TLS.Certificate == "" {
		pair, err = selfSigned()
	} else {
		pair, err = tls.LoadX509KeyPair(c.TLS.Certificate, c.TLS.Key)
	}
	if err != nil {
		return nil, fmt.Errorf("APICAST_HTTPS_CERTIFICATE: %w", err)
	}
	base.Certificates = []tls.Certificate{pair}
	base.ClientAuth = map[string]tls.ClientAuthType{
		"on": tls.RequireAndVerifyClientCert, "optional": tls.VerifyClientCertIfGiven, "optional_no_ca": tls.RequestClientCert, "off": tls.NoClientCert,
	}[c.TLS.VerifyClient]
	if base.ClientAuth == tls.RequireAndVerifyClientCert || base.ClientAuth == tls.VerifyClientCertIfGiven {
		// Where clients are not verified, they are not told of CAs either: many would
		// show no certificate of another one.
		if base.ClientCAs, err = roots(c.Upstream.CAs); err == nil && base.ClientCAs == nil {
			base.ClientCAs, err = x509.SystemCertPool()
		}
		if err != nil {
			return nil, err
		}
		depth := c.TLS.VerifyDepth
		base.VerifyConnection = func(s tls.ConnectionState) error {
			for _, chain := range s.VerifiedChains {
				if len(chain) <= depth+1 {
					return nil
				}
			}
			if len(s.VerifiedChains) > 0 {
				return errors.New("the client's chain is deeper than allowed")
			}
			return nil
		}
	}
	return base, nil
}

// productCertificate is for the name that a client asks for: its product's, or the
// gateway's own.
func (g *Gateway) productCertificate(h *tls.ClientHelloInfo) (*cert.Certificate, error) {
	if h.ServerName != "" {
		if g.account.config.Portal.Loader == "lazy" {
			g.wantHost(h.ServerName)
		}
		if own := g.state.Current().Handshake(h.ServerName); own != nil {
			return own, nil
		}
	}
	return g.account.certificate, nil
}

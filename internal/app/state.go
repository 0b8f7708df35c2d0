package app

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"time"

	"weir/internal/dialect/apisix"
	"weir/internal/keyring"
	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins"
	"weir/internal/router"
	"weir/internal/secret"
	"weir/internal/snapshot"
	"weir/internal/source/embed"
	"weir/internal/source/etcd"
)

// openState makes the empty state.
func (g *Gateway) openState(context.Context) error {
	d := g.Config.APISIX.DataEncryption
	keys := make([]string, 0, len(d.Keyring))
	for _, k := range d.Keyring {
		keys = append(keys, k.Reveal())
	}
	var err error
	if g.ring, err = keyring.New(keys); err != nil {
		return fmt.Errorf("apisix.data_encryption.keyring: %w", err)
	}
	g.documents = apisix.New(apisix.Options{OpenKey: g.ring.OpenKey, Vars: checkVars, Proto: checkProto, Stapling: g.stapling})
	env, err := g.upstreamEnv()
	if err != nil {
		return err
	}
	base, err := tlsBase(&g.Config.APISIX.SSL, g.Config.APISIX.HTTP.EnableHTTP2)
	if err != nil {
		return err
	}
	secrets := secret.Env{Lookup: g.Config.Env}
	g.meter = meter.New(0)
	products, err := g.products()
	if err != nil {
		return err
	}
	g.state = snapshot.New(snapshot.Config{
		Meter:         g.meter,
		TLS:           base,
		Version:       g.Version,
		ID:            g.id,
		Connections:   g.connections,
		Reveal:        revealer(secrets),
		Plugins:       plugins.All(),
		StreamPlugins: plugins.Streams(),
		Products:      products,
		Enabled:       selection(g.Config),
		Strict:        fromFile(g.Config),
		Router:        routerKind(g.Config.APISIX.Router.HTTP),
		Upstream:      env,
		TLSPorts:      g.tlsPorts(),
		Open:          opener(g.ring, secrets, d.Enable && g.Config.Deployment.Provider() == "etcd"),
		Log:           g.log,
	})
	g.onStop(func(context.Context) error {
		g.state.Close()
		return nil
	})
	return nil
}

// stapling says that ssl objects may ask for OCSP answers.
func (g *Gateway) stapling() bool { return g.state.Current().Enabled("ocsp-stapling", false) }

// connections counts those of clients.
func (g *Gateway) connections() plugin.Connections {
	if g.engine == nil {
		return plugin.Connections{}
	}
	s := g.engine.Stats()
	return plugin.Connections{Accepted: s.Accepted, Requests: s.Requests, Active: int64(s.Active), Busy: int64(s.Busy)}
}

func routerKind(name string) router.Kind {
	switch name {
	case "radixtree_uri":
		return router.URI
	case "radixtree_uri_with_parameter":
		return router.URIWithParameter
	}
	return router.HostURI
}

// revealer returns what a reference to a secret refers to; another text stays as
// it is.
func revealer(env secret.Env) func(string) string {
	return func(text string) string {
		if value, ok := env.Value(text); ok {
			return value
		}
		return text
	}
}

// opener decrypts what the Admin API stored encrypted, if anything is, and
// resolves references to secrets.
func opener(ring *keyring.Ring, env secret.Env, encrypted bool) func(plugin.Spec, []byte, bool) []byte {
	return func(s plugin.Spec, raw []byte, credential bool) []byte {
		schema := s.ConfigSchema()
		if credential {
			schema = s.CredentialSchema()
		}
		if encrypted {
			raw = ring.Open(raw, schema.Secrets())
		}
		return env.Resolve(raw)
	}
}

// openStore connects to the configuration store, or runs it.
func (g *Gateway) openStore(ctx context.Context) error {
	e := &g.Config.Deployment.Etcd
	cfg := etcd.Config{
		Prefix: e.Prefix, Timeout: e.Timeout, WatchTimeout: e.WatchTimeout, ResyncDelay: e.ResyncDelay,
		Log: g.log, Loading: g.sayLoading(),
		Check: etcd.Check{Every: g.Config.Weir.Check.Every, Keys: g.Config.Weir.Check.Keys, State: g.running},
	}
	if g.Config.Embedded {
		return g.openEmbedded(ctx, cfg)
	}
	var err error
	if cfg.TLS, err = etcdTLS(g.Config, g.log); err != nil {
		return err
	}
	cfg.Endpoints, cfg.User, cfg.Password = e.Host, e.User, e.Password.Reveal()
	if g.store, err = etcd.Open(cfg); err != nil {
		return err
	}
	g.onStop(func(context.Context) error { return g.store.Close() })
	g.say("store", "%d etcd %s, prefix %s", len(e.Host), plural(len(e.Host), "endpoint"), e.Prefix)
	return nil
}

// running is the applied state for the store's check.
func (g *Gateway) running() etcd.Running { return running{g.state.Current()} }

// running is a state as far as it is the store's: products have a source of their own.
type running struct{ *snapshot.Snapshot }

func (r running) IDs(k model.Kind) iter.Seq[string] {
	return func(yield func(string) bool) {
		if k == model.KindProduct {
			return
		}
		for o := range r.Objects(k) {
			if !yield(o.ID) {
				return
			}
		}
	}
}

func (r running) Modified(key model.Key) (revision int64, ok bool) {
	o, ok := r.Object(key)
	return o.Modified, ok
}

func (g *Gateway) openEmbedded(ctx context.Context, cfg etcd.Config) error {
	s := &g.Config.Weir.Store
	listen := s.Listen
	if listen == "auto" {
		listen = ""
	}
	server, err := embed.Start(ctx, embed.Config{
		Dir: s.Dir, Listen: listen, Log: slog.New(detail{g.log.Handler()}),
	})
	if err != nil {
		return err
	}
	g.onStop(func(context.Context) error { return server.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	g.onStop(func(context.Context) error {
		cancel()
		return nil
	})
	g.background.Go(func() {
		select {
		case <-server.Failed():
			// What is configured is still served; only changes are impossible.
			g.log.Error("the embedded store failed; the configuration can no longer change", "err", server.Err())
		case <-ctx.Done():
		}
	})
	cfg.Gone = server.Failed()
	g.store = etcd.New(server.Client(), cfg)
	g.onStop(func(context.Context) error { return g.store.Close() })
	url := server.ClientURL()
	if url == "" {
		url = "closed to other processes"
	}
	g.say("etcd", "%s (embedded, data in %s, prefix %s)", url, s.Dir, cfg.Prefix)
	return nil
}

// detail lowers everything to level info. etcd calls much of its ordinary life
// a warning or an error; what concerns the gateway comes from Server.Failed and
// from the calls that fail.
type detail struct{ slog.Handler }

func (d detail) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelInfo)
}

func (d detail) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelInfo
	return d.Handler.Handle(ctx, r)
}

// collectSeldom lets the heap grow further before it is collected, unless an
// operator has set how far, and returns what ends that. Of what is allocated until
// the first state is loaded nearly all stays.
func (g *Gateway) collectSeldom() (end func()) {
	const percent = 400
	if _, set := g.Config.Env("GOGC"); set {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// load follows the source and waits until the first whole state is applied.
func (g *Gateway) load(ctx context.Context) error {
	if g.source == nil {
		close(g.loaded)
		return nil
	}
	g.openCopy(ctx)
	defer g.collectSeldom()()
	follow, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	first := true
	go func() {
		defer close(ended)
		err := g.source.Run(follow, func(d model.Delta) error {
			g.state.Apply(d)
			stale := g.staleSince.Load() != nil
			if first && !stale {
				close(g.loaded)
			}
			g.keepCopy(d, first)
			if first {
				// What reading took is several times what stays.
				g.background.Go(debug.FreeOSMemory)
			}
			first = false
			return nil
		})
		if err != nil {
			g.fail(fmt.Errorf("configuration: %w", err))
		}
	}()
	g.onStop(func(ctx context.Context) error {
		cancel()
		<-ended
		if g.copy == nil {
			return nil
		}
		return g.copy.Close(ctx)
	})
	const patience = 3 * time.Second
	remind := time.NewTicker(patience)
	defer remind.Stop()
	for {
		select {
		case <-g.loaded:
			g.sayLoaded()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-g.failed:
			return err
		case <-remind.C:
			if !g.loading.Load() {
				why := g.sourceStatus().LastError
				if why == "" {
					why = "no answer yet"
				}
				g.say("waiting", "for the configuration: %s", why)
			}
		}
	}
}

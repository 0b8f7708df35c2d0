// Package admin is the Admin API: the write side of the configuration, with the
// paths, bodies and messages of Apache APISIX 3.18.
//
// A write is checked as APISIX checks it, compiled as the gateway will run it,
// stored, and answered when this process serves it.
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/keyring"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/source/declared"
	"weir/internal/source/etcd"
	"weir/internal/source/standalone"
)

// Config says who may do what and how answers look.
type Config struct {
	// Keys open the API. They are asked for if KeyRequired; an entry whose Key is
	// empty opens nothing.
	Keys        []Key
	KeyRequired bool

	Allow   []netip.Prefix // networks that may connect; none: all
	CORS    bool           // let browsers of any origin in, if they have a key
	Version string         // admin_api_version; v3 unless it is something else
	Server  string         // Server header; empty: none
	Stream  bool           // the gateway proxies streams, so there are stream routes

	// Prefix starts the keys in answers, as it does those in the store; empty:
	// "/apisix".
	Prefix string

	// EncryptFields keeps the secrets in plugin configurations encrypted in the
	// store.
	EncryptFields bool

	// AckTimeout bounds how long a write waits to be live; 0: 5 s.
	AckTimeout time.Duration
}

// A Key is one admin_key.
type Key struct {
	Name, Key string
	Role      string // viewer reads; every other role does everything
}

// Deps is what the API works with.
type Deps struct {
	Store   Store // nil if there are Configs
	Applier Applier

	// Configs, if not nil, is the whole configuration, which clients replace as
	// one. The API then has /configs and /configs/validate and nothing else.
	Configs Configs

	View    func() View // the state that requests see now
	Checker *apisix.Checker
	Ring    *keyring.Ring
	Plugins []plugin.Spec // of this build

	StreamPlugins []plugin.StreamSpec // of this build, for stream routes

	Record func(Change) // is told of every write; nil: nobody is

	// Enabled says that a plugin may be configured, in a stream route if stream;
	// nil: all may, outside of stream routes.
	Enabled func(name string, stream bool) bool

	// Reload reads config.yaml's list of plugins anew and returns the revision of
	// the store at which it is in force; nil: it cannot.
	Reload func(context.Context) (int64, error)

	Now func() time.Time
	Log *slog.Logger
}

// A Change is one write, as an audit log needs it.
type Change struct {
	Who      string    // name of the admin key; empty: none was asked for
	Peer     string    // the client's address
	Action   string    // set, create, compareAndSwap, delete, push, reload
	Object   model.Key // of a push, which replaces everything, and a reload: none
	Revision int64
	Live     bool // when it was answered
}

// A Store keeps the objects. Keys are given without the prefix, "/routes/1".
type Store interface {
	Reader
	Writer
}

// A Reader reads the store.
type Reader interface {
	Get(ctx context.Context, key string) (*etcd.KV, int64, error)
	List(ctx context.Context, dir string) ([]etcd.KV, int64, error)
}

// A Writer changes the store.
type Writer interface {
	Put(ctx context.Context, key string, value []byte, opt etcd.PutOptions) (etcd.PutResult, error)
	Delete(ctx context.Context, key string, alsoPrefixes ...string) (etcd.DeleteResult, error)
	NextID(ctx context.Context) (int64, error)
}

// Configs is a configuration that is one document. See package standalone.
type Configs interface {
	Current() *standalone.Document
	Push(digest string, doc *document.Value) (*standalone.Document, error)
}

// An Applier makes what is stored live.
type Applier interface {
	// Check compiles an object without keeping it. The error's text is for the
	// client.
	Check(model.Object) error
	// Wait returns when requests see the given store revision.
	Wait(ctx context.Context, revision int64) error
}

// A View is one state of the configuration.
type View interface {
	// Users are the objects that refer to one.
	Users(model.Key) []Use
	// Owner is who holds a key of an authenticating plugin: a consumer, and the
	// id of its credential unless the consumer holds it itself.
	Owner(plugin, key string) (consumer, credential string, ok bool)
	// Mismatch says that a plugin of an object differs from others of its group.
	Mismatch(model.Object) error
}

// A Use is a reference from one object to another.
type Use = model.Use

// API is the Admin API, an http.Handler.
type API struct {
	cfg       Config
	deps      Deps
	keys      []hashedKey
	resources map[string]*resource
	plugins   map[string]plugin.Spec
	streams   map[string]plugin.StreamSpec
	checker   *declared.Checker
	pages     *http.CrossOriginProtection
}

// New makes the API.
func New(cfg Config, deps Deps) *API {
	if cfg.Version == "" {
		cfg.Version = "v3"
	}
	cfg.CORS = cfg.CORS && cfg.KeyRequired // without keys every page would have the configuration
	if cfg.Prefix == "" {
		cfg.Prefix = "/apisix"
	}
	cfg.Prefix = strings.TrimRight(cfg.Prefix, "/") // as the store does
	if cfg.AckTimeout <= 0 {
		cfg.AckTimeout = 5 * time.Second
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	a := &API{cfg: cfg, deps: deps, keys: hashKeys(cfg.Keys), resources: resources(), plugins: map[string]plugin.Spec{}, streams: map[string]plugin.StreamSpec{}, pages: http.NewCrossOriginProtection()}
	for _, p := range deps.StreamPlugins {
		a.streams[p.Name] = p
	}
	for _, p := range deps.Plugins {
		a.plugins[p.Name] = p
	}
	a.checker = &declared.Checker{
		Documents: deps.Checker, Plugins: a.plugins, Streams: a.streams, Enabled: deps.Enabled, Compile: deps.Applier.Check,
		Versioned: deps.Configs != nil,
	}
	return a
}

const base = "/apisix/admin"

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Server != "" {
		w.Header().Set("Server", a.cfg.Server)
	}
	if !a.allowed(r) {
		http.Error(w, "403 Forbidden", http.StatusForbidden)
		return
	}
	if a.cfg.CORS && r.Method == http.MethodOptions {
		preflight(w.Header())
		w.WriteHeader(http.StatusOK)
		return
	}
	h := w.Header()
	if a.cfg.CORS {
		cors(h)
	}
	h.Set("Content-Type", "application/json")
	if !a.cfg.KeyRequired {
		if err := a.pages.Check(r); err != nil {
			refuse(http.StatusForbidden, "without admin keys, pages of other origins change nothing: %v", err).send(w)
			return
		}
	}
	a.answer(r).send(w)
}

// answer finds out what is asked for.
func (a *API) answer(r *http.Request) answer {
	path := cleanPath(r.URL.Path)
	if path == base && r.Method == http.MethodHead {
		return answer{status: http.StatusOK}
	}
	rest, ours := strings.CutPrefix(path, base+"/")
	if a.deps.Configs != nil {
		return a.standalone(r, rest)
	}
	switch r.Method {
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch:
	default:
		ours = false
	}
	if !ours {
		return answer{status: http.StatusNotFound}
	}
	who, refused := a.admitted(r)
	if refused != nil {
		return *refused
	}
	segments := strings.Split(rest, "/")
	switch {
	case rest == "plugins/reload":
		return a.reload(r, who)
	case rest == "plugins/list" && r.Method == http.MethodGet:
		return a.pluginNames(r.URL.Query())
	case segments[0] == "schema" && len(segments) == 3 && segments[1] == "validate" && r.Method == http.MethodPost:
		return a.validate(r, segments[2])
	case rest == "configs/validate" && r.Method == http.MethodPost:
		return a.validateConfigs(r)
	}
	return a.dispatch(r, who, segments)
}

// allowed is the list of addresses that may connect.
func (a *API) allowed(r *http.Request) bool {
	if len(a.cfg.Allow) == 0 {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, n := range a.cfg.Allow {
		if n.Contains(peer.Addr().Unmap()) {
			return true
		}
	}
	return false
}

func cors(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "*")
	h.Set("Access-Control-Max-Age", "3600")
}

func preflight(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "POST, GET, PUT, OPTIONS, DELETE, PATCH")
	h.Set("Access-Control-Max-Age", "3600")
	h.Set("Access-Control-Allow-Headers", "*")
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Content-Length", "0")
	h.Set("Content-Type", "text/plain")
}

// Package app puts a gateway together from its configuration: it constructs
// and starts every part and stops them in the reverse order.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/accesslog"
	"weir/internal/config"
	"weir/internal/dialect/apisix"
	"weir/internal/discovery"
	"weir/internal/engine"
	"weir/internal/engine/l4"
	"weir/internal/keyring"
	"weir/internal/listen"
	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/resolve"
	"weir/internal/snapshot"
	"weir/internal/source/etcd"
	"weir/internal/source/file"
	"weir/internal/source/saved"
	"weir/internal/source/standalone"
)

// Options is what Start needs.
type Options struct {
	Config  *config.Config
	APIcast *config.APIcast // of products of 3scale; nil: none are served
	Version string
	Out     io.Writer // gets the lines about the start
	ShowKey bool      // a generated Admin key may be shown on Out
	Example bool      // run an upstream and configure a route to it
}

// A Gateway is a running gateway.
type Gateway struct {
	Options
	log *slog.Logger

	errorLog  *accesslog.ErrorLog
	accessLog *accesslog.Log

	audit audit

	id        string // of this instance
	documents *apisix.Checker
	keys      []key
	ring      *keyring.Ring
	store     *etcd.Store        // one of these three is not nil,
	pushed    *standalone.Source // and source is the same
	file      *file.Source
	source    source
	state     *snapshot.Applier
	meter     *meter.Registry

	registries []*discovery.Registry
	account    *account       // of 3scale; nil: none
	resolver   *resolve.Cache // of the names of upstreams

	began    time.Time
	loading  atomic.Bool   // objects have come from the store
	loaded   chan struct{} // the first whole state is applied
	ready    atomic.Bool
	stopping atomic.Bool

	profiling  sync.Mutex    // what a profile turns on is the process's
	explaining chan struct{} // has room for one explanation

	sockets     *listen.Sockets
	room        *listen.Room
	engine      *engine.Engine
	streams     *l4.Engine // nil: streams are not proxied
	streamLog   *accesslog.Log
	copy        *saved.Copy               // of an external store's configuration; nil: none
	staleSince  atomic.Pointer[time.Time] // when the copy that is served was current; nil: it is not served
	data        []net.Listener
	dataURLs    []string // of data, in the same order
	admin       net.Listener
	control     net.Listener
	status      net.Listener
	metrics     net.Listener
	echo        net.Listener
	streamAddrs []net.Addr
	background  sync.WaitGroup // servers and watchers; each has a step that ends it

	stops  []func(context.Context) error // in the order of the start
	failed chan error
}

// Start runs a gateway and returns once it serves. ctx bounds only the start.
// What was started is stopped again when something fails.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	g := &Gateway{Options: o, began: time.Now(), loaded: make(chan struct{}), explaining: make(chan struct{}, 1), failed: make(chan error, 1)}
	if n := int(o.Config.Nginx.Processes); n > 0 {
		runtime.GOMAXPROCS(n)
	}
	for _, step := range []func(context.Context) error{
		g.openLogs, g.openSockets, g.openAudit, g.openInstance, g.openKeys, g.openAccount, g.openState, g.startDiscovery, g.openSource,
		g.openControl, g.openStatus, g.load, g.loadProducts, g.settlePlugins, g.openServerInfo,
		g.openEngine, g.openStream, g.openProducts, g.openManagement, g.openMetrics, g.openEcho, g.openAdmin, g.settleSockets,
	} {
		if err := step(ctx); err != nil {
			gone, cancel := context.WithCancel(context.WithoutCancel(ctx))
			cancel()
			return nil, errors.Join(err, g.Stop(gone))
		}
	}
	g.ready.Store(true)
	g.sayReady()
	g.notify("READY=1")
	if o.Example {
		if err := g.example(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("example: %w", err), g.Stop(ctx))
		}
	}
	return g, nil
}

// Failed delivers the error of a part without which the gateway cannot go on.
func (g *Gateway) Failed() <-chan error { return g.failed }

// Stop ends the gateway: requests that have begun are finished until ctx ends
// and cut then.
func (g *Gateway) Stop(ctx context.Context) error {
	g.stopping.Store(true)
	g.notify("STOPPING=1")
	if g.ready.Swap(false) {
		select { // load balancers see it before anything is closed
		case <-time.After(g.Config.Weir.ShutdownDelay):
		case <-ctx.Done():
		}
	}
	if g.sockets != nil {
		g.sockets.HandOver(ctx)
	}
	var errs []error
	for i := len(g.stops) - 1; i >= 0; i-- {
		if err := g.stops[i](ctx); err != nil && !errors.Is(err, ctx.Err()) {
			errs = append(errs, err)
		}
	}
	g.background.Wait()
	g.stops = nil
	return errors.Join(errs...)
}

// onStop makes f a part of Stop. Later ones run earlier.
func (g *Gateway) onStop(f func(context.Context) error) { g.stops = append(g.stops, f) }

// fail reports that a part ended by itself.
func (g *Gateway) fail(err error) {
	select {
	case g.failed <- err:
	default:
	}
}

// Reopen opens the logs anew, after they were moved away.
func (g *Gateway) Reopen() error {
	var products error
	if g.account != nil {
		products = g.account.accessLog.Reopen()
	}
	return errors.Join(g.errorLog.Reopen(), g.audit.reopen(), g.accessLog.Reopen(), g.streamLog.Reopen(), g.state.Reopen(), products)
}

// Data are the addresses that serve requests.
func (g *Gateway) Data() []net.Addr {
	out := make([]net.Addr, len(g.data))
	for i, l := range g.data {
		out[i] = l.Addr()
	}
	return out
}

// Control is the address of the Control API; nil: it is off.
func (g *Gateway) Control() net.Addr { return addrOf(g.control) }

// Status is the address of the status server; nil: it is off.
func (g *Gateway) Status() net.Addr { return addrOf(g.status) }

// Admin is the address of the Admin API; nil: it is off.
func (g *Gateway) Admin() net.Addr { return addrOf(g.admin) }

func addrOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

func (g *Gateway) openLogs(context.Context) error {
	n := &g.Config.Nginx
	level, err := accesslog.ParseLevel(n.ErrorLogLevel)
	if err != nil {
		return err
	}
	if g.errorLog, err = accesslog.OpenErrorLog(n.ErrorLog, level); err != nil {
		return err
	}
	g.onStop(func(context.Context) error { return g.errorLog.Close() })
	g.log = g.errorLog.Logger()
	g.sayStart()
	if !n.HTTP.Log.Enable {
		return nil
	}
	g.accessLog, err = accesslog.Open(accesslog.Config{
		Path: n.HTTP.Log.Path, Format: n.HTTP.Log.Format, Escape: n.HTTP.Log.Escape,
		BufferSize: int(n.HTTP.Log.Buffer), Log: g.log,
	})
	if err != nil {
		return err
	}
	g.onStop(func(context.Context) error { return g.accessLog.Close() })
	return nil
}

// objects counts the applied state.
func (g *Gateway) objects() (counts map[string]int, sum int) {
	counts = map[string]int{}
	s := g.state.Current()
	for k := range model.KindCount {
		n := s.Count(k)
		counts[k.Dir()] = n
		sum += n
	}
	return counts, sum
}

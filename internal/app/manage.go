package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/echo"
	"weir/internal/management"
	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/policies"
	"weir/internal/resolve"
	"weir/internal/threescale"
)

// newManagement makes the management API, and makes it known to policies.
func (g *Gateway) newManagement(a *account) error {
	manifests, err := management.Manifests(policies.All(), a.config.PolicyPath, g.log)
	if err != nil {
		return fmt.Errorf("manifests of policies: %w", err)
	}
	a.api = management.New(management.Config{
		Mode: a.config.Management, Limit: int64(a.config.Portal.Limit), Source: a.source, Names: g.knownNames,
		Manifests: func() json.RawMessage { return manifests },
		Faults:    g.productFaults,
	})
	a.runtime.Manage = func(ctx context.Context, mode, method, path string, body func(int64) ([]byte, error)) threescale.Managed {
		out := a.api.Answer(ctx, mode, method, path, body)
		return threescale.Managed{Status: out.Status, Type: out.Type, Body: out.Body}
	}
	return nil
}

// productFaults are the products that do not run as configured.
func (g *Gateway) productFaults() map[string]string {
	out := map[string]string{}
	prefix := model.KindProduct.Dir() + "/"
	for path, err := range g.state.Current().Faults {
		if id, is := strings.CutPrefix(path, prefix); is {
			out[id] = err.Error()
		}
	}
	for id, err := range g.account.source.Broken() {
		out[id] = err.Error()
	}
	return out
}

// openManagement serves the management API and the metrics of products.
func (g *Gateway) openManagement(ctx context.Context) error {
	a := g.account
	if a == nil {
		return nil
	}
	g.describeProducts()
	var err error
	if a.admin, err = g.serve(ctx, "management", ":"+strconv.Itoa(a.config.Ports.Management), a.api, nil); err != nil {
		return err
	}
	a.metrics, err = g.serve(ctx, "metrics", ":"+strconv.Itoa(a.config.Ports.Metrics), metricsHandler(a.meter), nil)
	return err
}

// mockAddr is where products that name no backend look for it.
const mockAddr = "127.0.0.1:8081"

// openMock starts, in the environment development, the backend and the upstream
// that APIcast has for trying it out. Elsewhere the address is nobody's: a backend
// that authorizes everything must not be had by mistake.
func (g *Gateway) openMock(ctx context.Context) error {
	if !g.account.config.Portal.Development {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", mockAddr)
	if errors.Is(err, syscall.EADDRINUSE) {
		g.log.Warn("no mock backend: the address is taken", "addr", mockAddr)
		return nil
	}
	if err != nil {
		return fmt.Errorf("mock backend: %w", err)
	}
	run, cancel := context.WithCancel(context.Background())
	g.onStop(func(context.Context) error {
		cancel()
		return nil
	})
	g.background.Go(func() {
		if err := echo.ServeWith(run, l, echo.Plain()); err != nil {
			g.fail(fmt.Errorf("mock backend: %w", err))
		}
	})
	g.say("mock", "http://%s, authorizes everything (environment development)", l.Addr())
	return nil
}

// metricsHandler exposes m at /metrics and below, as APIcast does.
func metricsHandler(m *meter.Registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/metrics") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", meter.ContentType)
		_ = m.Expose(w, "") // a client that has left does not want to know
	})
}

// knownNames is what the resolver knows, in the form of APIcast's cache: answers
// by name and type of record.
func (g *Gateway) knownNames() json.RawMessage {
	type record struct {
		Address string `json:"address"`
		Class   int    `json:"class"`
		Name    string `json:"name"`
		Section int    `json:"section"`
		TTL     int    `json:"ttl"`
		Type    int    `json:"type"`
	}
	type entry struct {
		Value   map[string]any `json:"value"`
		Expires float64        `json:"expires_in"`
	}
	all := map[string]entry{}
	now := time.Now()
	g.resolver.Each(func(name string, answer *resolve.Answer, until time.Time) {
		left := until.Sub(now).Seconds()
		values := map[string]any{"name": name, "ttl": int(answer.TTL.Seconds()), "type": 1}
		for i, r := range answer.Records {
			values[strconv.Itoa(i+1)] = record{
				Address: r.Addr.String(), Class: 1, Name: name, Section: 1, TTL: int(answer.TTL.Seconds()), Type: 1,
			}
		}
		all[name+":1"] = entry{values, left}
	})
	raw, err := json.Marshal(all)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// Products are the addresses that serve products of 3scale.
func (g *Gateway) Products() (out []net.Addr) {
	if g.account != nil {
		for _, l := range g.account.listeners {
			out = append(out, l.Addr())
		}
	}
	return out
}

// Management is the address of 3scale's management API; nil: it is off.
func (g *Gateway) Management() net.Addr {
	if g.account == nil {
		return nil
	}
	return addrOf(g.account.admin)
}

// ProductMetrics is the address of the metrics of products; nil: there are none.
func (g *Gateway) ProductMetrics() net.Addr {
	if g.account == nil {
		return nil
	}
	return addrOf(g.account.metrics)
}

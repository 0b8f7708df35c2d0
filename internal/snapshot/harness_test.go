package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/plugins/keyauth"
	"weir/internal/upstream"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// live counts the compiled configurations of the test plugins that are open.
type live struct{ n atomic.Int64 }

type tagConf struct {
	V int `json:"v" schema:"default=0" doc:"Negative does not compile."`
}

// tag makes a test plugin that adds V to a reply header.
func (l *live) tag(name string, priority int, guard bool) plugin.Spec {
	return plugin.Define(
		plugin.Meta{Name: name, Priority: priority, Guard: guard, Doc: "Test plugin."},
		func(c *tagConf, env plugin.Env) (plugin.Phases, error) {
			if c.V < 0 {
				return plugin.Phases{}, errors.New("v is negative")
			}
			l.n.Add(1)
			value := env.Owner + "=" + string(rune('a'+c.V%26))
			return plugin.Phases{
				Access: func(x *plugin.Ctx) *plugin.Reply { x.SetReplyHeader(name, value); return nil },
				Close:  func() { l.n.Add(-1) },
			}, nil
		},
	)
}

type metaData struct {
	M int `json:"m" schema:"default=0" doc:"Shown by the plugin."`
}

// meta makes a test plugin that shows its metadata.
func (l *live) meta() plugin.Spec {
	return plugin.Define(plugin.Meta{Name: "meta", Priority: 5, Doc: "Test plugin."},
		func(c *tagConf, env plugin.Env) (plugin.Phases, error) {
			m, err := plugin.DecodeMetadata[metaData](env)
			if err != nil {
				return plugin.Phases{}, err
			}
			if c.V < 0 {
				return plugin.Phases{}, errors.New("v is negative")
			}
			l.n.Add(1)
			value := fmt.Sprintf("%s=%d/%d", env.Owner, c.V, m.M)
			return plugin.Phases{
				Access: func(x *plugin.Ctx) *plugin.Reply { x.SetReplyHeader("meta", value); return nil },
				Close:  func() { l.n.Add(-1) },
			}, nil
		}, plugin.Metadata[metaData]())
}

// A bench is an applier with its own plugins and pools.
type bench struct {
	*Applier
	t        testing.TB
	live     *live
	revision int64
}

func newBench(t testing.TB) *bench {
	l := new(live)
	pools := upstream.NewPools()
	log := slog.New(slog.DiscardHandler)
	a := New(Config{
		Plugins:  []plugin.Spec{keyauth.Plugin, l.tag("tag", 10, false), l.tag("gate", 20, true), l.meta()},
		Upstream: upstream.Env{Pools: pools, Log: log},
		Log:      log,
	})
	t.Cleanup(func() {
		a.Close()
		pools.Close()
		if n := l.n.Load(); n != 0 {
			t.Errorf("%d plugin configurations were never closed", n)
		}
	})
	return &bench{Applier: a, t: t, live: l}
}

func keyOf(path string) model.Key {
	dir, id, _ := strings.Cut(path, "/")
	if strings.Contains(id, "/credentials/") {
		return model.Key{Kind: model.KindCredential, ID: id}
	}
	for k := range model.KindCount {
		if k.Dir() == dir {
			return model.Key{Kind: k, ID: id}
		}
	}
	panic(path)
}

// put applies objects, given as path and JSON, in one delta.
func (b *bench) put(objects ...string) {
	b.revision++
	d := model.Delta{Revision: b.revision}
	for i := 0; i < len(objects); i += 2 {
		k := keyOf(objects[i])
		o := model.Object{Key: k, Created: b.revision, Modified: b.revision, Raw: []byte(objects[i+1])}
		if old, ok := b.Current().Object(k); ok {
			o.Created = old.Created
		}
		d.Put = append(d.Put, o)
	}
	b.Apply(d)
}

func (b *bench) del(paths ...string) {
	b.revision++
	d := model.Delta{Revision: b.revision}
	for _, p := range paths {
		d.Del = append(d.Del, keyOf(p))
	}
	b.Apply(d)
}

// match returns the route of a GET.
func match(s *Snapshot, host, path string) *Route {
	return s.Match(&plugin.Ctx{Request: &wire.Request{Method: "GET", Host: host}, Path: path, Client: "127.0.0.1"})
}

// runAs is what global rules, route and consumer set together.
func runAs(s *Snapshot, r *Route, consumer *plugin.Consumer) string {
	global, open := s.Global()
	if !open {
		return "closed"
	}
	run := plan.Run{Global: global}
	if r != nil {
		run.Route = r.Plan
	}
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET"}}
	if run.Rewrite(c) != nil {
		return "reply"
	}
	if consumer != nil {
		if fault := s.Attach(&run, consumer); fault != 0 {
			return "fault"
		}
	}
	if run.Access(c) != nil {
		return "reply"
	}
	return said(c)
}

func said(c *plugin.Ctx) string {
	var out []string
	for _, h := range c.ReplyHeader() {
		out = append(out, h[0]+": "+h[1])
	}
	return strings.Join(out, ", ")
}

// run is what the request phases of a route set, one "name: value" each.
func run(r *Route) string {
	if r == nil {
		return "none"
	}
	if r.Fault != 0 {
		return "fault"
	}
	c := &plugin.Ctx{Request: &wire.Request{Method: "GET"}}
	run := plan.Run{Route: r.Plan}
	if run.Rewrite(c) != nil || run.Access(c) != nil {
		return "reply"
	}
	return said(c)
}

const node = `"upstream":{"nodes":{"127.0.0.1:1":1},"type":"roundrobin"}`

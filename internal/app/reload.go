package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"weir/internal/config"
	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/snapshot"
	"weir/internal/source/etcd"
)

// selection is the choice of plugins that config.yaml makes.
func selection(c *config.Config) snapshot.Selection {
	return snapshot.Selection{Names: c.Plugins, StreamNames: c.StreamPlugins, Attr: c.PluginAttr}
}

// reload reads anew from config.yaml which plugins are enabled and how they are
// set up, and tells the other gateways at the store. It returns the revision at
// which that is in force here.
func (g *Gateway) reload(ctx context.Context) (revision int64, err error) {
	c, err := config.Load(g.Config.File, os.Environ())
	if err != nil {
		return 0, err
	}
	s := selection(c)
	g.state.Enable(s)
	g.log.Info("plugins reloaded", "file", c.File)
	return g.sharePlugins(ctx, s)
}

// pluginsKey is the list's in the store.
const pluginsKey = "/plugins"

// sharePlugins puts the list of plugins into the store, where it holds for every
// gateway that follows it. Of two that write at the same time the later counts.
func (g *Gateway) sharePlugins(ctx context.Context, s snapshot.Selection) (revision int64, err error) {
	if g.store == nil || !g.Config.APISIX.EnableAdmin {
		return g.state.Current().Revision, nil
	}
	if s.Names == nil && s.StreamNames == nil {
		res, err := g.store.Delete(ctx, pluginsKey)
		return res.Revision, err
	}
	res, err := g.store.Put(ctx, pluginsKey, pluginList(s), etcd.PutOptions{})
	return res.Revision, err
}

// pluginList is the list as APISIX stores it. Where config.yaml lists none, all
// of APISIX's are meant.
func pluginList(s snapshot.Selection) []byte {
	list := &document.Value{Kind: document.Array}
	add := func(names []string, stream bool) {
		for _, name := range names {
			p := document.NewObject()
			p.Set("name", document.NewString(name))
			if stream {
				p.Set("stream", &document.Value{Kind: document.Bool, Text: "true"})
			}
			list.Items = append(list.Items, p)
		}
	}
	if s.Names == nil {
		s.Names = apisix.PluginNames()
	}
	if s.StreamNames == nil {
		s.StreamNames = apisix.StreamPluginNames()
	}
	add(s.Names, false)
	add(s.StreamNames, true)
	return list.Append(nil)
}

// settlePlugins replaces a list in the store that is not the one that config.yaml
// has, as APISIX does when it starts: it is what a reload left behind.
func (g *Gateway) settlePlugins(ctx context.Context) error {
	s := selection(g.Config)
	stored, there := g.state.Current().Object(model.Key{Kind: model.KindPlugins})
	listed := s.Names != nil || s.StreamNames != nil
	if g.store == nil || !g.Config.APISIX.EnableAdmin || !there || listed && samePlugins(stored.Raw, pluginList(s)) {
		return nil
	}
	revision, err := g.sharePlugins(ctx, s)
	if err != nil {
		return fmt.Errorf("list of plugins: %w", err)
	}
	g.log.Warn("the list of plugins in the store was replaced by that of config.yaml", "revision", revision)
	return g.state.Wait(ctx, revision)
}

// samePlugins says that two lists mean the same.
func samePlugins(a, b []byte) bool {
	type entry struct {
		Name   string `json:"name"`
		Stream bool   `json:"stream"`
	}
	set := func(raw []byte) map[entry]bool {
		var list []entry
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
		m := map[entry]bool{}
		for _, e := range list {
			m[e] = true
		}
		return m
	}
	x, y := set(a), set(b)
	if len(x) != len(y) {
		return false
	}
	for e := range x {
		if !y[e] {
			return false
		}
	}
	return x != nil || bytes.Equal(a, b)
}

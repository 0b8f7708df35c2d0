package snapshot

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/staple"
)

// A compiler turns documents into what runs. It keeps nothing.
type compiler struct {
	config  Config
	specs   plan.Specs
	keeper  *plugin.Keeper
	staples *staple.Stapler
	env     plan.Env
	empty   *plan.Plan // of no plugins

	all       plan.Specs // of this build; specs are those that are enabled
	enabled   Selection
	endpoints map[string][]plugin.Endpoint // of the enabled ones

	policies plan.Specs // of 3scale products

	allStreams, streamSpecs plan.StreamSpecs // as all and specs, of stream routes
}

// newEnv is what plugins are compiled with.
func (x *compiler) newEnv(ctx context.Context) plan.Env {
	return plan.Env{
		Env: plugin.Env{
			Context:  ctx,
			Keep:     x.keeper.Uses(),
			Now:      x.config.Now,
			Rand:     rand.Float64,
			Log:      x.config.Log,
			Upstream: x.pluginUpstream,
			Reach:    x.reach,
			Version:  x.config.Version,
			ID:       x.config.ID,
			Meter:    x.config.Meter,
			Files:    new(plugin.Files),
			TLSPorts: x.config.TLSPorts,

			Connections: x.config.Connections,
		},
		Open: func(s plugin.Spec, raw []byte) []byte { return x.config.Open(s, raw, false) },
	}
}

// pluginUpstream compiles an upstream that stands in a plugin's configuration.
func (x *compiler) pluginUpstream(raw json.RawMessage) (plugin.Upstream, error) {
	m, err := apisix.InlineUpstream(raw)
	if err != nil {
		return nil, err
	}
	return x.reach(m)
}

// reach compiles an upstream that a plugin has put together.
func (x *compiler) reach(m *model.Upstream) (plugin.Upstream, error) {
	u, err := x.newUpstream(m, "", 0)
	if err != nil {
		return nil, err
	}
	return u, nil
}

// Reopen opens the files of all plugins anew, after they were moved away.
func (a *Applier) Reopen() error { return a.env.Files.Reopen() }

// exists is plugin.Env's Exists.
func (s *Snapshot) exists(object string) (ok bool) {
	dir, id, _ := strings.Cut(object, "/")
	switch dir {
	case model.KindRoute.Dir():
		_, ok = s.routes.Get(id)
	case model.KindService.Dir():
		_, ok = s.services.Get(id)
	case model.KindUpstream.Dir():
		_, ok = s.upstreams.Get(id)
	case model.KindConsumer.Dir():
		_, ok = s.records[model.KindConsumer].Get(id)
	case model.KindGlobalRule.Dir():
		_, ok = s.sets[model.KindGlobalRule].Get(id)
	}
	return ok
}

// metadata is a plugin's metadata, nil if there is none.
func (s *Snapshot) metadata(name string) json.RawMessage {
	if d, ok := s.documents[model.KindPluginMetadata].Get(name); ok {
		return d.used
	}
	return nil
}

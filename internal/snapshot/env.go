package snapshot

import (
	"context"
	"encoding/json"
	"math/rand/v2"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
)

// A compiler turns documents into what runs. It keeps nothing.
type compiler struct {
	config Config
	specs  plan.Specs
	keeper *plugin.Keeper
	env    plan.Env
	empty  *plan.Plan // of no plugins

	all       plan.Specs // of this build; specs are those that are enabled
	enabled   Selection
	endpoints map[string][]plugin.Endpoint // of the enabled ones
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
			TLSPorts: x.config.TLSPorts,
		},
		Open: func(s plugin.Spec, raw []byte) []byte { return x.config.Open(s, raw, false) },
	}
}

// pluginUpstream compiles an upstream that stands in a plugin's configuration.
func (x *compiler) pluginUpstream(raw json.RawMessage) (plugin.Upstream, error) {
	m, err := apisix.Upstream("", raw)
	if err != nil {
		return nil, err
	}
	u, err := x.newUpstream(m, "", 0)
	if err != nil {
		return nil, err
	}
	return u, nil
}

// metadata is a plugin's metadata, nil if there is none.
func (s *Snapshot) metadata(name string) json.RawMessage {
	if o, ok := s.documents[model.KindPluginMetadata].Get(name); ok {
		return o.Raw
	}
	return nil
}

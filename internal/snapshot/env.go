package snapshot

import (
	"context"
	"encoding/json"
	"slices"

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
}

// newEnv is what plugins are compiled with.
func (x *compiler) newEnv(ctx context.Context) plan.Env {
	env := plan.Env{
		Env: plugin.Env{
			Context:  ctx,
			Keep:     x.keeper.Uses(),
			Now:      x.config.Now,
			Log:      x.config.Log,
			Upstream: x.pluginUpstream,
			TLSPorts: x.config.TLSPorts,
		},
		Specs: x.specs,
		Open:  func(s plugin.Spec, raw []byte) []byte { return x.config.Open(s, raw, false) },
		Attr:  x.config.Attr,
	}
	endpoints := endpointsOf(x.config.Plugins, env)
	env.Endpoint = func(method, path string) func(*plugin.Ctx) *plugin.Reply {
		for _, e := range endpoints {
			if e.Path == path && slices.Contains(e.Methods, method) {
				return e.Serve
			}
		}
		return nil
	}
	return env
}

func endpointsOf(specs []plugin.Spec, env plan.Env) []plugin.Endpoint {
	var all []plugin.Endpoint
	for _, s := range specs {
		e := env.Env
		e.Attr = env.Attr[s.Name]
		all = append(all, s.Endpoints(e)...)
	}
	return all
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

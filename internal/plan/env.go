package plan

import (
	"encoding/json"

	"weir/internal/plugin"
)

// Env is what compiling plugins needs. The embedded Env is passed on to them
// with its per-plugin fields set.
type Env struct {
	plugin.Env

	// Specs are used for plugins that contain plugins.
	Specs Specs

	// Open returns a configuration with its secrets readable; nil: as it is.
	Open func(plugin.Spec, []byte) []byte

	// Metadata returns a plugin's metadata; nil: there is none.
	Metadata func(name string) json.RawMessage

	// Attr is plugin_attr of config.yaml.
	Attr map[string]json.RawMessage
}

func (e Env) open(s plugin.Spec, raw []byte) []byte {
	if e.Open == nil {
		return raw
	}
	return e.Open(s, raw)
}

// of is the environment of one plugin.
func (e Env) of(s Spec) plugin.Env {
	p := e.Env
	p.Attr = e.Attr[s.Name]
	if e.Metadata != nil && s.MetadataSchema() != nil {
		p.Metadata = e.Metadata(s.Name)
	}
	p.Plugin = e.Specs.meta
	p.Compile = func(name string, conf json.RawMessage) (plugin.Phases, error) {
		return e.nested(p, name, conf)
	}
	return p
}

// nested compiles a plugin on behalf of another.
func (e Env) nested(outer plugin.Env, name string, conf json.RawMessage) (plugin.Phases, error) {
	spec, known := e.Specs[name]
	if !known {
		return plugin.Phases{}, &Fault{Conf: Conf{Plugin: name, Owner: outer.Owner, Raw: conf}, Unknown: true}
	}
	inner := e
	inner.Env = outer
	part, err := compile(spec, Conf{Plugin: name, Owner: outer.Owner, Raw: conf}, inner)
	return part.Phases, err
}

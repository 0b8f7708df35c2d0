// Package realip takes the client's address from where a proxy reports it.
package realip

import (
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "real-ip", Priority: 23000, Doc: "Takes the client's address from a header or another variable."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Trusted   schema.Addresses `json:"trusted_addresses" schema:"minItems=1" doc:"Addresses and networks whose reports count; without it everybody's do."`
	Source    string           `json:"source"            schema:"required,minLen=1" doc:"Variable with the address, perhaps with a port: http_x_forwarded_for, arg_realip. Of X-Forwarded-For the last address counts."`
	Recursive bool             `json:"recursive"         schema:"default=false" doc:"Of X-Forwarded-For the last address counts that is not itself trusted."`
}

// A reader is a compiled configuration.
type reader struct {
	trusted   *expr.Networks // nil: all
	source    expr.Var
	chain     bool // the source is X-Forwarded-For
	recursive bool
	env       plugin.Env
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	r := &reader{chain: c.Source == "http_x_forwarded_for", recursive: c.Recursive, env: env}
	var err error
	if c.Trusted != nil {
		if r.trusted, err = expr.CompileNetworks(c.Trusted); err != nil {
			return plugin.Phases{}, err
		}
	}
	if r.source, err = expr.Variable(c.Source); err != nil {
		return plugin.Phases{}, err
	}
	return plugin.Phases{Rewrite: r.rewrite}, nil
}

func (r *reader) rewrite(c *plugin.Ctx) *plugin.Reply {
	if r.trusted != nil && !r.trusted.Contain(c.Client) {
		return nil
	}
	text, ok := r.reported(c)
	if !ok {
		r.env.Log.Debug("real-ip: missing real address", "owner", r.env.Owner)
		return nil
	}
	who, ok := plugin.ParseClient(text)
	if !ok {
		r.env.Log.Warn("real-ip: bad address", "owner", r.env.Owner, "address", strings.Clone(text))
		return nil
	}
	c.SetClient(who)
	return nil
}

// reported is the address as the source has it.
func (r *reader) reported(c *plugin.Ctx) (string, bool) {
	if !r.chain {
		return r.source.Value(c)
	}
	list, ok := last(&c.Request.Header)
	if !ok {
		return "", false
	}
	for more := true; more; {
		var item string
		i := strings.LastIndexByte(list, ',')
		item, more = strings.TrimLeft(list[i+1:], " "), i >= 0
		if !more || !r.recursive || r.trusted == nil || !r.trusted.Contain(item) {
			return item, true
		}
		list = list[:i]
	}
	return "", false
}

// last is the last X-Forwarded-For.
func last(h *wire.Header) (value string, ok bool) {
	fields := h.Fields()
	for i := len(fields) - 1; i >= 0; i-- {
		if f := &fields[i]; !f.Dropped && wire.EqualFold(f.Name, "X-Forwarded-For") {
			return f.Value, true
		}
	}
	return "", false
}

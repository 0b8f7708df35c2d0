// Package iprestriction admits or refuses clients by their IP address.
package iprestriction

import (
	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// meta is immutable.
var meta = plugin.Meta{
	Name: "ip-restriction", Priority: 3000, Guard: true,
	Doc: "Admits only listed IP addresses and networks, or refuses listed ones.",
}

// Plugin is the plugin.
var Plugin = plugin.Define(meta, compile, plugin.Shared())

// Stream is the plugin of stream routes.
var Stream = plugin.DefineStream(meta, compileStream)

// Config is the configuration on a route.
type Config struct {
	Message      string           `json:"message"       schema:"minLen=1,maxLen=1024,default=Your IP address is not allowed" doc:"Message in the body of a refusal."`
	ResponseCode int              `json:"response_code" schema:"min=403,max=404,default=403" doc:"Status of a refusal."`
	Whitelist    schema.Addresses `json:"whitelist"     schema:"minItems=1" doc:"Addresses and networks that are admitted; all others are refused."`
	Blacklist    schema.Addresses `json:"blacklist"     schema:"minItems=1" doc:"Addresses and networks that are refused; all others are admitted."`
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.ExactlyOne([]string{"whitelist"}, []string{"blacklist"})}
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	admit, list := true, c.Whitelist
	if list == nil {
		admit, list = false, c.Blacklist
	}
	nets, err := expr.CompileNetworks(list)
	if err != nil {
		return plugin.Phases{}, err
	}
	refusal := plugin.JSON(c.ResponseCode, map[string]string{"message": c.Message})
	access := func(r *plugin.Ctx) *plugin.Reply {
		if nets.Contain(r.Client) != admit {
			return refusal
		}
		return nil
	}
	return plugin.Phases{Access: access}, nil
}

func compileStream(c *Config, env plugin.Env) (plugin.Stream, error) {
	p, err := compile(c, env)
	if err != nil {
		return plugin.Stream{}, err
	}
	return plugin.Stream{Preread: func(s *plugin.StreamCtx) *plugin.Reply { return p.Access(&s.Ctx) }}, nil
}

// Package uarestriction admits or refuses clients by their User-Agent.
package uarestriction

import (
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{
		Name: "ua-restriction", Priority: 2999, Guard: true,
		Doc: "Admits only clients whose User-Agent matches a regular expression, or refuses those.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	BypassMissing bool     `json:"bypass_missing" schema:"default=false" doc:"Admit requests without User-Agent."`
	Allowlist     []string `json:"allowlist"      schema:"minItems=1,each.minLen=1" doc:"Regular expressions; who matches none is refused."`
	Denylist      []string `json:"denylist"       schema:"minItems=1,each.minLen=1" doc:"Regular expressions; who matches one is refused."`
	Message       string   `json:"message"        schema:"minLen=1,maxLen=1024,default=Not allowed" doc:"Message in the body of a refusal."`
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.ExactlyOne([]string{"allowlist"}, []string{"denylist"})}
}

// A filter is a compiled configuration.
type filter struct {
	patterns []*expr.Pattern
	admit    bool // what a match means
	missing  bool // who has no User-Agent is admitted
	refusal  *plugin.Reply
	env      plugin.Env
}

var undecided = &plugin.Reply{Status: 500}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	f := &filter{
		admit: c.Allowlist != nil, missing: c.BypassMissing, env: env,
		refusal: plugin.JSON(403, map[string]string{"message": c.Message}),
	}
	list := c.Allowlist
	if !f.admit {
		list = c.Denylist
	}
	for _, rule := range list {
		p, err := expr.CompilePattern(rule, false)
		if err != nil {
			return plugin.Phases{}, err
		}
		f.patterns = append(f.patterns, p)
	}
	return plugin.Phases{Access: f.access}, nil
}

// access looks at every User-Agent: one that matches decides.
func (f *filter) access(c *plugin.Ctx) *plugin.Reply {
	there := false
	fields := c.Request.Header.Fields()
	for i := range fields {
		if h := &fields[i]; h.Dropped || !wire.EqualFold(h.Name, "User-Agent") {
			continue
		}
		there = true
		agent := strings.TrimSpace(fields[i].Value)
		for _, p := range f.patterns {
			switch matches, err := p.Match(agent); {
			case err != nil:
				f.env.Log.Error("ua-restriction: a rule was not decided in time", "owner", f.env.Owner, "err", err)
				return undecided
			case matches:
				return f.verdict(f.admit)
			}
		}
	}
	if !there {
		return f.verdict(f.missing)
	}
	return f.verdict(!f.admit)
}

func (f *filter) verdict(admit bool) *plugin.Reply {
	if admit {
		return nil
	}
	return f.refusal
}

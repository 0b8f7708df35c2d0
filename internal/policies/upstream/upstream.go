// Package upstream sends requests to other upstreams by their path.
package upstream

import (
	"errors"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is upstream.
var Policy = plugin.Define(
	plugin.Meta{Name: "upstream", Before: []string{"apicast"}, Doc: "Sends requests to other upstreams by their path."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Rules []Rule `json:"rules" doc:"The first one that matches is applied."`
}

// A Rule says where the requests for a path go.
type Rule struct {
	Regex string `json:"regex" schema:"required" doc:"PCRE pattern that is looked for in the path."`
	URL   string `json:"url" schema:"required" doc:"URL of the upstream."`
}

// A rule is a compiled Rule.
type rule struct {
	pattern  *expr.Pattern
	upstream *threescale.Upstream
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	var rules []rule
	for i, r := range c.Rules {
		u, err := threescale.NewUpstream(r.URL)
		pattern, other := expr.CompilePattern(r.Regex, false)
		if err = errors.Join(err, other); err != nil { // the others work
			env.Log.Warn("a rule of the policy upstream is left out", "owner", env.Owner, "rule", i, "err", err)
			continue
		}
		rules = append(rules, rule{pattern, u})
	}
	if rules == nil {
		return plugin.Phases{}, nil
	}
	own := new(Config) // marks what was chosen
	return plugin.Phases{
		Rewrite: func(c *plugin.Ctx) *plugin.Reply {
			if u := choose(rules, threescale.Of(c).Path); u != nil {
				c.SetState(own, u)
			}
			return nil
		},
		Access: func(c *plugin.Ctx) *plugin.Reply {
			if u, ok := c.State(own).(*threescale.Upstream); ok {
				goes(c, u)
			}
			return nil
		},
		Content: func(c *plugin.Ctx) *plugin.Reply {
			u, ok := c.State(own).(*threescale.Upstream)
			if !ok || c.To.Upstream != nil {
				return nil
			}
			goes(c, u) // a later policy may have chosen another, this one is earlier
			return threescale.Route(c)
		},
	}, nil
}

func choose(rules []rule, path string) *threescale.Upstream {
	for i := range rules {
		if ok, err := rules[i].pattern.Match(path); ok && err == nil {
			return rules[i].upstream
		}
	}
	return nil
}

// goes sends the request to u, whose name it asks for.
func goes(c *plugin.Ctx, u *threescale.Upstream) {
	r := threescale.Of(c)
	r.Upstream, r.Host = u, u.Header
}

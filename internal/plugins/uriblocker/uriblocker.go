// Package uriblocker refuses requests whose URI matches a regular expression.
package uriblocker

import (
	"weir/internal/expr"
	"weir/internal/plugin"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{
		Name: "uri-blocker", Priority: 2900, Guard: true,
		Doc: "Refuses requests whose URI matches one of a list of regular expressions.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	BlockRules      []string `json:"block_rules"      schema:"required,unique,each.minLen=1,each.maxLen=4096" doc:"Regular expressions that are looked for in the decoded path with the query."`
	RejectedCode    int      `json:"rejected_code"    schema:"min=200,default=403" doc:"Status of a refusal."`
	RejectedMsg     string   `json:"rejected_msg"     schema:"minLen=1" doc:"Message in the body of a refusal; without it the body is the gateway's page for the status."`
	CaseInsensitive bool     `json:"case_insensitive" schema:"default=false" doc:"Ignore the case of letters."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	rules := c.BlockRules
	if len(rules) == 0 {
		rules = []string{""} // APISIX joins the rules: without any, everything matches
	}
	var patterns []*expr.Pattern
	for _, rule := range rules {
		p, err := expr.CompilePattern(rule, c.CaseInsensitive)
		if err != nil {
			return plugin.Phases{}, err
		}
		patterns = append(patterns, p)
	}
	uri, err := expr.Lookup("request_uri")
	if err != nil {
		return plugin.Phases{}, err
	}
	refusal := &plugin.Reply{Status: c.RejectedCode}
	if c.RejectedMsg != "" {
		refusal = plugin.JSON(c.RejectedCode, map[string]string{"error_msg": c.RejectedMsg})
	}
	undecided := &plugin.Reply{Status: 500}
	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		text, _ := uri.Value(r)
		for _, p := range patterns {
			switch blocked, err := p.Match(text); {
			case err != nil:
				env.Log.Error("uri-blocker: a rule was not decided in time", "owner", env.Owner, "err", err)
				return undecided
			case blocked:
				return refusal
			}
		}
		return nil
	}
	return plugin.Phases{Rewrite: rewrite}, nil
}

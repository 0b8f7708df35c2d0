// Package soap counts requests by the action of their SOAP message.
package soap

import (
	"fmt"
	"net/url"
	"strings"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is soap.
var Policy = plugin.Define(
	plugin.Meta{Name: "soap", Doc: "Counts requests by the action of their SOAP message."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Rules []Rule `json:"mapping_rules" doc:"What is counted for which actions."`
}

// A Rule is a mapping rule.
type Rule struct {
	Pattern string           `json:"pattern" schema:"required" doc:"What the action, or the path of one that is a URL, begins with; as in mapping rules."`
	Metric  string           `json:"metric_system_name" schema:"required" doc:"Metric that counts."`
	Delta   threescale.Whole `json:"delta" schema:"required" doc:"How much it counts."`
	Last    bool             `json:"last" doc:"No further rule if this one matches."`
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	var rules []*threescale.Rule
	for i, r := range c.Rules {
		rule, err := threescale.NewRule(model.MappingRule{
			Method: "ANY", Pattern: r.Pattern, Metric: r.Metric, Delta: int64(r.Delta), Last: r.Last,
		})
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("mapping_rules[%d]: %w", i, err)
		}
		rules = append(rules, rule)
	}
	if rules == nil {
		return plugin.Phases{}, nil
	}
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		if action := actionOf(c); action != "" {
			count(threescale.Of(c), rules, action)
		}
		return nil
	}}, nil
}

func count(r *threescale.Request, rules []*threescale.Rule, action string) {
	for _, rule := range rules {
		if !rule.Matches("", action, absent) {
			continue
		}
		r.Usage.Add(rule.Metric, rule.Delta)
		if rule.Last {
			break
		}
	}
	r.Usage.Trim()
}

func absent(string) (string, bool) { return "", false }

// actionOf is the action of SOAP 1.2, else of 1.1, or the path of one that is a URL
// (SOAP 1.2 part 2 §6.5, SOAP 1.1 §6.1.1).
func actionOf(c *plugin.Ctx) string {
	contentType, _ := c.Header("Content-Type")
	action := parameter(contentType)
	if action == "" {
		action, _ = c.Header("SOAPAction")
	}
	if !strings.Contains(action, "://") {
		return action
	}
	if u, err := url.Parse(action); err == nil && u.Host != "" {
		return u.EscapedPath()
	}
	return action
}

// parameter is the parameter action of a media type application/soap+xml.
func parameter(contentType string) string {
	media, rest, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/soap+xml") {
		return ""
	}
	for rest != "" {
		var name, value string
		name, rest, _ = strings.Cut(rest, "=")
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			value, rest, _ = strings.Cut(quoted, `"`)
			_, rest, _ = strings.Cut(rest, ";")
		} else {
			value, rest, _ = strings.Cut(rest, ";")
		}
		if strings.EqualFold(strings.TrimSpace(name), "action") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

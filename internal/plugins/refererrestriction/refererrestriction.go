// Package refererrestriction admits or refuses requests by the host that their
// Referer names.
package refererrestriction

import (
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{
		Name: "referer-restriction", Priority: 2990, Guard: true,
		Doc: "Admits only requests whose Referer names a listed host, or refuses those.",
	},
	compile,
	plugin.Shared(),
)

// Config is the configuration on a route.
type Config struct {
	BypassMissing bool   `json:"bypass_missing" schema:"default=false" doc:"Admit requests whose Referer is absent or not a URI."`
	Whitelist     Hosts  `json:"whitelist"      schema:"minItems=1" doc:"Hosts that are admitted; all others are refused. A leading * stands for any beginning."`
	Blacklist     Hosts  `json:"blacklist"      schema:"minItems=1" doc:"Hosts that are refused; all others are admitted."`
	Message       string `json:"message"        schema:"minLen=1,maxLen=1024,default=Your referer host is not allowed" doc:"Message in the body of a refusal."`
}

// Hosts are names of hosts (APISIX: host_def).
type Hosts []string

// JSONSchema implements schema.Describer.
func (Hosts) JSONSchema() []byte {
	return []byte(`{"type":"array","items":{"type":"string","pattern":"^\\*$|^\\*?[0-9a-zA-Z-._\\[\\]:]+$"}}`)
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.ExactlyOne([]string{"whitelist"}, []string{"blacklist"})}
}

// A matcher is a compiled list.
type matcher struct {
	names    map[string]struct{}
	suffixes []string
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	admit, list := true, c.Whitelist
	if list == nil {
		admit, list = false, c.Blacklist
	}
	m := matcher{names: map[string]struct{}{}}
	for _, h := range list {
		if suffix, ok := strings.CutPrefix(h, "*"); ok {
			m.suffixes = append(m.suffixes, suffix)
		} else {
			m.names[h] = struct{}{}
		}
	}
	refusal := plugin.JSON(403, map[string]string{"message": c.Message})
	access := func(r *plugin.Ctx) *plugin.Reply {
		referer, _ := r.Header("Referer")
		host := hostOf(referer)
		admitted := c.BypassMissing
		if host != "" {
			admitted = m.match(host) == admit
		}
		if !admitted {
			return refusal
		}
		return nil
	}
	return plugin.Phases{Access: access}, nil
}

func (m *matcher) match(host string) bool {
	if _, ok := m.names[host]; ok {
		return true
	}
	for _, s := range m.suffixes {
		if strings.HasSuffix(host, s) {
			return true
		}
	}
	return false
}

// hostOf is the host in a URI, with or without scheme, as lua-resty-http 0.17
// reads it; empty: it is none.
func hostOf(uri string) string {
	rest, ok := strings.CutPrefix(uri, "http:")
	if !ok {
		rest = strings.TrimPrefix(uri, "https:")
	}
	if rest, ok = strings.CutPrefix(rest, "//"); !ok {
		return ""
	}
	if strings.HasPrefix(rest, "[") {
		if end := strings.LastIndexByte(rest, ']'); end > 1 {
			return rest[:end+1]
		}
		return ""
	}
	if end := strings.IndexAny(rest, "[]:/?"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

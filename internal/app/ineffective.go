package app

import (
	"fmt"
	"maps"
	"slices"

	"weir/internal/config"
	"weir/internal/dialect/apisix"
	"weir/internal/plugins"
)

const unknownPlugin = "unknown plugin"

// Ineffective are the keys of a configuration that change nothing, among them names of
// plugins that neither this build nor APISIX has.
func Ineffective(c *config.Config) []config.Ignored {
	known := map[string]bool{}
	for _, name := range apisix.PluginNames() {
		known[name] = true
	}
	for _, s := range plugins.All() {
		known[s.Name] = true
	}
	for _, s := range plugins.Streams() {
		known[s.Name] = true
	}
	out := slices.Clone(c.Ignored)
	for _, of := range []struct {
		key   string
		names []string
	}{{"plugins", c.Plugins}, {"stream_plugins", c.StreamPlugins}} {
		for i, name := range of.names {
			if !known[name] {
				out = append(out, config.Ignored{Path: fmt.Sprintf("%s.%d", of.key, i+1), Why: fmt.Sprintf("%s %q", unknownPlugin, name)})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.PluginAttr)) {
		if !known[name] {
			out = append(out, config.Ignored{Path: "plugin_attr." + name, Why: unknownPlugin})
		}
	}
	return out
}

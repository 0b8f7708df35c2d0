package plugin

import "weir/internal/schema"

// A Description is what the Admin and Control APIs tell of a plugin.
type Description struct {
	Version  float64        `json:"version"`
	Priority int            `json:"priority"`
	Schema   *schema.Schema `json:"schema"`
	Metadata *schema.Schema `json:"metadata_schema,omitempty"`
	Consumer *schema.Schema `json:"consumer_schema,omitempty"`
	Type     string         `json:"type,omitempty"`
	Scope    string         `json:"scope,omitempty"` // global, of plugins that concern the whole gateway
}

// Describe describes the plugin.
func (s Spec) Describe() Description {
	return Description{s.Version, s.Priority, s.config, s.metadata, s.credential, s.Type, s.Scope}
}

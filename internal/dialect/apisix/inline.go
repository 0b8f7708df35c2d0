package apisix

import (
	"sync"

	"weir/internal/model"
	"weir/internal/schema"
)

// inlineUpstream checks upstreams that stand in a plugin's configuration.
var inlineUpstream = sync.OnceValue(func() *schema.Schema { return schema.Parse("upstream", []byte(schemaUpstream)) })

// InlineUpstream checks and decodes an upstream document that stands in a
// plugin's configuration. The error is in the words of APISIX's validator. As
// APISIX does for such an upstream, pass_host node sends the node's name without
// its port, unless the scheme is https.
func InlineUpstream(raw []byte) (*model.Upstream, error) {
	if err := inlineUpstream().Check(raw); err != nil {
		return nil, err
	}
	m, err := Upstream("", raw)
	if err == nil && m.PassHost == "node" && m.Scheme != "https" {
		m.PassHost = "domain"
	}
	return m, err
}

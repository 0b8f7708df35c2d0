// Package camel reaches upstreams through Apache Camel as a forward proxy.
package camel

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is camel.
var Policy = plugin.Define(
	plugin.Meta{Name: "camel", Doc: "Reaches upstreams through Apache Camel, which gets requests for https upstreams as they are instead of tunnels."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	All   string `json:"all_proxy" schema:"secret" doc:"URL of the proxy where none is given for the scheme."`
	HTTP  string `json:"http_proxy" schema:"secret" doc:"URL of the proxy for http upstreams."`
	HTTPS string `json:"https_proxy" schema:"secret" doc:"URL of the proxy for https upstreams."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	proxies, err := threescale.NewProxies(c.HTTP, c.HTTPS, c.All)
	if err != nil {
		env.Log.Warn("a forward proxy of the policy camel cannot be used", "owner", env.Owner, "err", err)
	}
	proxies.Absolute = true
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		threescale.Of(c).Connect.Proxies = proxies
		return nil
	}}, nil
}

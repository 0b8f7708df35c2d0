// Package httpproxy reaches upstreams through forward proxies.
package httpproxy

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is http_proxy.
var Policy = plugin.Define(
	plugin.Meta{Name: "http_proxy", Doc: "Reaches upstreams through forward proxies, by their scheme."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	All   string `json:"all_proxy" schema:"secret" doc:"URL of the proxy where none is given for the scheme."`
	HTTP  string `json:"http_proxy" schema:"secret" doc:"URL of the proxy for http upstreams."`
	HTTPS string `json:"https_proxy" schema:"secret" doc:"URL of the proxy for https upstreams, which is asked for tunnels."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	proxies, err := threescale.NewProxies(c.HTTP, c.HTTPS, c.All)
	if err != nil {
		env.Log.Warn("a forward proxy of the policy http_proxy cannot be used", "owner", env.Owner, "err", err)
	}
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		threescale.Of(c).Connect.Proxies = proxies
		return nil
	}}, nil
}

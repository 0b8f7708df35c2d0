// Package requestunbuffered lets upstreams decide about bodies before they are sent.
package requestunbuffered

import "weir/internal/plugin"

// Policy is request_unbuffered.
var Policy = plugin.Define(
	plugin.Meta{Name: "request_unbuffered", Doc: "Passes Expect: 100-continue on, so that the upstream says whether it wants a body. No body waits in the gateway anyway."},
	compile,
)

// Config is the policy's configuration: there is nothing to configure.
type Config struct{}

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		c.To.Expect = true
		return nil
	}}, nil
}

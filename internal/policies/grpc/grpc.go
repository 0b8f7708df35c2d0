// Package grpc speaks HTTP/2 with the upstream.
package grpc

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is grpc.
var Policy = plugin.Define(
	plugin.Meta{Name: "grpc", Doc: "Speaks HTTP/2 over TLS with the upstream."},
	compile,
)

// Config is the policy's configuration: there is nothing to configure.
type Config struct{}

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		threescale.Of(c).Connect.HTTP2 = true
		return nil
	}}, nil
}

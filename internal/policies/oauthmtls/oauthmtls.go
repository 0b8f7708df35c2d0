// Package oauthmtls admits tokens only together with the client certificate that
// they were issued for (RFC 8705).
package oauthmtls

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is oauth_mtls.
var Policy = plugin.Define(
	plugin.Meta{Name: "oauth_mtls", Guard: true, Doc: "Admits a token only with the client certificate that its claim cnf names (RFC 8705)."},
	compile,
)

// Config is empty.
type Config struct{}

// refusal is immutable.
var refusal = plugin.Text(401, `{"error": "invalid_token"}`, [2]string{"Content-Type", "application/json; charset=utf-8"})

func compile(*Config, plugin.Env) (plugin.Phases, error) {
	return plugin.Phases{Access: func(c *plugin.Ctx) *plugin.Reply {
		if !threescale.Bound(c) {
			return refusal
		}
		return nil
	}}, nil
}

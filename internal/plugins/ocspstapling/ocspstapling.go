// Package ocspstapling is the switch for OCSP answers in TLS handshakes.
package ocspstapling

import "weir/internal/plugin"

// Plugin is ocsp-stapling as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "ocsp-stapling",
		Priority: -44,
		Doc: "Lets ssl objects have `ocsp_stapling` with `enabled` (false), `skip_verify` (false) and `cache_ttl` (seconds, 3600, at least 60): " +
			"handshakes then carry what the certificate's OCSP responder says of it. The chain has to contain the issuer's certificate.",
	},
	func(*Config, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
)

// Config is empty: ssl objects hold the settings.
type Config struct{}

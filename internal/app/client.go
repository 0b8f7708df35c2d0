package app

import (
	"fmt"
	"slices"

	"weir/internal/engine"
	"weir/internal/expr"
)

// believe says whose word about the client counts: who reports its address, and
// whose X-Forwarded-* are passed on.
func (g *Gateway) believe(cfg *engine.Config) error {
	r := &g.Config.Nginx.HTTP.RealIP
	// Unix sockets are not listened on, and no protocol carries an address.
	from := slices.DeleteFunc(slices.Clone(r.From), func(s string) bool { return s == "unix:" })
	if len(from) > 0 && r.Header != "proxy_protocol" {
		nets, err := expr.CompileNetworks(from)
		if err != nil {
			return fmt.Errorf("nginx_config.http.real_ip_from: %w", err)
		}
		cfg.RealIP = &engine.RealIP{Header: r.Header, Recursive: r.Recursive, From: nets.ContainAddr}
	}
	if list := g.Config.APISIX.TrustedAddresses; len(list) > 0 {
		nets, err := expr.CompileNetworks(list)
		if err != nil {
			return fmt.Errorf("apisix.trusted_addresses: %w", err)
		}
		cfg.Trusted = nets.ContainAddr
	}
	return nil
}

package app

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"weir/internal/engine"
	"weir/internal/expr"
	"weir/internal/proxyproto"
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

// behindProxy makes the connections of l begin with a PROXY header. Who the client
// is it says where real_ip_header is proxy_protocol, for proxies in real_ip_from.
func (g *Gateway) behindProxy(l net.Listener) (net.Listener, error) {
	r := &g.Config.Nginx.HTTP.RealIP
	p := &proxyproto.Listener{Listener: l, Timeout: g.Config.Nginx.HTTP.Timeouts.Header}
	from := slices.DeleteFunc(slices.Clone(r.From), func(s string) bool { return s == "unix:" })
	if len(from) > 0 && r.Header == "proxy_protocol" {
		nets, err := expr.CompileNetworks(from)
		if err != nil {
			return nil, fmt.Errorf("nginx_config.http.real_ip_from: %w", err)
		}
		p.Trust = nets.ContainAddr
	}
	return p, nil
}

// tlsPorts are the ports of the data plane that speak TLS.
func (g *Gateway) tlsPorts() []int {
	var ports []int
	for _, s := range g.Config.APISIX.Sockets() {
		_, text, err := net.SplitHostPort(s.Addr)
		port, numErr := strconv.Atoi(text)
		if s.TLS && !s.Proxy && err == nil && numErr == nil && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

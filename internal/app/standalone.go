package app

import (
	"crypto/tls"
	"net"
	"strings"

	"weir/internal/cert"
	"weir/internal/dialect/apicast"
	"weir/internal/plugin"
)

// A productPort is a port of the data plane of products.
type productPort struct {
	port       int
	tls, proxy bool
}

// ports are those that are open: of a standalone document its own.
func (a *account) ports() (out []productPort) {
	p := &a.config.Ports
	if s := a.source.Routed(); s != nil && len(s.Listen) > 0 {
		for _, l := range s.Listen {
			out = append(out, productPort{l.Port, l.TLS, l.ProxyProtocol})
		}
		return out
	}
	if p.HTTPS == 0 || p.HTTP != p.HTTPS {
		out = append(out, productPort{p.HTTP, false, p.HTTPProxy})
	}
	if p.HTTPS != 0 {
		out = append(out, productPort{p.HTTPS, true, p.HTTPSProxy})
	}
	return out
}

// chooser finds the certificate of a handshake; nil: no port has TLS.
func (g *Gateway) chooser() (func(*tls.ClientHelloInfo) (*cert.Certificate, error), error) {
	a := g.account
	s := a.source.Routed()
	if s == nil {
		if a.certificate == nil {
			return nil, nil
		}
		return g.productCertificate, nil
	}
	byPort := map[int]*cert.Certificate{}
	for _, l := range s.Listen {
		if !l.TLS {
			continue
		}
		c := *a.config
		c.TLS.Certificate, c.TLS.Key = l.Certificate, l.Key
		t, err := gatewayTLS(&c)
		if err != nil {
			return nil, err
		}
		byPort[l.Port] = &cert.Certificate{Config: t}
	}
	return func(h *tls.ClientHelloInfo) (*cert.Certificate, error) {
		if addr, ok := h.Conn.LocalAddr().(*net.TCPAddr); ok && byPort[addr.Port] != nil {
			return byPort[addr.Port], nil
		}
		return g.productCertificate(h)
	}, nil
}

// route is the id of the product that the routes of a standalone document lead a
// request to.
func (a *account) route(c *plugin.Ctx) string {
	s := a.source.Routed()
	if s == nil {
		return ""
	}
	host := c.Request.Host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	r := apicast.Request{Method: c.Request.Method, Host: strings.ToLower(host), Path: c.Path, Port: int(c.Server.Port())}
	return s.Routes.Find(&r)
}

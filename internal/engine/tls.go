package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"weir/internal/cert"
)

// A secure is the TLS side of a connection.
type secure struct {
	engine *Engine
	sni    string
	cert   *cert.Certificate
	state  tls.ConnectionState
	known  error // why the client is not known by its certificate; nil: it is
}

var errNoServerName = errors.New("no certificate for the name that the client asks for")

// handshake makes a TLS connection of nc, with the certificate for the name that
// the client asks for (apisix-runtime.md §7.1). It takes at most as long as a
// request's head may.
func (e *Engine) handshake(nc net.Conn) (*tls.Conn, *secure, error) {
	s := e.NewHandshake()
	t := tls.Server(nc, &tls.Config{
		MinVersion: tls.VersionTLS12, // replaced by the certificate's own configuration
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := s.Choose(h)
			if err != nil {
				return nil, err
			}
			return c.Config, nil
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), cmpOr(e.HeaderTimeout, time.Minute))
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	s.done(t.ConnectionState())
	return t, s, nil
}

// A Handshake is a client's on its way, for protocols that do it themselves.
type Handshake = secure

// NewHandshake begins one.
func (e *Engine) NewHandshake() *Handshake { return &secure{engine: e} }

// Choose finds the certificate for the name that the client asks for.
func (s *secure) Choose(h *tls.ClientHelloInfo) (c *cert.Certificate, err error) {
	if choose := s.engine.Certificate; choose != nil {
		s.sni = strings.ToLower(h.ServerName)
		s.cert, err = choose(h)
		return s.cert, err
	}
	if s.sni = strings.ToLower(h.ServerName); s.sni == "" {
		s.sni = s.engine.FallbackSNI
	}
	if s.sni != "" {
		s.cert = s.engine.State.Current().Certificate(s.sni)
	}
	if s.cert == nil {
		return nil, errNoServerName
	}
	return s.cert, nil
}

// done notes the outcome.
func (s *secure) done(state tls.ConnectionState) {
	s.state = state
	if s.cert.ClientCAs != nil {
		s.known = s.cert.Client(s.state)
	}
}

func cmpOr(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}

// admits says that the client's certificate, or the lack of one, allows the
// request (apisix-runtime.md §7.3): a host whose certificate asks for the
// client's can only be asked for over a connection to that very name.
func (x *exchange) admits() bool {
	s := x.secure
	if s == nil {
		return true
	}
	if s.known != nil && !s.cert.Exempt(x.ctx.Path) {
		return false
	}
	snap := x.engine.State.Current()
	if !snap.AsksClients() {
		return true
	}
	host := hostname(x.request.Host)
	own := snap.Certificate(host)
	return own == nil || own.ClientCAs == nil || strings.EqualFold(host, s.sni)
}

// hostname is a Host header without its port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}

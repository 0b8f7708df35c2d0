package threescale

import "crypto/tls"

// A Handshake is what the policies of a product want of TLS handshakes for its
// hosts. The zero Handshake wants nothing.
type Handshake struct {
	// Certificate is what is shown; if it returns nil, the gateway's own. An error
	// ends the handshake. nil: the gateway's own.
	Certificate func() (*tls.Certificate, error)

	// Ask has clients asked for a certificate, whatever the gateway asks of them.
	Ask bool
}

// HandshakeConfig is what handshakes for the product's hosts use; nil: the
// gateway's own. It is for when the chain is compiled.
func (p *Product) HandshakeConfig() *tls.Config {
	h, base := p.Handshake, p.Runtime.TLS
	asks := h.Ask && base != nil && base.ClientAuth == tls.NoClientCert
	if base == nil || h.Certificate == nil && !asks {
		return nil
	}
	c := base.Clone()
	if asks {
		c.ClientAuth = tls.RequestClientCert
	}
	if h.Certificate != nil {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.Certificate() }
	}
	return c
}

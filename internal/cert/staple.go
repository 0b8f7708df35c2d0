package cert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"weir/internal/staple"
)

// A pair is a certificate with its chain and key, and what its OCSP responder
// says of it; nil: nothing is known.
type pair struct {
	tls.Certificate
	held *staple.Staple
}

// Staple has the answers of OCSP responders sent along in handshakes, as far as
// there are any; Close ends that. It must be called before the first handshake.
// Its error tells which pairs have no answer and why: they are used without one.
func (c *Certificate) Staple(s *staple.Stapler, o staple.Options) error {
	var errs []error
	for i, p := range c.Config.Certificates {
		chain, err := parseChain(p.Certificate)
		var held *staple.Staple
		if err == nil {
			held, err = s.Hold(chain, o)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cert-key pair[%d]: %w", i, err))
		}
		c.pairs = append(c.pairs, pair{p, held})
	}
	c.Config.Certificates, c.Config.GetCertificate = nil, c.pick
	return errors.Join(errs...)
}

func parseChain(ders [][]byte) (chain []*x509.Certificate, err error) {
	for _, der := range ders {
		x, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, x)
	}
	return chain, nil
}

// pick chooses as crypto/tls does among several, the first that suits the client,
// else the first of all, and adds the responder's answer.
func (c *Certificate) pick(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	chosen := &c.pairs[0]
	for i := range c.pairs {
		if h.SupportsCertificate(&c.pairs[i].Certificate) == nil {
			chosen = &c.pairs[i]
			break
		}
	}
	if chosen.held == nil {
		return &chosen.Certificate, nil
	}
	with := chosen.Certificate
	with.OCSPStaple = chosen.held.Response()
	return &with, nil
}

// Close ends the use of what c holds. Handshakes that are under way may still use c.
func (c *Certificate) Close() {
	for _, p := range c.pairs {
		if p.held != nil {
			p.held.Release()
		}
	}
}

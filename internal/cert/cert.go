// Package cert finds the certificate for the name that a TLS client asks for.
package cert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"

	"weir/internal/expr"
	"weir/internal/model"
)

// A Certificate is a compiled ssl object. It does not change.
type Certificate struct {
	ID    string
	Hosts []string

	// Config is what a handshake for this certificate uses.
	Config *tls.Config

	// ClientCAs, if not nil, have to vouch for every client.
	ClientCAs *x509.CertPool

	pairs  []pair // in place of Config's own, if OCSP answers are stapled to them
	depth  int
	skip   []*expr.Pattern
	stream func() *tls.Config
	quic   func() *tls.Config
}

// Errors of checking a client.
var (
	errNoCertificate = errors.New("the client shows no certificate")
	errDepth         = errors.New("the client's chain is deeper than allowed")
)

// Compile makes a Certificate. base is the configuration that all share; open
// returns a stored key in plain text.
func Compile(m *model.SSL, base *tls.Config, open func(string) (string, bool)) (*Certificate, error) {
	c := &Certificate{ID: m.ID, Hosts: m.Hosts, Config: base.Clone(), depth: m.Depth}
	c.Config.Certificates = nil
	for i, pair := range m.Pairs {
		key, ok := open(pair.Key)
		if !ok {
			return nil, fmt.Errorf("cert-key pair[%d]: the key cannot be decrypted", i)
		}
		p, err := tls.X509KeyPair([]byte(pair.Cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("cert-key pair[%d]: %w", i, err)
		}
		c.Config.Certificates = append(c.Config.Certificates, p)
	}
	if err := c.versions(m.Protocols); err != nil {
		return nil, err
	}
	c.stream = sync.OnceValue(c.forStreams)
	c.quic = sync.OnceValue(c.forQUIC)
	return c, c.clients(m)
}

// Stream is what a handshake for a stream uses: any protocol may follow, and there
// are no URIs that could be exempt from showing a certificate.
func (c *Certificate) Stream() *tls.Config { return c.stream() }

func (c *Certificate) forStreams() *tls.Config {
	t := c.Config.Clone()
	t.NextProtos = nil
	if c.ClientCAs != nil {
		t.ClientAuth = tls.RequireAnyClientCert
		t.VerifyConnection = func(s tls.ConnectionState) error { return c.Client(s) }
	}
	return t
}

// QUIC is what a handshake of HTTP/3 uses.
func (c *Certificate) QUIC() *tls.Config { return c.quic() }

func (c *Certificate) forQUIC() *tls.Config {
	t := c.Config.Clone()
	t.NextProtos, t.MinVersion = []string{"h3"}, tls.VersionTLS13
	return t
}

// versions restricts the protocol versions. TLS knows ranges only, as clients do.
func (c *Certificate) versions(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var all []uint16
	for _, n := range names {
		v, ok := Version(n)
		if !ok {
			return fmt.Errorf("unknown TLS version %q", n)
		}
		all = append(all, v)
	}
	c.Config.MinVersion, c.Config.MaxVersion = slices.Min(all), slices.Max(all)
	return nil
}

// Version is the number of a version by its nginx name: TLSv1, TLSv1.1, TLSv1.2, TLSv1.3.
func Version(name string) (v uint16, ok bool) {
	switch name {
	case "TLSv1":
		return tls.VersionTLS10, true
	case "TLSv1.1":
		return tls.VersionTLS11, true
	case "TLSv1.2":
		return tls.VersionTLS12, true
	case "TLSv1.3":
		return tls.VersionTLS13, true
	}
	return 0, false
}

// clients sets what is asked of clients. With exceptions by URI the handshake
// has to go on without a certificate: Client then decides at the request.
func (c *Certificate) clients(m *model.SSL) error {
	if m.ClientCA == "" {
		return nil
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM([]byte(m.ClientCA)) {
		return errors.New("client.ca has no certificate")
	}
	for _, text := range m.SkipMTLSURIs {
		p, err := expr.CompilePattern(text, false)
		if err != nil {
			return fmt.Errorf("skip_mtls_uri_regex: %w", err)
		}
		c.skip = append(c.skip, p)
	}
	c.Config.ClientCAs = c.ClientCAs
	c.Config.ClientAuth = tls.RequestClientCert
	if len(c.skip) == 0 {
		c.Config.ClientAuth = tls.RequireAnyClientCert
		c.Config.VerifyConnection = func(s tls.ConnectionState) error { return c.Client(s) }
	}
	return nil
}

// Client returns nil if the client has shown a certificate that the client CAs
// vouch for, within the depth.
func (c *Certificate) Client(s tls.ConnectionState) error {
	if c.ClientCAs == nil {
		return nil
	}
	if len(s.PeerCertificates) == 0 {
		return errNoCertificate
	}
	between := x509.NewCertPool()
	for _, x := range s.PeerCertificates[1:] {
		between.AddCert(x)
	}
	chains, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: c.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if len(chain)-1 <= c.depth {
			return nil
		}
	}
	return errDepth
}

// Exempt says that a URI may be asked for without a client certificate. What
// cannot be matched is not exempt.
func (c *Certificate) Exempt(uri string) bool {
	if c.ClientCAs == nil {
		return true
	}
	for _, p := range c.skip {
		if ok, err := p.Match(uri); ok && err == nil {
			return true
		}
	}
	return false
}

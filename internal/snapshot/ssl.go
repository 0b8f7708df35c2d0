package snapshot

import (
	"bytes"
	"crypto/tls"

	"weir/internal/cert"
	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/staple"
)

// An sslEntry is a stored ssl object; running is its last good form as the set
// of certificates holds it, without a Certificate if it is none for servers.
type sslEntry struct {
	digest  apisix.Digest
	created int64
	running cert.Entry
}

// Certificate is the certificate for a name that a TLS client asks for; nil:
// there is none.
func (s *Snapshot) Certificate(name string) *cert.Certificate { return s.certs.Find(name) }

// AsksClients says whether any certificate asks clients for theirs.
func (s *Snapshot) AsksClients() bool { return s.certs.AsksClients() }

// stapling is the plugin that allows ssl objects to ask for OCSP answers.
const stapling = "ocsp-stapling"

func (n *next) putSSL(o model.Object) {
	n.documents[o.Kind].Set(o.ID, &storedDocument{o, o.Raw})
	old, had := n.ssls.Get(o.ID)
	e := &sslEntry{digest: apisix.WithoutTimes(o.Raw), created: o.Created}
	if had {
		if old.digest == e.digest {
			return
		}
		e.running = old.running
	}
	n.replaceSSL(o, e)
}

// replaceSSL compiles o and makes e its entry, which has the last good form.
func (n *next) replaceSSL(o model.Object, e *sslEntry) {
	n.compiled[o.Kind].Add(1)
	n.clearFault(o.Key)
	c, err := (*cert.Certificate)(nil), o.Fault
	if err == nil {
		c, err = n.compileSSL(o)
	}
	if err != nil {
		n.fault(o.Key, err)
	} else {
		before := e.running
		e.running = cert.Entry{Certificate: c, Created: o.Created}
		n.certs.Replace(before, e.running)
		n.retireSSL(before)
	}
	n.ssls.Set(o.ID, e)
}

// retireSSL closes a certificate that no new handshake finds.
func (n *next) retireSSL(old cert.Entry) {
	if old.Certificate != nil {
		n.retire(old.Close)
	}
}

// chooseSSLs compiles the ssl objects again that ask for OCSP answers.
func (n *next) chooseSSLs() {
	for id, d := range n.s.documents[model.KindSSL].All() {
		if e, ok := n.ssls.Get(id); ok && bytes.Contains(d.Raw, []byte(`"ocsp_stapling"`)) {
			again := *e
			n.replaceSSL(d.Object, &again)
		}
	}
}

// compileSSL compiles a server's certificate; nil for what is none or disabled.
func (x *compiler) compileSSL(o model.Object) (*cert.Certificate, error) {
	m, err := apisix.SSL(o.ID, o.Raw)
	if err != nil || m.Client || m.Disabled {
		return nil, err
	}
	for i := range m.Pairs {
		m.Pairs[i].Cert, m.Pairs[i].Key = x.reveal(m.Pairs[i].Cert), x.reveal(m.Pairs[i].Key)
	}
	m.ClientCA = x.reveal(m.ClientCA)
	base := x.config.TLS
	if base == nil {
		base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c, err := cert.Compile(m, base, x.openKey)
	if err != nil {
		return nil, err
	}
	if _, enabled := x.specs[stapling]; enabled && m.Stapling != nil {
		if err := c.Staple(x.staples, staple.Options{SkipVerify: m.Stapling.SkipVerify, TTL: m.Stapling.TTL}); err != nil {
			x.config.Log.Warn("handshakes carry no OCSP answer", "object", o.Key.String(), "err", err)
		}
	}
	return c, nil
}

// openKey returns a private key in plain text.
func (x *compiler) openKey(stored string) (string, bool) {
	if open := x.config.Upstream.OpenKey; open != nil {
		return open(stored)
	}
	return stored, true
}

// reveal is what a text refers to, if it is a reference to a secret.
func (x *compiler) reveal(text string) string {
	if x.config.Reveal == nil {
		return text
	}
	return x.config.Reveal(text)
}

func (n *next) removeSSL(id string) {
	n.documents[model.KindSSL].Del(id)
	if e, had := n.ssls.Get(id); had {
		n.certs.Replace(e.running, cert.Entry{})
		n.retireSSL(e.running)
		n.ssls.Del(id)
	}
}

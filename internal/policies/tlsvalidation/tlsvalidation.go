// Package tlsvalidation admits only clients whose certificate a list of
// certificates vouches for.
package tlsvalidation

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

const name = "tls_validation"

// Policy is tls_validation.
var Policy = plugin.Define(
	plugin.Meta{Name: name, Guard: true, Doc: "Admits only clients with a certificate that is listed, or issued by one that is, and not revoked."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Whitelist  []Certificate    `json:"whitelist" doc:"Certificates of clients and of authorities that are admitted."`
	Partial    bool             `json:"allow_partial_chain" schema:"default=true" doc:"A listed certificate is enough, whoever has issued it. Otherwise the list must lead to a self-signed one."`
	Revocation string           `json:"revocation_check_type" schema:"default=none,enum=none|crl|ocsp" doc:"How it is known whether a certificate was revoked."`
	Lists      []Certificate    `json:"revoke_list" doc:"Lists of revoked certificates (CRL), one of the client's issuer among them."`
	Responder  string           `json:"ocsp_responder_url" doc:"OCSP responder; default: the one that the certificate names."`
	TTL        threescale.Whole `json:"cache_ttl" doc:"Seconds that an OCSP answer is relied on at most; default: 3600."`
	Status     threescale.Whole `json:"error_status" doc:"Status of refusals; default: 400."`
}

// Certificate is a certificate or a list of revoked ones.
type Certificate struct {
	PEM string `json:"pem_certificate" doc:"In PEM."`
}

// A validator checks clients.
type validator struct {
	env    plugin.Env
	number uint64 // of this configuration, in keys of known
	known  *known

	roots, others *x509.CertPool
	listed        []*x509.Certificate
	said          threescale.Seldom

	// What tells revoked certificates: lists, until when what they say is known, or a
	// responder, who is asked about every request, as far as that is not known.
	lists     lists
	responder *responder

	missing, failed *plugin.Reply
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	status := 400
	if c.Status != 0 {
		status = int(c.Status)
	}
	if status < 200 || status > 599 {
		return plugin.Phases{}, fmt.Errorf("error_status %d is none of an answer", status)
	}
	v := &validator{
		env: env, roots: x509.NewCertPool(), others: x509.NewCertPool(), known: openKnown(env),
		missing: plugin.Text(status, "No required TLS certificate was sent\n"),
		failed:  plugin.Text(status, "TLS certificate validation failed\n"),
	}
	v.number = v.known.numbers.Add(1)
	for i, entry := range c.Whitelist {
		x, err := parse(entry.PEM)
		if err != nil {
			env.Log.Warn("error whitelisting certificate", "policy", name, "owner", env.Owner, "certificate", i, "err", err)
			continue
		}
		v.listed = append(v.listed, x)
		if c.Partial || selfSigned(x) {
			v.roots.AddCert(x)
		} else {
			v.others.AddCert(x)
		}
	}
	switch c.Revocation {
	case "crl":
		v.lists = newLists(c.Lists, env)
	case "ocsp":
		v.responder = newResponder(c, env)
	}
	threescale.ProductOf(env).Handshake.Ask = true
	return plugin.Phases{Access: v.admit}, nil
}

func parse(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode(threescale.NormalPEM(text))
	if block == nil || block.Type != "CERTIFICATE" && block.Type != "X509 CERTIFICATE" {
		return nil, errors.New("it is no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func selfSigned(x *x509.Certificate) bool {
	return string(x.RawSubject) == string(x.RawIssuer) && x.CheckSignature(x.SignatureAlgorithm, x.RawTBSCertificate, x.Signature) == nil
}

// admit refuses clients whose certificate is not valid.
func (v *validator) admit(c *plugin.Ctx) *plugin.Reply {
	if c.TLS == nil || len(c.TLS.PeerCertificates) == 0 {
		return v.missing
	}
	now := v.env.Now()
	if err := v.check(c.TLS.PeerCertificates[0], now); err != nil {
		if v.said.Ready(now) {
			v.env.Log.Warn("TLS certificate validation failed", "owner", v.env.Owner, "err", err)
		}
		return v.failed
	}
	return nil
}

func (v *validator) check(leaf *x509.Certificate, now time.Time) error {
	key := v.key(leaf)
	is, ok := v.known.valid.Get(key[:])
	if !ok || !is.until.After(now) {
		var err error
		if is, err = v.validate(leaf, now); err != nil {
			return err
		}
		if left := is.until.Sub(now); left > 0 {
			v.known.valid.Put(key[:], is, 0, left)
		}
	}
	if v.responder == nil {
		return nil
	}
	return v.responder.check(leaf, is.issuer, now)
}

// A verdict is that a certificate is valid.
type verdict struct {
	until  time.Time
	issuer *x509.Certificate // where revocation matters
}

// longest is how long a certificate that was found valid is not looked at again.
const longest = time.Hour

// validate looks whether a certificate is valid. What the client sends along with it
// does not matter: the list alone leads to who is trusted, as in APIcast.
func (v *validator) validate(leaf *x509.Certificate, now time.Time) (is verdict, err error) {
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: v.roots, Intermediates: v.others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return is, err
	}
	is.until = now.Add(longest)
	for _, x := range chains[0] {
		is.until = earlier(is.until, x.NotAfter)
	}
	if v.lists == nil && v.responder == nil {
		return is, nil
	}
	if is.issuer = v.issuer(leaf, chains[0]); is.issuer == nil {
		return is, errors.New("no issuer certificate in chain")
	}
	if v.lists != nil {
		var good time.Time
		good, err = v.lists.check(leaf, is.issuer, now)
		is.until = earlier(is.until, good)
	}
	return is, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// issuer is who has issued leaf, as far as the list knows; nil: it does not.
func (v *validator) issuer(leaf *x509.Certificate, chain []*x509.Certificate) *x509.Certificate {
	if len(chain) > 1 {
		return chain[1]
	}
	for _, x := range v.listed {
		if string(x.RawSubject) == string(leaf.RawIssuer) && leaf.CheckSignatureFrom(x) == nil {
			return x
		}
	}
	return nil
}

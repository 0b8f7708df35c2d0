package apisix

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"weir/internal/document"
	"weir/internal/schema"
)

// What OpenSSL says through APISIX of a certificate or key that it cannot read.
// Nothing of the text itself is told.
var (
	errCert = errors.New("failed to parse cert: PEM_read_bio_X509_AUX() failed")
	errKey  = errors.New("failed to parse key: PEM_read_bio_PrivateKey() failed")
)

// checkSSL checks the certificates of an ssl object whose schema is satisfied.
// Whether a key belongs to its certificate is not verified, as in APISIX.
func (c *Checker) checkSSL(v *document.Value) error {
	if err := c.checkPair(v.Get("cert"), v.Get("key")); err != nil {
		return err
	}
	if t := v.Get("type"); t != nil && t.Text == "client" {
		return nil
	}
	certs, keys := items(v.Get("certs")), items(v.Get("keys"))
	if len(certs) != len(keys) {
		return errors.New("mismatched number of certs and keys")
	}
	for i := range certs {
		if err := c.checkPair(certs[i], keys[i]); err != nil {
			return fmt.Errorf("failed to handle cert-key pair[%d]: %w", i+1, err)
		}
	}
	ca := v.Get("client").Get("ca")
	if ca == nil || schema.IsReference(ca.Text) {
		return nil
	}
	if err := checkCert(ca.Text); err != nil {
		return fmt.Errorf("failed to validate client_cert: %w", err)
	}
	return nil
}

func items(v *document.Value) []*document.Value {
	if v == nil {
		return nil
	}
	return v.Items
}

// checkPair checks a certificate and its key, unless one of them is kept
// elsewhere.
func (c *Checker) checkPair(cert, key *document.Value) error {
	if schema.IsReference(cert.Text) || schema.IsReference(key.Text) {
		return nil
	}
	if err := checkCert(cert.Text); err != nil {
		return err
	}
	text := key.Text
	if !strings.HasPrefix(text, "---") {
		if c.opt.OpenKey == nil {
			return nil
		}
		var ok bool
		if text, ok = c.opt.OpenKey(text); !ok {
			return errors.New("failed to decrypt previous encrypted key")
		}
	}
	return checkKey(text)
}

func checkCert(text string) error {
	rest, n := []byte(text), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return errCert
		}
		n++
	}
	if n == 0 {
		return errCert
	}
	return nil
}

func checkKey(text string) error {
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errKey
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			return nil
		}
		if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return nil
		}
		if _, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return nil
		}
		return errKey
	}
}

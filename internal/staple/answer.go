package staple

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ocsp"
)

const (
	skew   = 5 * time.Minute // that a responder's clock may be ahead
	unsaid = 24 * time.Hour  // that an answer is valid that does not say how long
)

// What is wrong with an answer.
var (
	ErrStatus   = errors.New("the certificate is not good")
	errDelegate = errors.New("the issuer does not let the answer's signer answer")
	errEarly    = errors.New("the answer is not valid yet")
	errLate     = errors.New("the answer is not valid any more")
)

// An answer is what a responder said of a certificate.
type answer struct {
	der   []byte
	until time.Time
}

// check reads a responder's answer about leaf (RFC 6960 §4.2). Unless trusting,
// it has to be signed by the issuer or who the issuer lets answer, and to call
// the certificate good.
func check(der []byte, leaf, issuer *x509.Certificate, trusting bool, now time.Time) (*answer, error) {
	r, err := ocsp.ParseResponseForCert(der, leaf, nil)
	if err != nil {
		return nil, err
	}
	if !trusting {
		if err := signed(r, issuer, now); err != nil {
			return nil, err
		}
		if r.Status != ocsp.Good {
			return nil, fmt.Errorf("%w: status %d", ErrStatus, r.Status)
		}
	}
	switch {
	case r.ThisUpdate.After(now.Add(skew)):
		return nil, errEarly
	case r.NextUpdate.IsZero():
		return &answer{der, now.Add(unsaid)}, nil
	case !r.NextUpdate.After(now):
		return nil, errLate
	}
	return &answer{der, r.NextUpdate}, nil
}

// signed checks who has signed r (RFC 6960 §4.2.2.2).
func signed(r *ocsp.Response, issuer *x509.Certificate, now time.Time) error {
	by := r.Certificate
	switch {
	case by == nil:
		return r.CheckSignatureFrom(issuer)
	case bytes.Equal(by.Raw, issuer.Raw):
		return nil // the parser has checked the signature by the certificate that came along
	case now.Before(by.NotBefore), now.After(by.NotAfter):
		return errDelegate
	case !slices.Contains(by.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning):
		return errDelegate
	}
	return by.CheckSignatureFrom(issuer)
}

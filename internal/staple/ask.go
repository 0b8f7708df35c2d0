package staple

import (
	"crypto/x509"
	"time"

	"golang.org/x/crypto/ocsp"
)

// Question is what a responder is asked about leaf (RFC 6960 §4.1).
func Question(leaf, issuer *x509.Certificate) ([]byte, error) {
	return ocsp.CreateRequest(leaf, issuer, nil)
}

// Check says until when a responder's answer about leaf is valid, if it calls leaf
// good and comes from who may say so.
func Check(answer []byte, leaf, issuer *x509.Certificate, now time.Time) (until time.Time, err error) {
	a, err := check(answer, leaf, issuer, false, now)
	if err != nil {
		return time.Time{}, err
	}
	return a.until, nil
}

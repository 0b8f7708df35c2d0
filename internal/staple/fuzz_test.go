package staple

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// FuzzCheck: of what is not trusted, only what the issuer or its delegate signed is
// taken, as the library's own check with the issuer has it.
func FuzzCheck(f *testing.F) {
	issuer := issue(f, nil, ca)
	leaf, other := issue(f, issuer, nil), issue(f, issuer, nil)
	signer := issue(f, issuer, delegate)
	now := time.Now()
	f.Add(respond(f, leaf, issuer, issuer, nil, nil), false)
	f.Add(respond(f, leaf, issuer, signer, signer.cert, nil), false)
	f.Add(respond(f, leaf, issuer, other, other.cert, nil), true)
	f.Add(respond(f, other, issuer, issuer, nil, nil), false)
	f.Add(respond(f, leaf, issuer, issuer, nil, func(r *ocsp.Response) { r.Status = ocsp.Revoked }), false)
	f.Add([]byte("\x30\x03\x0a\x01\x03"), true)
	f.Fuzz(func(t *testing.T, der []byte, trusting bool) {
		a, err := check(der, leaf.cert, issuer.cert, trusting, now)
		if err != nil {
			return
		}
		if !bytes.Equal(a.der, der) || !a.until.After(now) {
			t.Errorf("%x until %v", a.der, a.until)
		}
		if trusting {
			return
		}
		r, err := ocsp.ParseResponseForCert(der, leaf.cert, issuer.cert)
		if err != nil || r.Status != ocsp.Good {
			t.Errorf("%x: %v", der, err)
		}
	})
}

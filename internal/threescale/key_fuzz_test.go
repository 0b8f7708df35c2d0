package threescale

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"weir/internal/model"
)

// FuzzKey: a key that is taken verifies nothing that it did not sign, and is the same
// key when it comes in PEM.
func FuzzKey(f *testing.F) {
	for _, s := range []string{
		`{"kty":"RSA","n":"AQAB","e":"AQAB"}`, `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`,
		`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`, `{"kty":"EC","crv":"P-521","x":"","y":""}`, `{"kty":"oct","k":"AA"}`, `{"kty":"RSA","n":"","e":""}`,
	} {
		f.Add(s, "", "RS256", []byte("signed"), []byte("signature"))
	}
	f.Add("", "-----BEGIN PUBLIC KEY----- MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE= -----END PUBLIC KEY-----", "EdDSA", []byte{}, make([]byte, 64))
	f.Fuzz(func(t *testing.T, jwk, text, alg string, signed, signature []byte) {
		v, err := newVerifier(model.JWK{JSON: []byte(jwk), PEM: text})
		if err != nil {
			return
		}
		if v.verify(alg, signed, signature) {
			t.Errorf("%q %q %s: %x is the signature of %x", jwk, text, alg, signature, signed)
		}
		der, err := x509.MarshalPKIXPublicKey(v.public)
		if err != nil {
			return // RSA keys without a sensible exponent
		}
		again, err := newVerifier(model.JWK{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))})
		if err != nil || !sameKey(v.public, again.public) {
			t.Errorf("%q %q: %v, then %+v, %v", jwk, text, v.public, again, err)
		}
	})
}

func sameKey(a, b any) bool {
	switch a := a.(type) {
	case *rsa.PublicKey:
		return a.Equal(b.(*rsa.PublicKey))
	case *ecdsa.PublicKey:
		return a.Equal(b.(*ecdsa.PublicKey))
	}
	return bytes.Equal(a.(ed25519.PublicKey), b.(ed25519.PublicKey))
}

// FuzzSigner: a text that is taken for a private key signs, and its key verifies.
func FuzzSigner(f *testing.F) {
	f.Add("-----BEGIN RSA PRIVATE KEY----- AAAA -----END RSA PRIVATE KEY-----")
	f.Add("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	f.Add(string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(smallRSA(f, 512))})))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := NewSigner(text)
		if err != nil {
			return
		}
		signature, err := s.Sign([]byte("text"))
		if err != nil {
			return
		}
		v := verifier{public: &s.key.PublicKey}
		if !v.verify("RS256", []byte("text"), signature) {
			t.Errorf("%q signs wrongly", text)
		}
	})
}

package threescale

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

// A Signer signs with an RSA key by RS256 (RFC 7518 §3.3).
type Signer struct{ key *rsa.PrivateKey }

// NewSigner reads a private key in PEM.
func NewSigner(text string) (*Signer, error) {
	block, _ := pem.Decode(NormalPEM(text))
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		any, otherErr := x509.ParsePKCS8PrivateKey(block.Bytes)
		if otherErr != nil {
			return nil, errors.New("it is no private key") // the parsers' words could show some of it
		}
		var ok bool
		if key, ok = any.(*rsa.PrivateKey); !ok {
			return nil, errors.New("it is no RSA key")
		}
	}
	if n := key.N.BitLen(); n < leastRSA {
		return nil, fmt.Errorf("an RSA key of %d bits is none", n)
	}
	return &Signer{key}, nil
}

// Sign returns the signature of a text. With keys too short for package crypto it
// does by itself what that would, as APIcast does.
func (s *Signer) Sign(text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	if s.key.N.BitLen() >= ownRSA {
		return rsa.SignPKCS1v15(nil, s.key, crypto.SHA256, digest[:])
	}
	m := new(big.Int).SetBytes(padded(s.key.Size(), crypto.SHA256, digest[:]))
	return m.Exp(m, s.key.D, s.key.N).FillBytes(make([]byte, s.key.Size())), nil
}

package jwtauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha256" // for crypto.Hash
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/schema"
)

// Credential is what a consumer holds.
type Credential struct {
	Key                 string `json:"key" schema:"minLen=1,required" doc:"The key that tokens name, unique among consumers."`
	Secret              string `json:"secret" schema:"minLen=1,secret" doc:"Secret of the HS algorithms. May refer to a secret."`
	Algorithm           string `json:"algorithm" schema:"enum=HS256|HS384|HS512|RS256|RS384|RS512|ES256|ES384|ES512|PS256|PS384|PS512|EdDSA,default=HS256" doc:"Signature algorithm (RFC 7518 §3.1, RFC 8037). A token that says another one is refused."`
	Exp                 int    `json:"exp" schema:"min=1,default=86400" doc:"Not used; for configurations of older versions."`
	Base64Secret        bool   `json:"base64_secret" schema:"default=false" doc:"The secret is given in base64."`
	LifetimeGracePeriod int    `json:"lifetime_grace_period" schema:"min=0,default=0" doc:"Seconds by which clocks may differ."`
	PublicKey           string `json:"public_key" schema:"minLen=1" doc:"Public key of the other algorithms, in PEM. May refer to a secret."`

	// check is made when a request first needs it; reading a public key takes its time.
	check atomic.Pointer[check] `json:"-"`
}

// Constraints ties the public key to the algorithm.
func (*Credential) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Keyword("dependencies", `{"algorithm": {"oneOf": [
		{"properties": {"algorithm": {"enum": ["HS256", "HS384", "HS512"], "default": "HS256"}}},
		{
			"properties": {
				"public_key": {"type": "string", "minLength": 1},
				"algorithm": {"enum": ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"]}
			},
			"required": ["public_key"]
		}
	]}}`)}
}

func (c *Credential) symmetric() bool { return strings.HasPrefix(c.Algorithm, "HS") }

// validate is the part of the check that the schema does not do.
func (c *Credential) validate() error {
	switch {
	case c.symmetric() && c.Secret == "":
		return errors.New(`property "secret" is required when using HS based algorithms`)
	case c.Base64Secret && !schema.IsReference(c.Secret) && c.secret() == nil:
		return errors.New("base64_secret required but the secret is not in base64 format")
	case !c.symmetric() && c.PublicKey == "":
		return errors.New("missing valid public key")
	}
	return nil
}

// secret is the secret's bytes; nil: it is not in base64.
func (c *Credential) secret() []byte {
	if !c.Base64Secret {
		return []byte(c.Secret)
	}
	b, err := base64.RawStdEncoding.AppendDecode([]byte{}, []byte(strings.TrimRight(c.Secret, "=")))
	if err != nil {
		return nil
	}
	return b
}

func (c *Credential) grace() time.Duration {
	return schema.Seconds(c.LifetimeGracePeriod)
}

// verify says whether the token was signed with the consumer's key by the
// consumer's algorithm. The token's own idea of its algorithm chooses nothing.
// Extensions that must be understood are not (RFC 7515 §4.1.11). The error says,
// once, why the credential can verify nothing.
func (c *Credential) verify(t token) (ok bool, unusable error) {
	alg := t.header.Member("alg")
	if len(alg) != len(c.Algorithm)+2 || string(alg[1:len(alg)-1]) != c.Algorithm ||
		t.signature == nil || t.header.Member("crit") != nil {
		return false, nil
	}
	by := c.check.Load()
	if by == nil {
		var made check
		if made, unusable = c.checker(); unusable != nil {
			made = func(token) bool { return false }
		}
		by = &made
		c.check.Store(by)
	}
	return (*by)(t), unusable
}

// A check says whether a signature is right.
type check func(token) bool

// checker makes the check of the consumer's algorithm.
func (c *Credential) checker() (check, error) {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[c.Algorithm[2:]]
	if c.symmetric() {
		secret := c.secret()
		switch {
		case schema.IsReference(c.Secret):
			return nil, errors.New("the reference of its secret is not resolved")
		case len(secret) == 0:
			return nil, errors.New("its secret is empty")
		}
		return checkHMAC(hash, secret), nil
	}
	key, err := publicKey(c.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("its public key: %w", err)
	}
	switch key := key.(type) {
	case *rsa.PublicKey:
		return c.checkRSA(hash, key)
	case *ecdsa.PublicKey:
		bits := map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[c.Algorithm]
		if key.Curve.Params().BitSize == bits {
			return checkECDSA(hash, key, (bits+7)/8), nil
		}
	case ed25519.PublicKey:
		if c.Algorithm == "EdDSA" {
			return func(t token) bool { return ed25519.Verify(key, t.signed, t.signature) }, nil
		}
	}
	return nil, c.anotherKind(key)
}

func (c *Credential) anotherKind(key any) error {
	return fmt.Errorf("its public key, a %T, is not for %s", key, c.Algorithm)
}

// publicKey reads a key in PEM.
func publicKey(text string) (any, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	switch block.Type {
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// minRSA is the least size of an RSA key, in bits, that package crypto takes.
const minRSA = 1024

func (c *Credential) checkRSA(hash crypto.Hash, key *rsa.PublicKey) (check, error) {
	switch {
	case key.N.BitLen() < minRSA:
		return nil, fmt.Errorf("its RSA key has %d bits, fewer than %d", key.N.BitLen(), minRSA)
	case strings.HasPrefix(c.Algorithm, "RS"):
		return func(t token) bool { return rsa.VerifyPKCS1v15(key, hash, digest(hash, t.signed), t.signature) == nil }, nil
	case strings.HasPrefix(c.Algorithm, "PS"):
		return func(t token) bool { return rsa.VerifyPSS(key, hash, digest(hash, t.signed), t.signature, nil) == nil }, nil
	}
	return nil, c.anotherKind(key)
}

func digest(of crypto.Hash, text []byte) []byte {
	h := of.New()
	h.Write(text)
	return h.Sum(nil)
}

// A mac is a keyed hash and room for its sum.
type mac struct {
	hash.Hash
	sum [64]byte
}

func checkHMAC(of crypto.Hash, secret []byte) check {
	idle := sync.Pool{New: func() any { return &mac{Hash: hmac.New(of.New, secret)} }}
	return func(t token) bool {
		m := idle.Get().(*mac)
		defer idle.Put(m)
		m.Reset()
		m.Write(t.signed)
		return hmac.Equal(m.Sum(m.sum[:0]), t.signature)
	}
}

// checkECDSA takes signatures of two numbers of that many bytes (RFC 7518 §3.4).
func checkECDSA(hash crypto.Hash, key *ecdsa.PublicKey, size int) check {
	return func(t token) bool {
		if len(t.signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(t.signature[:size]), new(big.Int).SetBytes(t.signature[size:])
		return ecdsa.Verify(key, digest(hash, t.signed), r, s)
	}
}

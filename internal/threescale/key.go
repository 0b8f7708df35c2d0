package threescale

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // for crypto.Hash
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"weir/internal/model"
)

// A verifier checks signatures of one key.
type verifier struct {
	public any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	alg    string // the one that the key is for; empty: any that it can serve
}

var errKey = errors.New("it is no public key of kind RSA, EC or Ed25519")

// newVerifier reads a key of an issuer, its PEM if there is one. What is a secret
// is refused: issuers publish their keys.
func newVerifier(k model.JWK) (*verifier, error) {
	v := &verifier{alg: k.Alg}
	var err error
	if k.PEM != "" {
		v.public, err = publicKey(k.PEM)
	} else {
		v.public, err = publicJWK(k.JSON)
	}
	if err != nil {
		return nil, err
	}
	switch p := v.public.(type) {
	case *rsa.PublicKey:
		if p.N.BitLen() < leastRSA || p.E < 3 {
			return nil, fmt.Errorf("an RSA key of %d bits is none", p.N.BitLen())
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, errKey
	}
	return v, nil
}

// RSA keys of fewer bits than ownRSA, which package crypto refuses, are verified
// here, as APIcast does.
const (
	leastRSA = 512
	ownRSA   = 1024
)

// weak says that what the key signs can be forged by who takes the trouble.
func (v *verifier) weak() bool {
	p, ok := v.public.(*rsa.PublicKey)
	return ok && p.N.BitLen() < ownRSA
}

// publicKey reads a key in PEM, whose line breaks may have become spaces.
func publicKey(text string) (any, error) {
	block, _ := pem.Decode(NormalPEM(text))
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

// NormalPEM is PEM whose line breaks may have become spaces (one-line forms of
// configurations), with line breaks.
func NormalPEM(text string) []byte {
	var out bytes.Buffer
	for text != "" {
		begin := strings.Index(text, "-----BEGIN ")
		if begin < 0 {
			break
		}
		text = text[begin:]
		head := strings.Index(text[len("-----BEGIN "):], "-----")
		if head < 0 {
			break
		}
		head += len("-----BEGIN ") + len("-----")
		end := strings.Index(text, "-----END ")
		if end < head {
			break
		}
		tail := strings.Index(text[end+len("-----END "):], "-----")
		if tail < 0 {
			break
		}
		tail += end + len("-----END ") + len("-----")
		out.WriteString(text[:head] + "\n")
		for line := range strings.FieldsSeq(text[head:end]) {
			out.WriteString(line + "\n")
		}
		out.WriteString(text[end:tail] + "\n")
		text = text[tail:]
	}
	return out.Bytes()
}

// base64URL is base64url, with or without padding.
type base64URL []byte

func (b *base64URL) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	out, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	*b = out
	return err
}

// publicJWK reads a key as JSON (RFC 7517; RFC 7518 §6, RFC 8037).
func publicJWK(raw json.RawMessage) (any, error) {
	var k struct {
		Kind  string    `json:"kty"`
		Curve string    `json:"crv"`
		N     base64URL `json:"n"`
		E     base64URL `json:"e"`
		X     base64URL `json:"x"`
		Y     base64URL `json:"y"`
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, err
	}
	switch k.Kind {
	case "RSA":
		e := new(big.Int).SetBytes(k.E)
		if !e.IsInt64() || e.Int64() > 1<<31-1 {
			return nil, errKey
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(k.N), E: int(e.Int64())}, nil
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Curve]
		if curve == nil {
			return nil, errKey
		}
		size := (curve.Params().BitSize + 7) / 8
		if len(k.X) > size || len(k.Y) > size {
			return nil, errKey
		}
		point := make([]byte, 1+2*size)
		point[0] = 4 // uncompressed
		copy(point[1+size-len(k.X):], k.X)
		copy(point[1+2*size-len(k.Y):], k.Y)
		return ecdsa.ParseUncompressedPublicKey(curve, point)
	case "OKP":
		if k.Curve != "Ed25519" || len(k.X) != ed25519.PublicKeySize {
			return nil, errKey
		}
		return ed25519.PublicKey(k.X), nil
	}
	return nil, errKey
}

// verify says whether the signature is that of the key by the algorithm.
func (v *verifier) verify(alg string, signed, signature []byte) bool {
	if alg == "EdDSA" {
		key, ok := v.public.(ed25519.PublicKey)
		return ok && ed25519.Verify(key, signed, signature)
	}
	hash := hashOf(alg)
	if hash == 0 {
		return false
	}
	h := hash.New()
	h.Write(signed)
	digest := h.Sum(nil)
	switch key := v.public.(type) {
	case *rsa.PublicKey:
		return verifyRSA(key, alg, hash, digest, signature)
	case *ecdsa.PublicKey:
		bits := map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[alg]
		size := (bits + 7) / 8
		if key.Curve.Params().BitSize != bits || len(signature) != 2*size {
			return false
		}
		return ecdsa.Verify(key, digest, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
	return false
}

// hashOf is the hash of an algorithm (RFC 7518 §3.1); 0: it is none that is known.
func hashOf(alg string) crypto.Hash {
	switch alg {
	case "RS256", "PS256", "ES256":
		return crypto.SHA256
	case "RS384", "PS384", "ES384":
		return crypto.SHA384
	case "RS512", "PS512", "ES512":
		return crypto.SHA512
	}
	return 0
}

func verifyRSA(key *rsa.PublicKey, alg string, hash crypto.Hash, digest, signature []byte) bool {
	switch {
	case alg[0] == 'P':
		return rsa.VerifyPSS(key, hash, digest, signature, nil) == nil
	case alg[0] != 'R':
		return false
	case key.N.BitLen() < ownRSA:
		return verifySmall(key, hash, digest, signature)
	}
	return rsa.VerifyPKCS1v15(key, hash, digest, signature) == nil
}

// infos are the beginnings of a DigestInfo (RFC 8017 §9.2 note 1).
var infos = map[crypto.Hash]string{
	crypto.SHA256: "\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
	crypto.SHA384: "\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
	crypto.SHA512: "\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
}

// verifySmall verifies RSASSA-PKCS1-v1_5 (RFC 8017 §8.2.2).
func verifySmall(key *rsa.PublicKey, hash crypto.Hash, digest, signature []byte) bool {
	size := key.Size()
	s := new(big.Int).SetBytes(signature)
	want := padded(size, hash, digest)
	if len(signature) != size || s.Cmp(key.N) >= 0 || want == nil {
		return false
	}
	got := new(big.Int).Exp(s, big.NewInt(int64(key.E)), key.N).FillBytes(make([]byte, size))
	return bytes.Equal(got, want)
}

// padded is what is signed (RFC 8017 §9.2); nil: there is no room for it.
func padded(size int, hash crypto.Hash, digest []byte) []byte {
	filled := size - len(infos[hash]) - len(digest) - 3
	if filled < 8 {
		return nil
	}
	text := append(make([]byte, 0, size), 0, 1)
	text = append(text, bytes.Repeat([]byte{0xff}, filled)...)
	return append(append(append(text, 0), infos[hash]...), digest...)
}

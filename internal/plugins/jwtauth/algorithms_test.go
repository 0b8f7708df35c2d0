package jwtauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

// A signer signs the text of a token.
type signer func(text []byte) []byte

// sign makes a token.
func sign(header, payload string, by signer) string {
	text := encode(header) + "." + encode(payload)
	return text + "." + encode(string(by([]byte(text))))
}

func hashOf(algorithm string) crypto.Hash {
	switch algorithm[2:] {
	case "256":
		return crypto.SHA256
	case "384":
		return crypto.SHA384
	}
	return crypto.SHA512
}

func hmacSigner(algorithm, secret string) signer {
	return func(text []byte) []byte {
		m := hmac.New(hashOf(algorithm).New, []byte(secret))
		m.Write(text)
		return m.Sum(nil)
	}
}

// privateSigner signs with a private key.
func privateSigner(tb testing.TB, algorithm string, key crypto.Signer) signer {
	hash := hashOf(algorithm)
	must := func(b []byte, err error) []byte {
		if err != nil {
			tb.Fatal(err)
		}
		return b
	}
	return func(text []byte) []byte {
		switch k := key.(type) {
		case ed25519.PrivateKey:
			return ed25519.Sign(k, text)
		case *ecdsa.PrivateKey:
			r, s, err := ecdsa.Sign(rand.Reader, k, digest(hash, text))
			size := (k.Curve.Params().BitSize + 7) / 8
			both := must(make([]byte, 2*size), err)
			r.FillBytes(both[:size])
			s.FillBytes(both[size:])
			return both
		case *rsa.PrivateKey:
			if algorithm[0] == 'P' {
				return must(rsa.SignPSS(rand.Reader, k, hash, digest(hash, text), nil))
			}
			return must(rsa.SignPKCS1v15(nil, k, hash, digest(hash, text)))
		}
		panic("no such key")
	}
}

func pemOf(tb testing.TB, key crypto.Signer) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func withKey(tb testing.TB, algorithm, public string) *plugin.Consumer {
	tb.Helper()
	doc, err := json.Marshal(map[string]string{"key": "k", "algorithm": algorithm, "public_key": public, "secret": "s"})
	if err != nil {
		tb.Fatal(err)
	}
	return holding(tb, "jack", string(doc))
}

// keys are one key of every kind.
func keys(tb testing.TB) map[string]crypto.Signer {
	tb.Helper()
	m := map[string]crypto.Signer{}
	put := func(kind string, key crypto.Signer, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		m[kind] = key
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	put("rsa", r, err)
	for kind, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521()} {
		e, err := ecdsa.GenerateKey(curve, rand.Reader)
		put(kind, e, err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	put("ed25519", ed, err)
	return m
}

// TestAlgorithms: every algorithm takes the signatures of its own key and kind
// and no others, the public key's text as an HMAC secret among them.
func TestAlgorithms(t *testing.T) {
	kinds := map[string]string{
		"RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa", "PS512": "rsa",
		"ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed25519",
	}
	all, other := keys(t), keys(t)
	const payload = `{"key":"k"}`
	send := func(algorithm, public, text string) bool {
		ctx := plugintest.NewCtx("/", [2]string{"Authorization", text})
		ctx.Index = plugintest.Consumers{{name, "k"}: withKey(t, algorithm, public)}
		return plugintest.Send(compiled(t, `{}`), ctx) == nil
	}
	for algorithm, kind := range kinds {
		header := `{"alg":"` + algorithm + `"}`
		public := pemOf(t, all[kind])
		good := sign(header, payload, privateSigner(t, algorithm, all[kind]))
		if !send(algorithm, public, good) {
			t.Errorf("%s: refused", algorithm)
		}
		for what, text := range map[string]string{
			"another key":          sign(header, payload, privateSigner(t, algorithm, other[kind])),
			"cut":                  good[:len(good)-4],
			"longer":               good + "AAAA",
			"the key as a secret":  sign(`{"alg":"HS256"}`, payload, hmacSigner("HS256", public)),
			"the same, mislabeled": sign(header, payload, hmacSigner("HS256", public)),
			"no signature":         sign(header, payload, func([]byte) []byte { return nil }),
			"zeros":                sign(header, payload, func([]byte) []byte { return make([]byte, 64) }),
		} {
			if send(algorithm, public, text) {
				t.Errorf("%s: %s accepted", algorithm, what)
			}
		}
		for otherKind, key := range all {
			if otherKind != kind && send(algorithm, pemOf(t, key), good) {
				t.Errorf("%s: accepted with a key of kind %s", algorithm, otherKind)
			}
		}
		for _, public := range []string{"somekey", "$secret://vault/1/k", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"} {
			if send(algorithm, public, good) {
				t.Errorf("%s: accepted with the key %q", algorithm, public)
			}
		}
	}
	for _, pair := range [][2]string{{"RS256", "PS256"}, {"PS256", "RS256"}, {"RS256", "RS512"}} {
		text := sign(`{"alg":"`+pair[0]+`"}`, payload, privateSigner(t, pair[1], all["rsa"]))
		if send(pair[0], pemOf(t, all["rsa"]), text) {
			t.Errorf("%s: a signature of %s accepted", pair[0], pair[1])
		}
	}
}

// TestKeyForms: other forms of PEM.
func TestKeyForms(t *testing.T) {
	key := keys(t)["rsa"].(*rsa.PrivateKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := sign(`{"alg":"RS256"}`, `{"key":"k"}`, privateSigner(t, "RS256", key))
	for kind, der := range map[string][]byte{"RSA PUBLIC KEY": x509.MarshalPKCS1PublicKey(&key.PublicKey), "CERTIFICATE": cert} {
		ctx := plugintest.NewCtx("/", [2]string{"Authorization", text})
		public := string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		ctx.Index = plugintest.Consumers{{name, "k"}: withKey(t, "RS256", public)}
		if plugintest.Send(compiled(t, `{}`), ctx) != nil {
			t.Errorf("%s: refused", kind)
		}
	}
}

// TestUnusable: the operator learns, once, why a credential verifies nothing.
func TestUnusable(t *testing.T) {
	all := keys(t)
	const small = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKebDxlvQMGyEesAL1r1nIJBkSdqu3Hr\n7noq/0ukiZqVQLSJPMOv0oxQSutvvK3hoibwGakDOza+xRITB7cs2cECAwEAAQ==\n-----END PUBLIC KEY-----"
	for _, c := range []struct{ algorithm, public, want string }{
		{"RS256", small, "its RSA key has 512 bits, fewer than 1024"},
		{"ES256", pemOf(t, all["p384"]), "its public key, a *ecdsa.PublicKey, is not for ES256"},
		{"ES256", pemOf(t, all["rsa"]), "its public key, a *rsa.PublicKey, is not for ES256"},
		{"PS256", pemOf(t, all["ed25519"]), "its public key, a ed25519.PublicKey, is not for PS256"},
		{"EdDSA", "somekey", "its public key: it is not in PEM"},
	} {
		held := withKey(t, c.algorithm, c.public).Credential.(*Credential)
		tok, ok := new(buffer).parse(sign(`{"alg":"`+c.algorithm+`"}`, `{}`, func([]byte) []byte { return make([]byte, 64) }))
		if !ok {
			t.Fatal("no token")
		}
		verified, err := held.verify(tok)
		if verified || err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.algorithm, verified, err, c.want)
		}
		if verified, err = held.verify(tok); verified || err != nil {
			t.Errorf("%s, again: %v, %v", c.algorithm, verified, err)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	all := keys(b)
	for _, algorithm := range []string{"HS256", "RS256", "ES256", "EdDSA"} {
		b.Run(algorithm, func(b *testing.B) {
			by, who := hmacSigner("HS256", "s"), withKey(b, algorithm, "x")
			if kind := map[string]string{"RS256": "rsa", "ES256": "p256", "EdDSA": "ed25519"}[algorithm]; kind != "" {
				by, who = privateSigner(b, algorithm, all[kind]), withKey(b, algorithm, pemOf(b, all[kind]))
			}
			text := sign(`{"alg":"`+algorithm+`","typ":"JWT"}`, `{"key":"k","exp":9916239022}`, by)
			ph, ctx := compiled(b, `{}`), plugintest.NewCtx("/", [2]string{"Authorization", "Bearer " + text})
			consumers := plugintest.Consumers{{name, "k"}: who}
			b.ReportAllocs()
			for b.Loop() {
				ctx.Reset()
				ctx.Index = consumers
				if plugintest.Send(ph, ctx) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

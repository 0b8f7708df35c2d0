package threescale

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSigner(t *testing.T) {
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []*rsa.PrivateKey{large, smallRSA(t, 512)} {
		text := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
		s, err := NewSigner(strings.ReplaceAll(text, "\n", " "))
		if err != nil {
			t.Fatal(err)
		}
		signature, err := s.Sign([]byte("text"))
		v := &verifier{public: &key.PublicKey}
		if err != nil || !v.verify("RS256", []byte("text"), signature) || v.verify("RS256", []byte("tex"), signature) {
			t.Errorf("%d bits: %v", key.N.BitLen(), err)
		}
	}
	pair := keyPairs(t)["p256"]
	other, err := x509.MarshalPKCS8PrivateKey(pair.private)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "x", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: other})), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"} {
		if _, err := NewSigner(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	small, large := filepath.Join(dir, "small"), filepath.Join(dir, "large")
	for path, size := range map[string]int{small: 3, large: largestFile + 1} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := ReadFile(small); len(text) != 3 || err != nil {
		t.Errorf("%q %v", text, err)
	}
	for _, path := range []string{large, dir, os.DevNull, filepath.Join(dir, "none")} {
		if _, err := ReadFile(path); err == nil {
			t.Errorf("%s is read", path)
		}
	}
}

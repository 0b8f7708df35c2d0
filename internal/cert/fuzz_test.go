package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"weir/internal/model"
)

// FuzzCompile: an object that is taken has a certificate for every pair, and no
// version that TLS does not know.
func FuzzCompile(f *testing.F) {
	made := pairFor(f, "a.test")
	f.Add(made.Cert, made.Key, made.Cert, "TLSv1.2", "^/a")
	f.Add(made.Cert, made.Key+made.Key, "", "TLSv1.3", "")
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", made.Key, "x", "SSLv3", "(")
	f.Fuzz(func(t *testing.T, certificate, key, ca, version, skip string) {
		m := &model.SSL{ID: "1", Pairs: []model.KeyPair{{Cert: certificate, Key: key}}, ClientCA: ca, SkipMTLSURIs: []string{skip}}
		if version != "" {
			m.Protocols = []string{version}
		}
		c, err := Compile(m, new(tls.Config), func(k string) (string, bool) { return k, k != "" })
		if err != nil {
			return
		}
		if len(c.Config.Certificates) != 1 || c.Config.Certificates[0].PrivateKey == nil || version != "" && c.Config.MinVersion < tls.VersionTLS10 {
			t.Errorf("%+v", c.Config)
		}
		if ca != "" && (c.Client(tls.ConnectionState{}) == nil || c.ClientCAs == nil) {
			t.Errorf("with the CA %q everybody is let in", ca)
		}
		c.Stream()
		c.QUIC()
	})
}

// pairFor makes a certificate for a name, with its key.
func pairFor(t testing.TB, name string) model.KeyPair {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return model.KeyPair{Cert: text("CERTIFICATE", der), Key: text("PRIVATE KEY", private)}
}

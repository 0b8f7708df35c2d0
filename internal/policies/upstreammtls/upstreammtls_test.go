package upstreammtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

// own makes a certificate and its key.
func own(t *testing.T) (certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	doc := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, doc, doc, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func Test(t *testing.T) {
	certificate, key := own(t)
	_, other := own(t)
	embed := func(text string) string {
		return "data:application/x-pem;base64," + base64.StdEncoding.EncodeToString([]byte(text))
	}
	has := func(want threescale.ClientTLS) []plugintest.Request {
		return []plugintest.Request{{Look: func(t *testing.T, c *plugin.Ctx) {
			t.Helper()
			if got := threescale.Of(c).Connect.TLS; got == nil || *got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}}}
	}
	pair := threescale.ClientTLS{Certificate: certificate, Key: key}
	trusting := pair
	trusting.Verify, trusting.CAs = true, certificate
	oneLine := strings.TrimSpace(strings.ReplaceAll(certificate, "\n", " "))
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "paths", Config: fmt.Sprintf(`{"certificate":%q,"certificate_key":%q}`, file(t, certificate), file(t, key)), Requests: has(pair)},
		{Name: "embedded", Config: fmt.Sprintf(`{"certificate_type":"embedded","certificate":%q,"certificate_key_type":"embedded","certificate_key":%q}`, embed(certificate), embed(key)), Requests: has(pair)},
		{
			Name:     "authorities",
			Config:   fmt.Sprintf(`{"certificate":%q,"certificate_key":%q,"ca_certificates":[%q,"rubbish","-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"],"verify":true}`, file(t, certificate), file(t, key), oneLine),
			Requests: has(trusting),
		},
		{Name: "no certificate", Config: `{"verify":true}`, Requests: has(threescale.ClientTLS{Verify: true})},
		{Name: "no file", Config: `{"certificate":"/nowhere","certificate_key":"/nowhere","verify":true}`, Requests: has(threescale.ClientTLS{Verify: true})},
		{Name: "a folder", Config: fmt.Sprintf(`{"certificate":%q,"certificate_key":%q}`, t.TempDir(), t.TempDir()), Requests: has(threescale.ClientTLS{})},
		{Name: "another's key", Config: fmt.Sprintf(`{"certificate":%q,"certificate_key":%q}`, file(t, certificate), file(t, other)), Requests: has(threescale.ClientTLS{})},
		{Name: "unknown type", Config: `{"certificate_type":"text"}`, Invalid: "certificate_type"},
	})
}

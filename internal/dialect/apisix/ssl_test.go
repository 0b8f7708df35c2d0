package apisix

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/document"
	"weir/internal/model"
)

func pemOf(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestCheckSSL(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.b"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ec.Public(), ec)
	cert := pemOf(t, "CERTIFICATE", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(ec)
	key := pemOf(t, "PRIVATE KEY", der, err)

	c := New(Options{OpenKey: func(s string) (string, bool) {
		pem, ok := strings.CutPrefix(s, "sealed:")
		return pem, ok
	}})
	bad := strings.Repeat("x", 128)
	const noCert, noKey = "failed to parse cert: PEM_read_bio_X509_AUX() failed", "failed to parse key: PEM_read_bio_PrivateKey() failed"
	for _, tc := range []struct {
		name, cert, key, rest, want string
	}{
		{"good", cert, key, `"sni":"a.b"`, ""},
		{"chain", cert + cert, key, `"sni":"a.b"`, ""},
		{"sealed key", cert, "sealed:" + key, `"snis":["a.b"]`, ""},
		{"key sealed with another ring", cert, bad, `"sni":"a.b"`, "failed to decrypt previous encrypted key"},
		{"no certificate", bad, key, `"sni":"a.b"`, noCert},
		{"damaged certificate", strings.Replace(cert, "MII", "MIX", 1), key, `"sni":"a.b"`, noCert},
		{"half a chain", cert + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key, `"sni":"a.b"`, noCert},
		{"no key", cert, "---" + bad, `"sni":"a.b"`, noKey},
		{"a certificate as key", cert, cert, `"sni":"a.b"`, noKey},
		{"client", cert, key, `"type":"client"`, ""},
		{"client, broken", bad, key, `"type":"client"`, noCert},
		{"kept elsewhere", "$secret://vault/1/a/cert", key, `"sni":"a.b"`, ""},
		{"no name", cert, key, `"status":1`, "invalid configuration: then clause did not match"},
		{"second pair", cert, key, `"sni":"a.b","certs":[CERT],"keys":[KEY]`, ""},
		{"second pair, broken", cert, key, `"sni":"a.b","certs":[BAD],"keys":[KEY]`, "failed to handle cert-key pair[1]: " + noCert},
		{"client CA", cert, key, `"sni":"a.b","client":{"ca":CERT}`, ""},
		{"client CA, broken", cert, key, `"sni":"a.b","client":{"ca":BAD}`, "failed to validate client_cert: " + noCert},
	} {
		t.Run(tc.name, func(t *testing.T) {
			quote := func(s string) string { return document.NewString(s).String() }
			rest := strings.NewReplacer("CERT", quote(cert), "KEY", quote(key), "BAD", quote(bad)).Replace(tc.rest)
			got := ""
			if err := c.Check(model.KindSSL, fmt.Appendf(nil, `{"cert":%s,"key":%s,%s}`, quote(tc.cert), quote(tc.key), rest)); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCheckKey(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	ecPEM := pemOf(t, "EC PRIVATE KEY", sec1, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ed)
	edPEM := pemOf(t, "PRIVATE KEY", pkcs8, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{ecPEM, edPEM, pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rs), nil),
		"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + ecPEM} {
		if err := checkKey(key); err != nil {
			t.Errorf("%.40s: %v", key, err)
		}
	}
	for _, key := range []string{"", "---", pemOf(t, "PRIVATE KEY", []byte("x"), nil)} {
		if checkKey(key) == nil {
			t.Errorf("%.40s was taken", key)
		}
	}
}

// Only with the plugin ocsp-stapling may an ssl object have a member for it.
func TestStaplingSchema(t *testing.T) {
	const rest = `"sni":"a.test","cert":"$env://CERT","key":"$env://KEY"`
	for _, tc := range []struct {
		enabled        bool
		stapling, want string
	}{
		{false, `{}`, "additional properties forbidden, found ocsp_stapling"},
		{true, `{}`, ""},
		{true, `{"enabled":true,"skip_verify":true,"cache_ttl":60}`, ""},
		{true, `{"cache_ttl":59}`, "expected 59 to be at least 60"},
		{true, `{"enabled":1}`, "wrong type: expected boolean, got number"},
		{true, `true`, "wrong type: expected object, got boolean"},
	} {
		c := New(Options{Stapling: func() bool { return tc.enabled }})
		err := c.Check(model.KindSSL, []byte(`{`+rest+`,"ocsp_stapling":`+tc.stapling+`}`))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v %s: %v", tc.enabled, tc.stapling, err)
		}
		if doc, _ := c.Schema("ssl"); strings.Contains(string(doc), "ocsp_stapling") != tc.enabled {
			t.Errorf("the schema, enabled %v: %s", tc.enabled, doc)
		}
	}
	filled := New(Options{}).Fill(model.KindSSL, []byte(`{`+rest+`,"ocsp_stapling":{"enabled":true}}`))
	if got := filled.Get("ocsp_stapling").Get("cache_ttl"); got == nil || got.Text != "3600" {
		t.Errorf("cache_ttl is %+v", got)
	}
	for text, want := range map[string]*model.Stapling{
		``: nil, `,"ocsp_stapling":{}`: nil, `,"ocsp_stapling":{"enabled":true}`: {TTL: time.Hour},
		`,"ocsp_stapling":{"enabled":true,"skip_verify":true,"cache_ttl":90}`: {SkipVerify: true, TTL: 90 * time.Second},
	} {
		m, err := SSL("1", []byte(`{`+rest+text+`}`))
		if err != nil || !reflect.DeepEqual(m.Stapling, want) {
			t.Errorf("%s: %+v, %v", text, m.Stapling, err)
		}
	}
}

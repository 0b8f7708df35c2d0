package tls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

// pair makes a certificate by that name, and its key, in PEM.
func pair(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}})
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(parameters) + string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func embed(text string) string {
	return "data:application/x-x509-ca-cert;name=a;base64," + base64.StdEncoding.EncodeToString([]byte(text))
}

// shows compiles a policy for a product and returns whose certificate it shows:
// empty for the gateway's own, "refused" for none.
func shows(t *testing.T, config string) (func() string, plugin.Env) {
	t.Helper()
	rt := threescaletest.Runtime(time.Now)
	t.Cleanup(rt.Close)
	rt.TLS = new(tls.Config)
	p := threescaletest.Product(t, rt, `{}`, "")
	env := threescaletest.Env(p)
	if _, err := Policy.Compile([]byte(config), env); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Keep.Release)
	c := p.HandshakeConfig()
	return func() string {
		if c == nil {
			return ""
		}
		shown, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: "a.test"})
		switch {
		case err != nil:
			return "refused"
		case shown == nil:
			return ""
		}
		x, err := x509.ParseCertificate(shown.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return x.Subject.CommonName
	}, env
}

func Test(t *testing.T) {
	dir := t.TempDir()
	oneCert, oneKey := pair(t, "one")
	twoCert, twoKey := pair(t, "two")
	file := func(cert, key string) string {
		return fmt.Sprintf(`{"certificate_path":%q,"certificate_key_path":%q,"certificate":null,"certificate_key":null}`, cert, key)
	}
	data := func(cert, key string) string {
		return fmt.Sprintf(`{"certificate":%q,"certificate_key":%q}`, embed(cert), embed(key))
	}
	one := file(write(t, dir, "one.crt", oneCert), write(t, dir, "one.key", oneKey))
	mixed := file(filepath.Join(dir, "one.crt"), write(t, dir, "two.key", twoKey))
	for name, tc := range map[string]struct{ certificates, want string }{
		"files":                   {one, "one"},
		"embedded":                {data(twoCert, twoKey), "two"},
		"the first":               {one + "," + data(twoCert, twoKey), "one"},
		"the first that is there": {file("/nowhere", "/nowhere") + "," + data(twoCert, twoKey), "two"},
		"none":                    {"", ""},
		"nothing":                 {"{}", ""},
		"half":                    {`{"certificate_path":"a"}`, ""},
		"no file":                 {file("/nowhere", "/nowhere"), ""},
		"no data URL":             {`{"certificate":"x","certificate_key":"y"}`, ""},
		"no PEM":                  {data("x", "y"), ""},
		"another's key":           {mixed, "refused"},
		"another's key, embedded": {data(oneCert, twoKey), "refused"},
		"another's key, then one": {mixed + "," + data(twoCert, twoKey), "two"},
	} {
		if shown, _ := shows(t, `{"certificates":[`+tc.certificates+`]}`); shown() != tc.want {
			t.Errorf("%s: %q, want %q", name, shown(), tc.want)
		}
	}
	if shown, _ := shows(t, `{}`); shown() != "" {
		t.Error("without certificates")
	}
}

// TestChanged: files that are replaced, or come later, are shown without a word to
// the gateway; what is broken does not take the place of what is not.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")
	shown, env := shows(t, fmt.Sprintf(`{"certificates":[{"certificate_path":%q,"certificate_key_path":%q}]}`, cert, key))
	f := openFiles(env, cert, key)
	replace := func(c, k string, want string) {
		t.Helper()
		write(t, dir, "a.crt", c)
		write(t, dir, "a.key", k)
		later := time.Now().Add(time.Duration(len(want)) * time.Second) // whatever the clock of the files
		for _, p := range []string{cert, key} {
			if err := os.Chtimes(p, later, later); err != nil {
				t.Fatal(err)
			}
		}
		f.look()
		if got := shown(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := shown(); got != "" {
		t.Errorf("without files: %q", got)
	}
	oneCert, oneKey := pair(t, "one")
	replace(oneCert, oneKey, "one")
	replace("x", oneKey, "one")
	threeCert, threeKey := pair(t, "three")
	replace(threeCert, threeKey, "three")
	f.Close()
	f.look() // not any more
}

func TestAsk(t *testing.T) {
	rt := threescaletest.Runtime(time.Now)
	defer rt.Close()
	for _, tc := range []struct {
		base *tls.Config
		want tls.ClientAuthType // -1: the gateway's own
	}{
		{nil, -1},
		{&tls.Config{}, tls.RequestClientCert},
		{&tls.Config{ClientAuth: tls.RequestClientCert}, -1},
		{&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}, -1},
	} {
		rt.TLS = tc.base
		p := threescaletest.Product(t, rt, `{}`, "")
		p.Handshake = threescale.Handshake{Ask: true}
		got := tls.ClientAuthType(-1)
		if c := p.HandshakeConfig(); c != nil {
			got = c.ClientAuth
		}
		if got != tc.want {
			t.Errorf("%+v: %v", tc.base, got)
		}
	}
}

package app

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/crypto/ocsp"

	"weir/internal/config"
	"weir/internal/snapshot"
)

// A registrar issues certificates and answers OCSP questions about them, or
// thinks about those with the silent path until the test is over.
type registrar struct {
	t       *testing.T
	cert    *x509.Certificate
	key     crypto.Signer
	url     string
	revoked map[string]bool // by serial number
}

func newRegistrar(t *testing.T) *registrar {
	r := &registrar{t: t, key: ecKey(t), revoked: map[string]bool{}}
	r.cert = r.sign(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign}, r.key)
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/silent" {
			<-over
			return
		}
		r.answer(w, q)
	}))
	r.url = s.URL
	t.Cleanup(func() { close(over); s.Close() })
	return r
}

func (r *registrar) answer(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	about, err := ocsp.ParseRequest(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := ocsp.Response{SerialNumber: about.SerialNumber, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	if r.revoked[about.SerialNumber.String()] {
		a.Status, a.RevokedAt = ocsp.Revoked, time.Now()
	}
	der, err := ocsp.CreateResponse(r.cert, r.cert, a, r.key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(der)
}

func ecKey(t *testing.T) crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign completes c and signs it, with its own key as long as the registrar has none.
func (r *registrar) sign(c *x509.Certificate, key crypto.Signer) *x509.Certificate {
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	c.NotAfter, c.BasicConstraintsValid = time.Now().Add(time.Hour), true
	parent := r.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), r.key)
	if err != nil {
		r.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// issue returns a certificate, with the registrar's own behind it, and its key.
// Its responder is at the path.
func (r *registrar) issue(name, path string, key crypto.Signer) (made *x509.Certificate, cert, secret string) {
	made = r.sign(&x509.Certificate{DNSNames: []string{name}, OCSPServer: []string{r.url + path}}, key)
	var chain bytes.Buffer
	for _, c := range []*x509.Certificate{made, r.cert} {
		_ = pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a Buffer
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		r.t.Fatal(err)
	}
	return made, chain.String(), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func sslObject(t *testing.T, members map[string]any) string {
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stapled is what a handshake tells of the certificate that it shows.
func (r *registrar) stapled(s tls.ConnectionState) (status int, serial string) {
	r.t.Helper()
	shown := s.PeerCertificates[0]
	if len(s.OCSPResponse) == 0 {
		return -1, shown.SerialNumber.String()
	}
	a, err := ocsp.ParseResponseForCert(s.OCSPResponse, shown, r.cert)
	if err != nil {
		r.t.Fatal("an answer that does not fit: ", err)
	}
	return a.Status, shown.SerialNumber.String()
}

func (r *registrar) dial(addr string, cfg *tls.Config) (status int, serial string) {
	r.t.Helper()
	cfg.InsecureSkipVerify = true
	c, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	return r.stapled(c.ConnectionState())
}

// What an OCSP responder says of a certificate goes along in the handshakes of
// HTTP/1.1, HTTP/2, HTTP/3 and of streams, each certificate with its own answer.
func TestOCSPStapling(t *testing.T) {
	o, _ := options(t, t.TempDir(), withKey+"plugins: [ocsp-stapling]\n")
	a := &o.Config.APISIX
	a.SSL.Enable, a.SSL.Listen = true, config.Listeners{{IP: "127.0.0.1", HTTP3: true}}
	a.HTTP.ProxyMode, a.HTTP.EnableIPv6 = "http&stream", false
	a.StreamProxy.TCP = []config.StreamListener{{IP: "127.0.0.1", TLS: true}}
	g := start(t, o)
	defer stop(t, g)
	web, streams := g.Data()[1].String(), g.Streams()[0].String()
	r := newRegistrar(t)
	put := func(id string, members map[string]any) {
		t.Helper()
		if status, answer := do(t, g, "PUT", "/ssls/"+id, sslObject(t, members)); status >= 300 {
			t.Fatal(status, answer)
		}
	}
	on := map[string]any{"enabled": true}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	first, c1, k1 := r.issue("a.test", "/", ecKey(t))
	second, c2, k2 := r.issue("a.test", "/", rsaKey)
	put("1", map[string]any{"sni": "a.test", "cert": c1, "key": k1, "certs": []string{c2}, "keys": []string{k2}, "ocsp_stapling": on})
	onlyRSA := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	for _, tc := range []struct {
		name string
		addr string
		cfg  *tls.Config
		want *x509.Certificate
	}{
		{"TLS 1.3", web, &tls.Config{}, first},
		{"TLS 1.2", web, &tls.Config{MaxVersion: tls.VersionTLS12}, first},
		{"the other certificate", web, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: onlyRSA}, second},
		{"HTTP/2", web, &tls.Config{NextProtos: []string{"h2"}}, first},
		{"a stream", streams, &tls.Config{}, first},
	} {
		until(t, tc.name, func() bool {
			cfg := tc.cfg.Clone()
			cfg.ServerName = "a.test"
			status, serial := r.dial(tc.addr, cfg)
			if serial != tc.want.SerialNumber.String() {
				t.Fatal(tc.name, ": another certificate")
			}
			return status == ocsp.Good
		})
	}
	until(t, "HTTP/3", func() bool {
		q, err := quic.DialAddr(t.Context(), web, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"h3"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer q.CloseWithError(0, "")
		status, _ := r.stapled(q.ConnectionState().TLS)
		return status == ocsp.Good
	})

	_, c3, k3 := r.issue("b.test", "/silent", ecKey(t))
	put("2", map[string]any{"sni": "b.test", "cert": c3, "key": k3, "ocsp_stapling": on})
	put("3", map[string]any{"sni": "c.test", "cert": c1, "key": k1})
	put("4", map[string]any{"sni": "d.test", "cert": c1, "key": k1, "ocsp_stapling": map[string]any{"enabled": false}})
	revoked, c5, k5 := r.issue("e.test", "/", ecKey(t))
	r.revoked[revoked.SerialNumber.String()] = true
	put("5", map[string]any{"sni": "e.test", "cert": c5, "key": k5, "ocsp_stapling": map[string]any{"enabled": true, "skip_verify": true}})
	for _, name := range []string{"b.test", "c.test", "d.test"} {
		if status, _ := r.dial(web, &tls.Config{ServerName: name}); status != -1 {
			t.Errorf("%s: an answer with status %d", name, status)
		}
	}
	until(t, "an answer that the certificate is revoked, which was asked for", func() bool {
		status, _ := r.dial(web, &tls.Config{ServerName: "e.test"})
		return status == ocsp.Revoked
	})

	// Without the plugin nothing is stapled, nor may it be asked for.
	g.state.Enable(snapshot.Selection{Names: []string{"mocking"}})
	if status, _ := r.dial(web, &tls.Config{ServerName: "a.test"}); status != -1 {
		t.Errorf("without the plugin: an answer with status %d", status)
	}
	doc := sslObject(t, map[string]any{"sni": "f.test", "cert": c1, "key": k1, "ocsp_stapling": on})
	if status, answer := do(t, g, "PUT", "/ssls/6", doc); status != 400 || !strings.Contains(answer, "additional properties forbidden, found ocsp_stapling") {
		t.Errorf("%d %s", status, answer)
	}
	g.state.Enable(snapshot.Selection{Names: []string{"ocsp-stapling"}})
	until(t, "an answer with the plugin again", func() bool {
		status, _ := r.dial(web, &tls.Config{ServerName: "a.test"})
		return status == ocsp.Good
	})
	if status, answer := do(t, g, "PUT", "/ssls/6", strings.Replace(doc, `"enabled":true`, `"cache_ttl":59`, 1)); status != 400 || !strings.Contains(answer, "cache_ttl") {
		t.Errorf("%d %s", status, answer)
	}
}

// A changed object keeps the answer about a certificate that stayed: there is no
// handshake without one.
func TestStapleSurvivesChange(t *testing.T) {
	o, _ := options(t, t.TempDir(), withKey+"plugins: [ocsp-stapling]\n")
	o.Config.APISIX.SSL.Enable, o.Config.APISIX.SSL.Listen = true, config.Listeners{{IP: "127.0.0.1"}}
	g := start(t, o)
	defer stop(t, g)
	r := newRegistrar(t)
	_, c, k := r.issue("a.test", "/", ecKey(t))
	members := map[string]any{"sni": "a.test", "cert": c, "key": k, "ocsp_stapling": map[string]any{"enabled": true}}
	ask := func() int {
		status, _ := r.dial(g.Data()[1].String(), &tls.Config{ServerName: "a.test"})
		return status
	}
	put := func() {
		t.Helper()
		if status, answer := do(t, g, "PUT", "/ssls/1", sslObject(t, members)); status >= 300 {
			t.Fatal(status, answer)
		}
	}
	put()
	until(t, "the first answer", func() bool { return ask() == ocsp.Good })
	for i := range 20 {
		members["labels"] = map[string]string{"round": strings.Repeat("x", i+1)}
		put()
		if status := ask(); status != ocsp.Good {
			t.Fatalf("round %d: status %d", i, status)
		}
	}
}

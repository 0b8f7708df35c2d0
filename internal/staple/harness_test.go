package staple

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// An identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial atomic.Int64

// issue makes a certificate that by signs, itself if nil.
func issue(t testing.TB, by *identity, edit func(*x509.Certificate)) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := serial.Add(1)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: "certificate " + big.NewInt(n).String()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), DNSNames: []string{"a.test"},
		BasicConstraintsValid: true,
	}
	if edit != nil {
		edit(c)
	}
	parent, signer := c, crypto.Signer(key)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{made, key}
}

func ca(c *x509.Certificate)       { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign }
func delegate(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning} }

func at(urls ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.OCSPServer = urls }
}

// respond makes an answer about leaf that by signs; with, if not nil, comes along.
func respond(t testing.TB, leaf, issuer, by *identity, with *x509.Certificate, edit func(*ocsp.Response)) []byte {
	t.Helper()
	r := ocsp.Response{
		Status: ocsp.Good, SerialNumber: leaf.cert.SerialNumber, Certificate: with,
		ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour),
	}
	if edit != nil {
		edit(&r)
	}
	der, err := ocsp.CreateResponse(issuer.cert, by.cert, r, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// A responder answers, from memory, every question with the same answer.
type responder struct {
	asked  atomic.Int64
	answer atomic.Pointer[[]byte] // nil: it fails
	last   atomic.Pointer[http.Request]
	body   atomic.Pointer[[]byte]
}

func (r *responder) says(der []byte) { r.answer.Store(&der) }

func (r *responder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.body.Store(&body)
	r.last.Store(q)
	r.asked.Add(1)
	if der := r.answer.Load(); der != nil {
		_, _ = w.Write(*der)
		return
	}
	w.WriteHeader(http.StatusInternalServerError)
}

// RoundTrip makes the responder reachable without a network.
func (r *responder) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w.Result(), nil
}

// newStapler makes one whose responders are all r.
func newStapler(t testing.TB, r *responder) *Stapler {
	s := New(slog.New(slog.DiscardHandler))
	if r != nil {
		s.client.Transport = r
	}
	t.Cleanup(s.Close)
	return s
}

func chain(ids ...*identity) (all []*x509.Certificate) {
	for _, i := range ids {
		all = append(all, i.cert)
	}
	return all
}

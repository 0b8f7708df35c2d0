package tlsvalidation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// begin is the time of the tests.
var begin = time.Unix(1_700_000_000, 0)

// An identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial atomic.Int64

// issue makes a certificate that by signs, itself if nil, valid from an hour before
// to ten hours after begin.
func issue(t testing.TB, by *identity, edit func(*x509.Certificate)) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := serial.Add(1)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: fmt.Sprint("certificate ", n)},
		NotBefore: begin.Add(-time.Hour), NotAfter: begin.Add(10 * time.Hour), BasicConstraintsValid: true,
	}
	if edit != nil {
		edit(c)
	}
	parent, signer := c, key
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

func ca(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign }

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// listing is a list of certificates in a configuration.
func listing(t *testing.T, texts ...string) string {
	t.Helper()
	list := []Certificate{}
	for _, s := range texts {
		list = append(list, Certificate{PEM: s})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (i *identity) pem() string { return text("CERTIFICATE", i.cert.Raw) }

// A bench compiles configurations at a time of its own.
type bench struct {
	t      *testing.T
	now    atomic.Int64 // nanoseconds after begin
	rt     *threescale.Runtime
	keeper plugin.Keeper
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t}
	b.rt = threescaletest.Runtime(func() time.Time { return begin.Add(time.Duration(b.now.Load())) })
	t.Cleanup(b.rt.Close)
	t.Cleanup(b.keeper.Close)
	return b
}

func (b *bench) at(after time.Duration) { b.now.Store(int64(after)) }

func (b *bench) compile(config string) plugin.Phases {
	b.t.Helper()
	p := threescaletest.Product(b.t, b.rt, `{}`, "")
	env := threescaletest.Env(p)
	env.Keep = b.keeper.Uses()
	ph, err := Policy.Compile([]byte(config), env)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(env.Keep.Release)
	if !p.Handshake.Ask {
		b.t.Error("clients are not asked")
	}
	return ph
}

// admits says whether a client with these certificates is; nil stands for a plain
// connection.
func (b *bench) admits(ph plugin.Phases, shown ...*identity) bool {
	b.t.Helper()
	c := threescaletest.Ctx(threescaletest.Product(b.t, b.rt, `{}`, ""), "/")
	c.TLS = new(tls.ConnectionState)
	for _, i := range shown {
		c.TLS.PeerCertificates = append(c.TLS.PeerCertificates, i.cert)
	}
	r := ph.Access(c)
	if r != nil && (r.Status != 400 || string(r.Body) != "TLS certificate validation failed\n") {
		b.t.Errorf("answered %d %q", r.Status, r.Body)
	}
	return r == nil
}

func TestChains(t *testing.T) {
	b := newBench(t)
	root := issue(t, nil, ca)
	middle := issue(t, root, ca)
	client := issue(t, middle, nil)
	other := issue(t, issue(t, nil, ca), nil)
	alone := issue(t, nil, nil)
	old := issue(t, middle, func(c *x509.Certificate) { c.NotAfter = begin.Add(-time.Minute) })
	oneLine := strings.ReplaceAll(middle.pem(), "\n", " ")
	for _, tc := range []struct {
		name    string
		list    string
		whole   bool // allow_partial_chain is false
		shown   []*identity
		admired bool
	}{
		{"the client's own", listing(t, client.pem()), false, []*identity{client}, true},
		{"its issuer", listing(t, middle.pem()), false, []*identity{client}, true},
		{"its issuer, with the chain", listing(t, middle.pem()), false, []*identity{client, middle}, true},
		{"in one line", listing(t, oneLine), false, []*identity{client}, true},
		{"the root alone", listing(t, root.pem()), false, []*identity{client}, false},
		{"the root alone, with the chain", listing(t, root.pem()), false, []*identity{client, middle}, false},
		{"all", listing(t, root.pem(), middle.pem()), false, []*identity{client}, true},
		{"another's", listing(t, middle.pem()), false, []*identity{other}, false},
		{"another's, ours behind", listing(t, middle.pem()), false, []*identity{other, client}, false},
		{"none", listing(t), false, []*identity{client}, false},
		{"unreadable ones are left out", listing(t, "x", middle.pem(), "-----BEGIN CERTIFICATE----- AAAA -----END CERTIFICATE-----"), false, []*identity{client}, true},
		{"ended", listing(t, middle.pem()), false, []*identity{old}, false},
		{"whole chain, the client's own", listing(t, client.pem()), true, []*identity{client}, false},
		{"whole chain, its issuer", listing(t, middle.pem()), true, []*identity{client}, false},
		{"whole chain, all", listing(t, middle.pem(), root.pem()), true, []*identity{client}, true},
		{"whole chain, self-signed", listing(t, alone.pem()), true, []*identity{alone}, true},
	} {
		config := fmt.Sprintf(`{"whitelist":%s,"allow_partial_chain":%v}`, tc.list, !tc.whole)
		ph := b.compile(config)
		for range 2 { // the second time out of memory
			if got := b.admits(ph, tc.shown...); got != tc.admired {
				t.Errorf("%s: admits %v", tc.name, got)
			}
		}
	}
	ph := b.compile(`{"whitelist":` + listing(t, middle.pem()) + `}`)
	if !b.admits(ph, client) {
		t.Error("refused")
	}
	b.at(10*time.Hour + time.Second)
	if b.admits(ph, client) {
		t.Error("what is remembered outlives the certificate")
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}

func TestMissing(t *testing.T) {
	b := newBench(t)
	ph := b.compile(`{"whitelist":[],"error_status":"403"}`)
	p := threescaletest.Product(t, b.rt, `{}`, "")
	for _, state := range []*tls.ConnectionState{nil, {}} {
		c := threescaletest.Ctx(p, "/")
		c.TLS = state
		if r := ph.Access(c); r == nil || r.Status != 403 || string(r.Body) != "No required TLS certificate was sent\n" {
			t.Errorf("%+v", r)
		}
	}
	for _, config := range []string{`{"error_status":99}`, `{"revocation_check_type":"never"}`} {
		if _, err := Policy.Compile([]byte(config), threescaletest.Env(p)); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
}

// revoking makes a list of an issuer's.
func revoking(t testing.TB, by *identity, edit func(*x509.RevocationList), revoked ...*identity) string {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: begin.Add(-time.Minute), NextUpdate: begin.Add(time.Hour)}
	for _, i := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: i.cert.SerialNumber, RevocationTime: begin})
	}
	if edit != nil {
		edit(l)
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, by.cert, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return text("X509 CRL", der)
}

func TestCRL(t *testing.T) {
	b := newBench(t)
	root := issue(t, nil, ca)
	middle := issue(t, root, ca)
	good, bad := issue(t, middle, nil), issue(t, middle, nil)
	namesake := issue(t, nil, func(c *x509.Certificate) { ca(c); c.Subject = middle.cert.Subject })
	extension := func(id asn1.ObjectIdentifier, value []byte) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			l.ExtraExtensions = append(l.ExtraExtensions, pkix.Extension{Id: id, Critical: true, Value: value})
		}
	}
	for _, tc := range []struct {
		name      string
		list      string
		good, bad bool // whether they are admitted
	}{
		{"a list", listing(t, revoking(t, middle, nil, bad)), true, false},
		{"an empty list", listing(t, revoking(t, middle, nil)), true, true},
		{"none", listing(t), false, false},
		{"of another issuer", listing(t, revoking(t, root, nil, bad)), false, false},
		{"of a namesake", listing(t, revoking(t, namesake, nil)), false, false},
		{"of a namesake, and the right one", listing(t, revoking(t, namesake, nil), revoking(t, middle, nil, bad)), true, false},
		{"ended", listing(t, revoking(t, middle, func(l *x509.RevocationList) { l.NextUpdate = begin.Add(-time.Second) })), false, false},
		{"not begun", listing(t, revoking(t, middle, func(l *x509.RevocationList) { l.ThisUpdate = begin.Add(time.Second) })), false, false},
		{"in one line", listing(t, strings.ReplaceAll(revoking(t, middle, nil, bad), "\n", " ")), true, false},
		{"unreadable", listing(t, "x", middle.pem()), false, false},
		{"users only", listing(t, revoking(t, middle, extension(oidScope, []byte{0x30, 3, 0x81, 1, 0xff}), bad)), true, false},
		{"CAs only", listing(t, revoking(t, middle, extension(oidScope, []byte{0x30, 3, 0x82, 1, 0xff}))), false, false},
		{"indirect", listing(t, revoking(t, middle, extension(oidScope, []byte{0x30, 3, 0x84, 1, 0xff}))), false, false},
		{"a part", listing(t, revoking(t, middle, extension(oidScope, []byte{0x30, 6, 0xa0, 4, 0xa0, 2, 0x86, 0}))), false, false},
		{"changes", listing(t, revoking(t, middle, extension(oidDeltaBasis, []byte{2, 1, 1}))), false, false},
		{"unknown", listing(t, revoking(t, middle, extension(asn1.ObjectIdentifier{1, 2, 3}, []byte{5, 0}))), false, false},
	} {
		ph := b.compile(fmt.Sprintf(`{"whitelist":%s,"revocation_check_type":"crl","revoke_list":%s}`, listing(t, middle.pem()), tc.list))
		for range 2 {
			if got := b.admits(ph, good); got != tc.good {
				t.Errorf("%s: admits %v", tc.name, got)
			}
			if got := b.admits(ph, bad); got != tc.bad {
				t.Errorf("%s: admits the revoked one: %v", tc.name, got)
			}
		}
	}
	ph := b.compile(fmt.Sprintf(`{"whitelist":%s,"revocation_check_type":"crl","revoke_list":%s}`, listing(t, middle.pem()), listing(t, revoking(t, middle, nil))))
	if !b.admits(ph, good) {
		t.Error("refused")
	}
	b.at(time.Hour)
	if b.admits(ph, good) {
		t.Error("what is remembered outlives the list")
	}
	b.at(0)
	// A listed certificate whose issuer nobody knows cannot be checked.
	if b.admits(b.compile(fmt.Sprintf(`{"whitelist":%s,"revocation_check_type":"crl","revoke_list":%s}`, listing(t, good.pem()), listing(t, revoking(t, middle, nil)))), good) {
		t.Error("admitted without an issuer")
	}
}

// A source answers questions about certificates.
type source struct {
	*httptest.Server
	t     *testing.T
	by    *identity
	asked atomic.Int64

	mu     sync.Mutex
	answer ocsp.Response // but for the serial number
	signer *identity     // nil: by
	broken string        // instead
	hold   chan struct{}
}

func newSource(t *testing.T, by *identity) *source {
	s := &source{t: t, by: by, answer: ocsp.Response{Status: ocsp.Good, ThisUpdate: begin.Add(-time.Minute), NextUpdate: begin.Add(30 * time.Minute)}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *source) says(edit func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(s)
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.asked.Add(1)
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := ocsp.ParseRequest(body)
	if err != nil || r.Header.Get("Content-Type") != "application/ocsp-request" || r.Method != "POST" {
		s.t.Errorf("%s %v: %v", r.Method, r.Header, err)
	}
	if s.broken != "" {
		io.WriteString(w, s.broken)
		return
	}
	a, signer := s.answer, s.by
	a.SerialNumber = q.SerialNumber
	if s.signer != nil {
		signer = s.signer
		a.Certificate = signer.cert
	}
	der, err := ocsp.CreateResponse(s.by.cert, signer.cert, a, signer.key)
	if err != nil {
		s.t.Error(err)
	}
	w.Write(der)
}

func TestOCSP(t *testing.T) {
	middle := issue(t, issue(t, nil, ca), ca)
	s := newSource(t, middle)
	stranger := issue(t, middle, nil)
	delegate := issue(t, middle, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning} })
	named := func(c *x509.Certificate) { c.OCSPServer = []string{s.URL} }
	for _, tc := range []struct {
		name string
		edit func(*source)
		ok   bool
	}{
		{"good", func(*source) {}, true},
		{"revoked", func(s *source) { s.answer.Status = ocsp.Revoked }, false},
		{"unknown", func(s *source) { s.answer.Status = ocsp.Unknown }, false},
		{"ended", func(s *source) { s.answer.NextUpdate = begin.Add(-time.Second) }, false},
		{"not begun", func(s *source) { s.answer.ThisUpdate = begin.Add(time.Hour) }, false},
		{"garbage", func(s *source) { s.broken = "invalid" }, false},
		{"empty", func(s *source) { s.broken = "\x30\x03\x0a\x01\x03" }, false}, // try later
		{"by who may", func(s *source) { s.signer = delegate }, true},
		{"by who may not", func(s *source) { s.signer = stranger }, false},
	} {
		s.says(func(s *source) {
			s.answer, s.signer, s.broken = ocsp.Response{Status: ocsp.Good, ThisUpdate: begin.Add(-time.Minute), NextUpdate: begin.Add(30 * time.Minute)}, nil, ""
			tc.edit(s)
		})
		b := newBench(t)
		ph := b.compile(`{"whitelist":` + listing(t, middle.pem()) + `,"revocation_check_type":"ocsp"}`)
		client := issue(t, middle, named)
		asked := s.asked.Load()
		for range 3 {
			if got := b.admits(ph, client); got != tc.ok {
				t.Errorf("%s: admits %v", tc.name, got)
			}
		}
		if n := s.asked.Load() - asked; n != 1 {
			t.Errorf("%s: asked %d times", tc.name, n)
		}
	}
	b := newBench(t)
	s.says(func(s *source) { s.signer = nil })
	without := issue(t, middle, nil)
	if b.admits(b.compile(`{"whitelist":`+listing(t, middle.pem())+`,"revocation_check_type":"ocsp"}`), without) {
		t.Error("admitted without a responder")
	}
	if !b.admits(b.compile(`{"whitelist":`+listing(t, middle.pem())+`,"revocation_check_type":"ocsp","ocsp_responder_url":"`+s.URL+`"}`), without) {
		t.Error("the configured responder is not asked")
	}
	if b.admits(b.compile(`{"whitelist":`+listing(t, middle.pem())+`,"revocation_check_type":"ocsp","ocsp_responder_url":"http://127.0.0.1:1/"}`), issue(t, middle, nil)) {
		t.Error("admitted while the responder is down")
	}
}

// TestOCSPRenewed: an answer is replaced before it ends, while requests go on.
func TestOCSPRenewed(t *testing.T) {
	middle := issue(t, issue(t, nil, ca), ca)
	s := newSource(t, middle)
	b := newBench(t)
	ph := b.compile(`{"whitelist":` + listing(t, middle.pem()) + `,"revocation_check_type":"ocsp","cache_ttl":100,"ocsp_responder_url":"` + s.URL + `"}`)
	client := issue(t, middle, nil)
	admitted := func(asked int64) {
		t.Helper()
		if !b.admits(ph, client) {
			t.Error("refused")
		}
		for range 1000 {
			if s.asked.Load() == asked {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("asked %d times, want %d", s.asked.Load(), asked)
	}
	idle := func() { // until the answer is there
		v := b.keeperStatuses()
		for range 1000 {
			if !v.busy() {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Error("the answer never comes")
	}
	admitted(1)
	b.at(74 * time.Second)
	admitted(1)
	// The responder takes its time: nobody waits.
	hold := make(chan struct{})
	s.says(func(s *source) { s.hold = hold })
	b.at(76 * time.Second)
	admitted(2)
	admitted(2)
	s.says(func(s *source) { s.hold = nil })
	close(hold)
	idle()
	b.at(170 * time.Second)
	admitted(3)
	idle()
	// While the responder fails, what is known counts as long as it is valid.
	s.says(func(s *source) { s.broken = "invalid" })
	b.at(260 * time.Second)
	admitted(4)
	idle()
	b.at(261 * time.Second)
	admitted(4)
	b.at(271 * time.Second)
	if b.admits(ph, client) {
		t.Error("admitted by an answer that has ended")
	}
	idle()
	// A certificate that is revoked meanwhile is refused when that is known.
	s.says(func(s *source) { s.broken = "" })
	b.at(280 * time.Second)
	admitted(6)
	idle()
	s.says(func(s *source) { s.answer.Status = ocsp.Revoked })
	b.at(360 * time.Second)
	admitted(7)
	idle()
	if b.admits(ph, client) {
		t.Error("admitted though revoked")
	}
	idle()
}

func (b *bench) keeperStatuses() *statuses {
	env := threescaletest.Env(threescaletest.Product(b.t, b.rt, `{}`, ""))
	env.Keep = b.keeper.Uses()
	return openKnown(env).ocsp
}

func (s *statuses) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.known {
		if e.asking != nil {
			return true
		}
	}
	return false
}

func TestRoom(t *testing.T) {
	b := newBench(t)
	s := b.keeperStatuses()
	for i := range mostStatuses + 10 {
		s.known[statusKey{byte(i), byte(i >> 8)}] = &status{until: begin.Add(time.Duration(i%2-1) * time.Second)}
	}
	s.makeRoom(begin.Add(-500 * time.Millisecond))
	if n := len(s.known); n > mostStatuses*9/10 {
		t.Errorf("%d are known", n)
	}
	for _, e := range s.known {
		if e.asking != nil {
			t.Error("one is asked about")
		}
	}
}

func TestClosed(t *testing.T) {
	b := newBench(t)
	s := b.keeperStatuses()
	s.close()
	if err := s.get(statusKey{}, begin, time.Hour, nil); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

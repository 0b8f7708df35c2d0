package h3

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"weir/internal/engine"
	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/keyauth"
	"weir/internal/snapshot"
	"weir/internal/upstream"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// issue makes a certificate for host.
func issue(t *testing.T, host string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// A gateway serves HTTP/3.
type gateway struct {
	t        *testing.T
	state    *snapshot.Applier
	engine   *engine.Engine
	addr     string
	revision int64
	served   sync.WaitGroup
	stop     func()
}

func start(t *testing.T) *gateway { return startWith(t, func(*engine.Config) {}) }

func startWith(t *testing.T, change func(*engine.Config)) *gateway {
	log := slog.New(slog.DiscardHandler)
	pools := upstream.NewPools()
	g := &gateway{t: t, state: snapshot.New(snapshot.Config{
		Plugins: []plugin.Spec{keyauth.Plugin}, Upstream: upstream.Env{Pools: pools, Log: log},
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, Log: log,
	})}
	cfg := engine.Config{
		State: g.state, Log: log, Server: "Weir", HTTP3: New(Config{IdleTimeout: 10 * time.Second, HeadLimit: 64 << 10}),
		KeepaliveTimeout: 10 * time.Second, HeaderTimeout: 10 * time.Second, BodyTimeout: 10 * time.Second, SendTimeout: 10 * time.Second,
	}
	change(&cfg)
	g.engine = engine.New(cfg)
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = pc.LocalAddr().String()
	g.served.Go(func() {
		if err := g.engine.ServePackets(pc); err != nil {
			t.Error(err)
		}
	})
	g.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.engine.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		g.served.Wait()
		g.state.Close()
		pools.Close()
	})
	t.Cleanup(g.stop)
	return g
}

func (g *gateway) put(kind model.Kind, id, raw string) {
	g.t.Helper()
	g.revision++
	g.state.Apply(model.Delta{Revision: g.revision, Put: []model.Object{{
		Key: model.Key{Kind: kind, ID: id}, Created: g.revision, Modified: g.revision, Raw: []byte(raw),
	}}})
	for path, err := range g.state.Current().Faults {
		g.t.Errorf("%s: %v", path, err)
	}
}

func (g *gateway) ssl(host, more string) {
	cert, key := issue(g.t, host)
	g.put(model.KindSSL, host, fmt.Sprintf(`{"cert":%q,"key":%q,"sni":%q%s}`, cert, key, host, more))
}

func (g *gateway) route(uri string, h http.HandlerFunc, more string) {
	up := httptest.NewServer(h)
	g.t.Cleanup(up.Close)
	g.put(model.KindRoute, uri[1:], fmt.Sprintf(`{"uri":%q,"upstream":{"nodes":{%q:1}}%s}`, uri, up.Listener.Addr(), more))
}

func (g *gateway) client(c *tls.Config) *http.Client {
	tr := &http3.Transport{
		TLSClientConfig: c,
		Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, g.addr, t, q)
		},
	}
	g.t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr}
}

func (g *gateway) trusting() *http.Client { return g.client(&tls.Config{InsecureSkipVerify: true}) }

func ask(t *testing.T, c *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s host=%s forwarded=%s real=%s user=%s %s", r.Method, r.RequestURI, r.Proto, r.Host,
		r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Real-IP"), r.Header.Get("X-Consumer-Username"), b)
}

func TestRequests(t *testing.T) {
	g := start(t)
	g.ssl("a.test", "")
	g.route("/a", echo, `,"plugins":{"key-auth":{}}`)
	g.put(model.KindConsumer, "jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"}}}`)
	c := g.trusting()
	r, body := ask(t, c, "POST", "https://a.test/a?x=1", "hello", "apikey", "k")
	if want := "POST /a?x=1 HTTP/1.1 host=a.test forwarded=https real=127.0.0.1 user=jack hello"; r.StatusCode != 200 || body != want || r.ProtoMajor != 3 {
		t.Errorf("%d HTTP/%d %q", r.StatusCode, r.ProtoMajor, body)
	}
	if r.Header.Get("Server") != "Weir" {
		t.Errorf("%v", r.Header)
	}
	if r, body = ask(t, c, "GET", "https://a.test/a", ""); r.StatusCode != 401 || !strings.Contains(body, "Missing API key") {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	if r, _ = ask(t, c, "GET", "https://a.test/none", ""); r.StatusCode != 404 {
		t.Errorf("%d", r.StatusCode)
	}
	if r, body = ask(t, c, "HEAD", "https://a.test/a", "", "apikey", "k"); r.StatusCode != 200 || body != "" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
}

func TestBodies(t *testing.T) {
	g := start(t)
	g.ssl("a.test", "")
	g.route("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}, "")
	g.route("/trailer", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "abc")
	}, "")
	c := g.trusting()
	var wg sync.WaitGroup
	for i, size := range []int{0, 1, 1000, 1 << 16, 1 << 20, 3 << 20} {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte('a' + i)}, size)
			r, err := c.Post("https://a.test/echo", "text/plain", struct{ io.Reader }{bytes.NewReader(want)})
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes: %v", len(got), size, err)
			}
		})
	}
	wg.Wait()
	if r, body := ask(t, c, "GET", "https://a.test/trailer", ""); body != "body" || r.Trailer.Get("X-Sum") != "abc" {
		t.Errorf("%q %v", body, r.Trailer)
	}
}

// Events pass as they come; a client that leaves ends the upstream's request; an
// answer that is cut does not pass for whole.
func TestStreams(t *testing.T) {
	left := make(chan struct{})
	g := start(t)
	g.ssl("a.test", "")
	g.route("/events", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	}, "")
	g.route("/cut", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "")
	c := g.trusting()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "https://a.test/events", nil)
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var b [3]byte
	if _, err := io.ReadFull(r.Body, b[:]); err != nil || string(b[:]) != "one" {
		t.Fatalf("%q %v", b, err)
	}
	cancel()
	<-left
	if r, err = c.Get("https://a.test/cut"); err == nil { // the reset may overtake the head
		defer r.Body.Close()
		if b, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("%q passed for whole", b)
		}
	}
}

func TestCertificates(t *testing.T) {
	g := start(t)
	ca, key := issue(t, "client")
	pair, err := tls.X509KeyPair([]byte(ca), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	g.ssl("a.test", "")
	g.ssl("b.test", "")
	g.ssl("m.test", fmt.Sprintf(`,"client":{"ca":%q,"depth":1}`, ca))
	g.route("/a", echo, "")
	for _, tc := range []struct {
		host  string
		shown []tls.Certificate
		ok    bool
	}{
		{"a.test", nil, true}, {"b.test", nil, true}, {"c.test", nil, false},
		{"m.test", []tls.Certificate{pair}, true}, {"m.test", nil, false},
	} {
		name := ""
		c := g.client(&tls.Config{InsecureSkipVerify: true, Certificates: tc.shown, VerifyConnection: func(s tls.ConnectionState) error {
			name = s.PeerCertificates[0].Subject.CommonName
			return nil
		}})
		r, err := c.Get("https://" + tc.host + "/a")
		if ok := err == nil && r.StatusCode == 200 && name == tc.host; ok != tc.ok {
			t.Errorf("%s: %v %v %q", tc.host, r, err, name)
		}
		if err == nil {
			r.Body.Close()
		}
	}
}

// Shutdown lets requests finish, and ends connections that have none.
func TestDrain(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	g := start(t)
	g.ssl("a.test", "")
	g.route("/a", echo, "")
	g.route("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		io.WriteString(w, "done")
	}, "")
	if r, _ := ask(t, g.trusting(), "GET", "https://a.test/a", ""); r.StatusCode != 200 { // stays connected
		t.Fatal(r.StatusCode)
	}
	answer := make(chan string, 1)
	go func() {
		r, err := g.trusting().Get("https://a.test/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		answer <- string(b)
	}()
	<-entered
	down := make(chan struct{})
	go func() { g.stop(); close(down) }()
	time.Sleep(50 * time.Millisecond)
	close(release)
	if got := <-answer; got != "done" {
		t.Errorf("%q", got)
	}
	<-down
}

// A client that may not come in is refused at its first packet.
func TestBounds(t *testing.T) {
	g := startWith(t, func(c *engine.Config) { c.MaxPerAddress = 1 })
	g.ssl("a.test", "")
	g.route("/a", echo, "")
	one := g.trusting()
	if r, _ := ask(t, one, "GET", "https://a.test/a", ""); r.StatusCode != 200 {
		t.Fatal(r.StatusCode)
	}
	if r, err := g.trusting().Get("https://a.test/a"); err == nil {
		r.Body.Close()
		t.Error("two at once")
	}
	one.Transport.(*http3.Transport).Close()
	for range 100 {
		if r, err := g.trusting().Get("https://a.test/a"); err == nil {
			r.Body.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("no room after the first had left")
}

// Who does not take an answer, or does not send a body, is given up after the
// time-out, and the upstream's connection with it.
func TestSlowClients(t *testing.T) {
	g := startWith(t, func(c *engine.Config) {
		c.SendTimeout, c.BodyTimeout = 300*time.Millisecond, 300*time.Millisecond
	})
	g.ssl("a.test", "")
	ended := make(chan error, 2)
	g.route("/endless", func(w http.ResponseWriter, r *http.Request) {
		var err error
		for piece := make([]byte, 64<<10); err == nil; {
			_, err = w.Write(piece)
		}
		ended <- err
	}, "")
	g.route("/takes", func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	}, "")
	c := g.client(&tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
	await := func() {
		t.Helper()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the upstream sees a whole body")
			}
		case <-time.After(20 * time.Second):
			t.Error("the upstream's connection lives on")
		}
	}
	r, err := c.Get("https://a.test/endless")
	if err != nil {
		t.Fatal(err)
	}
	await()
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("the answer seems whole")
	}
	r.Body.Close()

	body, send := io.Pipe()
	go send.Write([]byte("x"))
	if r, err = c.Post("https://a.test/takes", "text/plain", body); err != nil {
		t.Fatal(err)
	}
	send.Close()
	r.Body.Close()
	if await(); r.StatusCode != 408 {
		t.Errorf("status %d", r.StatusCode)
	}
}

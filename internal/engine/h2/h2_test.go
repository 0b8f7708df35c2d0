package h2

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
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"weir/internal/engine"
	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/clientcontrol"
	"weir/internal/plugins/faultinjection"
	"weir/internal/plugins/keyauth"
	"weir/internal/snapshot"
	"weir/internal/upstream"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("H2_BENCH"); role != "" {
		os.Exit(benchChild(role))
	}
	leaktest.Main(m)
}

// An authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{}
	a.cert, a.key, a.pem, _ = issue(t, name, nil, nil)
	return a
}

// issue makes a certificate for hosts, signed by ca, or by itself if that is nil.
func issue(t *testing.T, name string, hosts []string, ca *authority) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	t.Helper()
	return issueUntil(t, name, hosts, ca, time.Now().Add(time.Hour))
}

func issueUntil(t *testing.T, name string, hosts []string, ca *authority, end time.Time) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        ca == nil, BasicConstraintsValid: true,
	}
	parent, signer := c, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	x, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return x, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// A gateway serves TLS and plain connections.
type gateway struct {
	t          testing.TB
	state      *snapshot.Applier
	engine     *engine.Engine
	plain, tls net.Listener
	revision   int64
	wg         sync.WaitGroup
	stopped    bool
	pools      *upstream.Pools
}

func start(t testing.TB, more ...plugin.Spec) *gateway {
	return startWith(t, func(*engine.Config) {}, more...)
}

func startWith(t testing.TB, change func(*engine.Config), more ...plugin.Spec) *gateway {
	return startSlow(t, 10*time.Second, 10*time.Second, change, more...)
}

// startSlow runs a gateway whose clients may be idle, and take nothing, for so long.
func startSlow(t testing.TB, idle, send time.Duration, change func(*engine.Config), more ...plugin.Spec) *gateway {
	log := slog.New(slog.DiscardHandler)
	g := &gateway{t: t, pools: upstream.NewPools()}
	g.state = snapshot.New(snapshot.Config{
		Plugins:  append([]plugin.Spec{keyauth.Plugin, faultinjection.Plugin, clientcontrol.Plugin}, more...),
		Upstream: upstream.Env{Pools: g.pools, Log: log},
		TLS:      &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
		Log:      log,
	})
	protocol, err := New(Config{IdleTimeout: idle, SendTimeout: send, HeadLimit: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	cfg := engine.Config{
		State: g.state, Log: log, Server: "Weir", HTTP2: protocol,
		KeepaliveTimeout: 10 * time.Second, HeaderTimeout: 10 * time.Second, BodyTimeout: 10 * time.Second, SendTimeout: send,
	}
	change(&cfg)
	g.engine = engine.New(cfg)
	g.plain, g.tls = listen(t), listen(t)
	g.wg.Go(func() { g.engine.Serve(g.plain) })
	g.wg.Go(func() { g.engine.ServeTLS(g.tls) })
	t.Cleanup(g.stop)
	return g
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (g *gateway) stop() {
	if g.stopped {
		return
	}
	g.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	g.engine.Shutdown(ctx, g.plain, g.tls)
	g.wg.Wait()
	g.state.Close()
	g.pools.Close()
}

// apply is put of what may be broken.
func (g *gateway) apply(kind model.Kind, id, raw string) {
	g.revision++
	key := model.Key{Kind: kind, ID: id}
	created := g.revision
	if old, ok := g.state.Current().Object(key); ok {
		created = old.Created
	}
	g.state.Apply(model.Delta{Revision: g.revision, Put: []model.Object{{
		Key: key, Created: created, Modified: g.revision, Raw: []byte(raw),
	}}})
}

func (g *gateway) put(kind model.Kind, id, raw string) {
	g.t.Helper()
	g.apply(kind, id, raw)
	for path, err := range g.state.Current().Faults {
		g.t.Errorf("%s: %v", path, err)
	}
}

func (g *gateway) route(uri, node, more string) {
	g.put(model.KindRoute, uri[1:], fmt.Sprintf(`{"uri":%q,"upstream":{"type":"roundrobin","nodes":{%q:1}}%s}`, uri, node, more))
}

func (g *gateway) ssl(id, certificate, key, more string) {
	g.put(model.KindSSL, id, fmt.Sprintf(`{"cert":%q,"key":%q%s}`, certificate, key, more))
}

// client speaks to the gateway, as protocol 1 or 2, over TLS with the given
// configuration or, if that is nil, plain.
func (g *gateway) client(protocol int, c *tls.Config) *http.Client {
	addr := g.plain.Addr().String()
	if c != nil {
		addr = g.tls.Addr().String()
	}
	return g.dialing(protocol, c, func() (net.Conn, error) { return net.Dial("tcp", addr) })
}

// dialing is client over other connections.
func (g *gateway) dialing(protocol int, c *tls.Config, dial func() (net.Conn, error)) *http.Client {
	p := new(http.Protocols)
	switch {
	case protocol == 1:
		p.SetHTTP1(true)
	case c != nil:
		p.SetHTTP2(true)
	default:
		p.SetUnencryptedHTTP2(true)
	}
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }, TLSClientConfig: c, Protocols: p, ForceAttemptHTTP2: protocol == 2}
	g.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// echo answers with method, URI, protocol, some headers and the body.
func echo(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Two", "2")
		fmt.Fprintf(w, "%s %s proto=%s host=%s forwarded=%s cookie=%s user=%s body=%d", r.Method, r.RequestURI, r.Proto, r.Host,
			r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Cookie"), r.Header.Get("X-Consumer-Username"), len(b))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func ask(t *testing.T, c *http.Client, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
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

func TestProtocols(t *testing.T) {
	g := start(t)
	up := echo(t)
	_, _, c, k := issue(t, "a.test", []string{"a.test"}, nil)
	g.ssl("1", c, k, `,"sni":"a.test"`)
	g.route("/a", up, `,"plugins":{"key-auth":{}}`)
	g.put(model.KindConsumer, "jack", `{"username":"jack","plugins":{"key-auth":{"key":"k"}}}`)
	trusting := &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"}
	for _, tc := range []struct {
		name     string
		protocol int
		tls      *tls.Config
		scheme   string
	}{
		{"http/1.1", 1, nil, "http"}, {"http/1.1 tls", 1, trusting, "https"},
		{"h2c", 2, nil, "http"}, {"h2", 2, trusting, "https"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := g.client(tc.protocol, tc.tls)
			r, body := ask(t, client, tc.scheme+"://a.test/a?x=1", "apikey", "k", "Cookie", "a=1; b=2", "X-Consumer-Username", "spoofed")
			want := "GET /a?x=1 proto=HTTP/1.1 host=a.test forwarded=" + tc.scheme + " cookie=a=1; b=2 user=jack body=0"
			if r.StatusCode != 200 || body != want || r.ProtoMajor != tc.protocol {
				t.Errorf("%d HTTP/%d %q, want %q", r.StatusCode, r.ProtoMajor, body, want)
			}
			if r.Header.Get("Server") != "Weir" || r.Header.Get("X-Two") != "2" || r.Header.Get("Connection") != "" {
				t.Errorf("%v", r.Header)
			}
			if r, body := ask(t, client, tc.scheme+"://a.test/a"); r.StatusCode != 401 || !strings.Contains(body, "Missing API key") {
				t.Errorf("%d %q", r.StatusCode, body)
			}
			if r, _ := ask(t, client, tc.scheme+"://a.test/none"); r.StatusCode != 404 {
				t.Errorf("%d", r.StatusCode)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	g := start(t)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/trailer" {
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "abc")
			return
		}
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}))
	t.Cleanup(up.Close)
	g.route("/echo", up.Listener.Addr().String(), "")
	g.route("/trailer", up.Listener.Addr().String(), "")
	c := g.client(2, nil)
	var wg sync.WaitGroup
	for i, size := range []int{0, 1, 1000, 1 << 16, 1 << 20, 5 << 20} {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte('a' + i)}, size)
			r, err := c.Post("http://a.test/echo", "text/plain", struct{ io.Reader }{bytes.NewReader(want)})
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
	r, body := ask(t, c, "http://a.test/trailer")
	if body != "body" || r.Trailer.Get("X-Sum") != "abc" {
		t.Errorf("%q trailer %v", body, r.Trailer)
	}
}

// A client that resets its stream ends the call to the upstream.
func TestReset(t *testing.T) {
	left := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(left)
	}))
	t.Cleanup(up.Close)
	g := start(t)
	g.route("/slow", up.Listener.Addr().String(), "")
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://a.test/slow", nil)
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := g.client(2, nil).Do(req); err == nil {
		t.Error("answered")
	}
	<-left
}

// A truncated answer resets the stream.
func TestCut(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(up.Close)
	g := start(t)
	g.route("/cut", up.Listener.Addr().String(), "")
	r, err := g.client(2, nil).Get("http://a.test/cut")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("%q passed for whole", b)
	}
}

// Shutdown lets requests finish and refuses connections no stream of theirs.
func TestDrain(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		io.WriteString(w, "done")
	}))
	t.Cleanup(up.Close)
	g := start(t)
	g.route("/slow", up.Listener.Addr().String(), "")
	answer := make(chan string)
	c := g.client(2, nil)
	go func() {
		r, err := c.Get("http://a.test/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		answer <- string(b)
	}()
	<-entered
	go func() { time.Sleep(50 * time.Millisecond); close(release) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	shut := make(chan error)
	go func() { shut <- g.engine.Shutdown(ctx, g.plain, g.tls) }()
	if got := <-answer; got != "done" {
		t.Errorf("%q", got)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
}

func TestSNI(t *testing.T) {
	g := start(t)
	g.route("/a", echo(t), "")
	pairs := map[string][2]string{}
	for _, n := range []string{"exact", "wild", "any", "newer"} {
		_, _, c, k := issue(t, n, []string{"x"}, nil)
		pairs[n] = [2]string{c, k}
	}
	g.ssl("1", pairs["exact"][0], pairs["exact"][1], `,"snis":["a.test","Upper.Test"]`)
	g.ssl("2", pairs["wild"][0], pairs["wild"][1], `,"sni":"*.a.test"`)
	name := func(sni string) string {
		c, err := tls.Dial("tcp", g.tls.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: sni})
		if err != nil {
			return "refused"
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	expect := func(want map[string]string) {
		t.Helper()
		for sni, w := range want {
			if got := name(sni); got != w {
				t.Errorf("%q: %s, want %s", sni, got, w)
			}
		}
	}
	expect(map[string]string{"a.test": "exact", "upper.test": "exact", "b.a.test": "wild", "c.b.a.test": "refused", "other": "refused", "": "refused"})
	g.ssl("3", pairs["any"][0], pairs["any"][1], `,"sni":"*"`)
	g.ssl("4", pairs["newer"][0], pairs["newer"][1], `,"sni":"a.test"`)
	expect(map[string]string{"a.test": "exact", "c.b.a.test": "any", "other": "any"})
	g.ssl("1", pairs["exact"][0], pairs["exact"][1], `,"sni":"a.test","status":0`)
	expect(map[string]string{"a.test": "newer"})
	g.put(model.KindSSL, "4", fmt.Sprintf(`{"cert":%q,"key":%q,"sni":"a.test"}`, pairs["any"][0], pairs["any"][1]))
	expect(map[string]string{"a.test": "any"})
	g.revision++
	g.state.Apply(model.Delta{Revision: g.revision, Del: []model.Key{{Kind: model.KindSSL, ID: "3"}, {Kind: model.KindSSL, ID: "4"}}})
	expect(map[string]string{"a.test": "refused", "b.a.test": "wild"})
}

func TestClientCertificates(t *testing.T) {
	g := start(t)
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	_, _, c, k := issue(t, "server", []string{"m.test"}, nil)
	g.ssl("strict", c, k, fmt.Sprintf(`,"sni":"m.test","client":{"ca":%q,"depth":1}`, ca.pem))
	g.ssl("lax", c, k, fmt.Sprintf(`,"sni":"s.test","client":{"ca":%q,"depth":1,"skip_mtls_uri_regex":["^/open"]}`, ca.pem))
	g.ssl("plain", c, k, `,"sni":"p.test"`)
	up := echo(t)
	g.route("/a", up, "")
	g.route("/open", up, "")
	show := func(a *authority, end time.Time) []tls.Certificate {
		if a == nil {
			return nil
		}
		_, _, c, k := issueUntil(t, "client", nil, a, end)
		p, err := tls.X509KeyPair([]byte(c), []byte(k))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{p}
	}
	for _, tc := range []struct {
		name, sni, host, path string
		shown                 *authority
		want                  int // 0: no connection
	}{
		{"known", "m.test", "m.test", "/a", ca, 200},
		{"expired", "m.test", "m.test", "/a", ca, 0},
		{"none", "m.test", "m.test", "/a", nil, 0},
		{"of another authority", "m.test", "m.test", "/a", other, 0},
		{"not needed", "s.test", "s.test", "/open", nil, 200},
		{"needed", "s.test", "s.test", "/a", nil, 400},
		{"needed and known", "s.test", "s.test", "/a", ca, 200},
		{"needed and expired", "s.test", "s.test", "/a", ca, 400},
		{"needed, another authority", "s.test", "s.test", "/a", other, 400},
		{"host that needs one over another name", "p.test", "m.test", "/a", nil, 400},
		{"host that needs none", "p.test", "p.test", "/a", nil, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			end := time.Now().Add(time.Hour)
			if strings.HasSuffix(tc.name, "expired") {
				end = time.Now().Add(-time.Minute)
			}
			client := g.client(1, &tls.Config{InsecureSkipVerify: true, ServerName: tc.sni, Certificates: show(tc.shown, end)})
			req, _ := http.NewRequest("GET", "https://"+tc.sni+tc.path, nil)
			req.Host = tc.host
			r, err := client.Do(req)
			got := 0
			if err == nil {
				got = r.StatusCode
				r.Body.Close()
			}
			if got != tc.want {
				t.Errorf("%d, want %d (%v)", got, tc.want, err)
			}
		})
	}
}

// A certificate that changes under load never breaks a handshake, and the next one
// after a change shows what was put; one that cannot be used changes nothing.
func TestCertificateChangesUnderLoad(t *testing.T) {
	g := start(t)
	g.route("/a", echo(t), "")
	_, _, c1, k1 := issue(t, "one", []string{"a.test"}, nil)
	_, _, c2, k2 := issue(t, "two", []string{"a.test"}, nil)
	g.ssl("1", c1, k1, `,"sni":"a.test"`)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := tls.Dial("tcp", g.tls.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
			}
		})
	}
	shown := func() string {
		c, err := tls.Dial("tcp", g.tls.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	for i := range 60 {
		want := "one"
		switch i % 3 {
		case 0:
			want = "two"
			g.ssl("1", c2, k2, `,"sni":"a.test"`)
		case 1:
			g.ssl("1", c1, k1, `,"sni":"a.test"`)
		default: // another's key
			g.apply(model.KindSSL, "1", fmt.Sprintf(`{"cert":%q,"key":%q,"sni":"a.test"}`, c2, k1))
			if g.state.Current().Fault(model.Key{Kind: model.KindSSL, ID: "1"}) == nil {
				t.Fatal("a certificate with another's key is none")
			}
		}
		if got := shown(); got != want {
			t.Fatalf("round %d: certificate %s, want %s", i, got, want)
		}
	}
	close(stop)
	wg.Wait()
}

// Floods that x/net bounds end the connection, not the gateway.
func TestRapidReset(t *testing.T) {
	g := start(t)
	g.route("/a", echo(t), "")
	nc, err := net.Dial("tcp", g.plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(nc, http2.ClientPreface)
	f := http2.NewFramer(nc, nc)
	f.WriteSettings()
	go io.Copy(io.Discard, nc)
	head := []byte{0x82, 0x86, 0x84, 0x41, 0x01, 'a'} // GET http / a
	for id := uint32(1); id < 40001; id += 2 {
		if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true, EndStream: true}) != nil {
			break
		}
		if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break
		}
	}
	if r, body := ask(t, g.client(2, nil), "http://a.test/a"); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, body)
	}
}

// A plain connection lives on after the time that its first bytes had.
func TestPlainConnectionLives(t *testing.T) {
	g := startWith(t, func(c *engine.Config) {
		c.KeepaliveTimeout, c.HeaderTimeout = 200*time.Millisecond, 200*time.Millisecond
	})
	g.route("/a", echo(t), "")
	c := g.client(2, nil)
	for i := range 8 {
		reused := false
		req, _ := http.NewRequest("GET", "http://a.test/a", nil)
		req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
		}))
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if i > 0 && !reused {
			t.Fatalf("request %d had to connect anew", i)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

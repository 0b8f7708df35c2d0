package upstream

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/wire"
)

// A pair is a certificate with its key, in PEM.
type pair struct{ cert, key string }

// issue makes a certificate that signs itself.
func issue(t testing.TB, name string) (pair, tls.Certificate) {
	t.Helper()
	return issueUntil(t, name, time.Now().Add(time.Hour))
}

func issueUntil(t testing.TB, name string, end time.Time) (pair, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	}
	c, err := tls.X509KeyPair([]byte(p.cert), []byte(p.key))
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func roots(p ...pair) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, one := range p {
		pool.AppendCertsFromPEM([]byte(one.cert))
	}
	return pool
}

// A hello is what a node learns of a connection.
type hello struct {
	sni, alpn, client string
	resumed           bool
	version           uint16
}

// secured is a script over TLS; hello tells of every connection.
func secured(cfg *tls.Config, greet func(hello), script func(*peer)) func(*peer) {
	cfg.NextProtos = []string{"h2", "http/1.1"}
	if cfg.ClientAuth == tls.NoClientCert {
		cfg.ClientAuth = tls.RequestClientCert
	}
	return func(p *peer) {
		c := tls.Server(p.Conn, cfg)
		if c.Handshake() != nil {
			return
		}
		s := c.ConnectionState()
		h := hello{sni: s.ServerName, alpn: s.NegotiatedProtocol, resumed: s.DidResume, version: s.Version}
		if len(s.PeerCertificates) > 0 {
			h.client = s.PeerCertificates[0].Subject.CommonName
		}
		greet(h)
		script(&peer{Conn: c, r: bufio.NewReader(c), n: p.n})
		c.Close()
	}
}

// A greeter collects hellos.
type greeter struct {
	mu  sync.Mutex
	all []hello
}

func (g *greeter) greet(h hello) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, h)
}

func (g *greeter) take() []hello {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.all
	g.all = nil
	return all
}

func tlsDoc(t testing.TB, fields map[string]any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestServerName(t *testing.T) {
	_, cert := issue(t, "n.example")
	var g greeter
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, g.greet, echo))
	for _, tc := range []struct {
		name, passHost, host, client, force string
		sni                                 string
	}{
		{name: "pass", client: "client.example", sni: "client.example"},
		{name: "pass with a port", client: "client.example:8443", sni: "client.example"},
		{name: "pass an address", client: "127.0.0.1:80", sni: ""},
		{name: "pass an IPv6 address", client: "[::1]:80", sni: ""},
		{name: "node", passHost: "node", client: "client.example", sni: ""},
		{name: "rewrite", passHost: "rewrite", host: "up.example:99", client: "client.example", sni: "up.example"},
		{name: "forced", passHost: "node", client: "client.example", force: "forced.example", sni: "forced.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := compile(t, &model.Upstream{Scheme: "https", PassHost: tc.passHost, Host: tc.host, Nodes: nodes(node)}, env(pools(t)))
			c := call(t, "GET")
			c.Host, c.ForceHost = tc.client, tc.force
			body := mustDo(t, u, c)
			h := g.take()
			if len(h) != 1 || h[0].sni != tc.sni || h[0].alpn != "http/1.1" || h[0].version != tls.VersionTLS13 {
				t.Fatalf("%+v", h)
			}
			if try := c.Tries[0]; try.Scheme != "https" || !strings.Contains(body, "Host: "+try.Host+"\r\n") || try.Connect <= 0 {
				t.Fatalf("%+v", try)
			}
		})
	}
}

// Connections are kept for what they were made for: server name, client
// certificate and its verification (field case 185), and scheme.
func TestTLSKeepalive(t *testing.T) {
	mine, cert := issue(t, "n.example")
	one, _ := issue(t, "one")
	two, _ := issue(t, "two")
	var g greeter
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, g.greet, echo))
	e := env(pools(t))
	e.Roots = roots(mine)
	with := func(fields map[string]any) *Upstream {
		return compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(node), TLS: tlsDoc(t, fields)}, e)
	}
	plain, verified := with(nil), with(map[string]any{"verify": true})
	first := with(map[string]any{"client_cert": one.cert, "client_key": one.key})
	second := with(map[string]any{"client_cert": two.cert, "client_key": two.key})
	again := with(map[string]any{"client_cert": one.cert, "client_key": one.key})
	for _, tc := range []struct {
		up     *Upstream
		host   string
		opened string // by whom; empty: a kept connection serves
	}{
		{plain, "n.example", "anonymous"},
		{plain, "n.example", ""},
		{plain, "other.example", "anonymous"},
		{plain, "n.example:81", ""}, // the same server name
		{verified, "n.example", "anonymous"},
		{verified, "n.example", ""},
		{first, "n.example", "one"},
		{second, "n.example", "two"},
		{again, "n.example", ""},
		{second, "n.example", ""},
		{plain, "other.example", ""},
	} {
		c := call(t, "GET")
		c.Host = tc.host
		mustDo(t, tc.up, c)
		opened := ""
		for _, h := range g.take() {
			if opened += h.client; h.client == "" {
				opened += "anonymous"
			}
			if h.resumed && tc.up != plain {
				t.Errorf("%s: a session of another kind was resumed", tc.host)
			}
		}
		if opened != tc.opened {
			t.Fatalf("%s: %q opened a connection, want %q", tc.host, opened, tc.opened)
		}
	}
}

func TestResumption(t *testing.T) {
	one, _ := issue(t, "one")
	_, cert := issue(t, "n.example")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		var g greeter
		node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version}, g.greet, echo))
		e := env(pools(t))
		m := &model.Upstream{Scheme: "https", Nodes: nodes(node), Keepalive: &model.Keepalive{Size: 1}}
		u := compile(t, m, e)
		for i := range 3 {
			c := call(t, "GET")
			c.Host = "n.example"
			mustDo(t, u, c)
			if h := g.take(); len(h) != 1 || h[0].resumed != (i > 0) || h[0].version != version {
				t.Fatalf("request %d: %+v", i, h)
			}
		}
		m.TLS = tlsDoc(t, map[string]any{"client_cert": one.cert, "client_key": one.key})
		c := call(t, "GET")
		c.Host = "n.example"
		mustDo(t, compile(t, m, e), c)
		if h := g.take(); len(h) != 1 || h[0].resumed || h[0].client != "one" {
			t.Fatalf("with a client certificate: %+v", h)
		}
	}
}

func TestVerify(t *testing.T) {
	mine, cert := issue(t, "n.example")
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, echo))
	late, over := issueUntil(t, "n.example", time.Now().Add(-time.Minute))
	expired := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{over}}, func(hello) {}, echo))
	for _, tc := range []struct {
		name   string
		node   model.Node
		verify bool
		roots  *x509.CertPool
		host   string
		ok     bool
	}{
		{"not asked for", node, false, nil, "n.example", true},
		{"unknown issuer", node, true, nil, "n.example", false},
		{"known issuer", node, true, roots(mine), "n.example", true},
		{"wrong name", node, true, roots(mine), "other.example", false},
		{"by address", node, true, roots(mine), "127.0.0.1", true},
		{"expired", expired, true, roots(late), "n.example", false},
		{"expired, not asked for", expired, false, nil, "n.example", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := env(pools(t))
			e.Roots = tc.roots
			u := compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(tc.node), TLS: tlsDoc(t, map[string]any{"verify": tc.verify})}, e)
			c := call(t, "GET")
			c.Host = tc.host
			_, _, err := do(u, c)
			if tc.ok && err != nil || !tc.ok && (kindOf(err) != Dial || ours(err).Status() != 502) {
				t.Fatal(err)
			}
		})
	}
}

// A certificate that stands elsewhere is looked up for each request.
func TestClientCertificateByID(t *testing.T) {
	_, cert := issue(t, "n.example")
	var g greeter
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, g.greet, echo))
	var mu sync.Mutex
	var current *Certificate
	e := env(pools(t))
	e.Certificate = func(id string) (*Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if current == nil || id != "7" {
			return nil, errors.New("there is none")
		}
		return current, nil
	}
	u := compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(node, node), TLS: tlsDoc(t, map[string]any{"client_cert_id": 7})}, e)
	c := call(t, "GET")
	_, _, err := do(u, c)
	if kindOf(err) != NoCertificate || ours(err).Status() != 502 || len(c.Tries) != 1 {
		t.Fatal(err, c.Tries)
	}
	for _, name := range []string{"one", "two"} {
		p, _ := issue(t, name)
		next, err := NewCertificate(p.cert, p.key)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		current = next
		mu.Unlock()
		for i := range 2 {
			mustDo(t, u, call(t, "GET"))
			h := g.take()
			if i == 0 && (len(h) != 1 || h[0].client != name) || i == 1 && len(h) != 0 {
				t.Fatalf("%s, request %d: %+v", name, i, h)
			}
		}
	}
	e.Certificate = nil
	u = compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(node), TLS: tlsDoc(t, map[string]any{"client_cert_id": "a"})}, e)
	if _, _, err := do(u, call(t, "GET")); kindOf(err) != NoCertificate {
		t.Fatal(err)
	}
}

func TestTLSSettings(t *testing.T) {
	p, _ := issue(t, "one")
	q, _ := issue(t, "two")
	for _, tc := range []struct {
		doc  map[string]any
		open func(string) (string, bool)
		want string
	}{
		{map[string]any{"client_cert": p.cert, "client_key": p.key}, nil, ""},
		{map[string]any{"client_cert": p.cert, "client_key": "sealed"}, func(string) (string, bool) { return p.key, true }, ""},
		{map[string]any{"client_cert": p.cert, "client_key": "sealed"}, func(string) (string, bool) { return "", false }, "cannot be decrypted"},
		{map[string]any{"client_cert": p.cert, "client_key": q.key}, nil, "private key does not match public key"},
		{map[string]any{"client_cert": "rubbish", "client_key": "rubbish"}, nil, "tls.client_cert and client_key"},
		{map[string]any{"verify": "yes"}, nil, "tls: "},
	} {
		e := env(pools(t))
		e.OpenKey = tc.open
		u, err := Compile(&model.Upstream{ID: "1", Scheme: "https", Nodes: nodes(model.Node{Host: "127.0.0.1", Weight: 1}), TLS: tlsDoc(t, tc.doc)}, e)
		switch {
		case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%v, want %q", err, tc.want)
		case err == nil:
			if u.Nodes()[0] != "127.0.0.1:443" {
				t.Error(u.Nodes())
			}
			u.Close()
		}
		if e.Pools.Len() != 0 {
			t.Error("a refused upstream uses pools")
		}
	}
}

// What waits on an idle connection decides: session tickets do not matter, bytes
// that nobody asked for and the end do.
func TestTLSIdle(t *testing.T) {
	_, cert := issue(t, "n.example")
	for _, tc := range []struct {
		name  string
		does  func(*peer)
		alive bool
	}{
		{"nothing", func(p *peer) { p.gone() }, true},
		{"plaintext", func(p *peer) { p.say("HTTP/1.1 408 Request Timeout\r\n\r\n"); p.gone() }, false},
		{"goodbye", func(p *peer) { _ = p.Conn.(*tls.Conn).CloseWrite(); p.gone() }, false},
		{"end", func(*peer) {}, false},
		{"reset", func(p *peer) {
			raw := p.Conn.(*tls.Conn).NetConn().(*net.TCPConn)
			_ = raw.SetLinger(0)
			raw.Close()
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, tc.does))
			u := compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(node)}, env(pools(t)))
			c := call(t, "GET")
			if err := c.begin(u); err != nil {
				t.Fatal(err)
			}
			defer c.Finish()
			c.Tries = append(c.Tries, Try{})
			if err := c.connect(c.set.pick(c), true); err != nil {
				t.Fatal(err)
			}
			conn := c.conn
			// The tickets of TLS 1.3 come after the handshake, before anything else.
			eventually(t, "something waits", func() bool { return conn.probe.State() != wire.Quiet })
			conn.readBy = time.Unix(1, 0)
			if err := conn.tcp.SetReadDeadline(conn.readBy); err != nil { // as the last request may leave it
				t.Fatal(err)
			}
			if tc.alive {
				for range 3 {
					if !conn.alive() {
						t.Fatal("the connection is good")
					}
				}
				return
			}
			eventually(t, "the connection is not good", func() bool { return !conn.alive() })
		})
	}
}

// Bodies of all sizes pass both ways, also while both sides send.
func TestTLSBodies(t *testing.T) {
	_, cert := issue(t, "n.example")
	node := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, func(p *peer) {
		for {
			_, body, err := p.request()
			if err != nil {
				return
			}
			p.ok(body)
		}
	}))
	u := compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(node)}, env(pools(t)))
	for _, size := range []int{0, 1, maxRecord - 1, maxRecord, maxRecord + 1, 3 << 20} {
		for _, length := range []int64{int64(size), wire.Chunked} {
			c := call(t, "PUT")
			want := bytes.Repeat([]byte("x"), size)
			c.Body, c.Length = struct{ io.Reader }{bytes.NewReader(want)}, length
			if got := mustDo(t, u, c); got != string(want) {
				t.Fatalf("%d bytes became %d", size, len(got))
			}
			if len(c.Tries) != 1 {
				t.Fatal(c.Tries)
			}
		}
	}
}

// A server that knows key exchange by RSA alone is reached.
func TestOldServer(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var g greeter
	node := serve(t, secured(&tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MaxVersion:   tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256},
	}, g.greet, echo))
	mustDo(t, compile(t, &model.Upstream{Scheme: "https", Nodes: nodes(node)}, env(pools(t))), call(t, "GET"))
}

// Where TLS is not spoken, or not at all, another node is tried.
func TestHandshakeFails(t *testing.T) {
	_, cert := issue(t, "n.example")
	good := serve(t, secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, echo))
	for _, tc := range []struct {
		bad  model.Node
		kind Kind
	}{
		{serve(t, func(p *peer) { p.say("HTTP/1.1 400 Bad Request\r\n\r\n"); p.gone() }), Dial},
		{serve(t, func(p *peer) { p.gone() }), Timeout},
	} {
		m := &model.Upstream{Scheme: "https", Nodes: nodes(tc.bad, good), Timeout: model.Timeout{Connect: 300 * time.Millisecond}}
		c := call(t, "GET")
		mustDo(t, compile(t, m, env(pools(t))), c)
		if len(c.Tries) != 2 || kindOf(c.Tries[0].Err) != tc.kind {
			t.Fatalf("%+v", c.Tries)
		}
	}
}

// A plugin may change the scheme of one request.
func TestSchemeOverride(t *testing.T) {
	_, cert := issue(t, "n.example")
	node := serve(t, func(p *peer) {
		if b, err := p.r.Peek(1); err == nil && b[0] == 0x16 {
			secured(&tls.Config{Certificates: []tls.Certificate{cert}}, func(hello) {}, echo)(&peer{Conn: peeked{p.Conn, p.r}, n: p.n})
			return
		}
		echo(p)
	})
	u := compile(t, &model.Upstream{Nodes: nodes(node)}, env(pools(t)))
	for _, scheme := range []string{"https", "http", "", "https"} {
		c := call(t, "GET")
		c.Scheme = scheme
		mustDo(t, u, c)
		if got := c.Tries[0].Scheme; got != scheme && (scheme != "" || got != "http") {
			t.Fatal(got)
		}
	}
	c := call(t, "GET")
	c.Scheme = "ftp"
	if _, _, err := do(u, c); kindOf(err) != BadScheme {
		t.Fatal(err)
	}
	node.Port = 0
	c = call(t, "GET")
	c.Scheme = "https"
	_, _, err := do(compile(t, &model.Upstream{Nodes: nodes(node)}, env(pools(t))), c)
	if kindOf(err) != NoPort || ours(err).Status() != 503 {
		t.Fatal(err)
	}
}

// peeked is a connection of which some was read.
type peeked struct {
	net.Conn
	r io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

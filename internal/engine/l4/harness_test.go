package l4

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/iprestriction"
	"weir/internal/plugins/keyauth"
	"weir/internal/plugins/limitconn"
	"weir/internal/plugins/mqttproxy"
	"weir/internal/plugins/trafficsplit"
	"weir/internal/snapshot"
	"weir/internal/upstream"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patient bounds what a test waits for.
const patient = 10 * time.Second

// A gateway is an engine with one port of each kind.
type gateway struct {
	testing.TB
	*Engine
	state    *snapshot.Applier
	revision int64
	tcp      net.Listener
	udp      *net.UDPConn

	mu     sync.Mutex
	logged []string
}

func start(t testing.TB, how Port, change func(*Config)) *gateway {
	pools := upstream.NewPools()
	g := &gateway{TB: t, state: snapshot.New(snapshot.Config{
		Plugins:       []plugin.Spec{iprestriction.Plugin, keyauth.Plugin},
		StreamPlugins: []plugin.StreamSpec{iprestriction.Stream, limitconn.Stream, mqttproxy.Stream, trafficsplit.Stream},
		Upstream:      upstream.Env{Pools: pools},
	})}
	cfg := Config{State: g.state, Log: slog.New(slog.DiscardHandler), AccessLog: g.log}
	if change != nil {
		change(&cfg)
	}
	g.Engine = New(cfg)
	var err error
	if g.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if g.udp, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := g.Serve(g.tcp, how); err != nil {
			t.Error(err)
		}
	})
	serving.Go(func() {
		if err := g.ServeUDP(g.udp); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = g.Shutdown(now, g.tcp) // that it cuts sessions is not an error here
		serving.Wait()
		g.state.Close()
		pools.Close()
	})
	return g
}

func (g *gateway) log(c *plugin.StreamCtx) {
	g.mu.Lock()
	defer g.mu.Unlock()
	received, _ := c.Var("bytes_received")
	g.logged = append(g.logged, fmt.Sprint(c.Protocol, " ", c.Sent.Status, " ", c.Sent.Bytes, " ", received))
}

// lines waits for n log lines.
func (g *gateway) lines(n int) []string {
	g.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		got := append([]string(nil), g.logged...)
		g.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(end) {
			g.Fatalf("logged %q", got)
		}
	}
}

// put stores objects, each as a path and a document.
func (g *gateway) put(objects ...string) {
	g.Helper()
	g.revision++
	d := model.Delta{Revision: g.revision}
	for i := 0; i < len(objects); i += 2 {
		dir, id, _ := strings.Cut(objects[i], "/")
		for k := range model.KindCount {
			if k.Dir() == dir {
				d.Put = append(d.Put, model.Object{
					Key: model.Key{Kind: k, ID: id}, Created: int64(len(objects)) + g.revision, Modified: g.revision, Raw: []byte(objects[i+1]),
				})
			}
		}
	}
	g.state.Apply(d)
	for path, err := range g.state.Current().Faults {
		g.Logf("%s: %v", path, err)
	}
}

func to(node string) string { return `"upstream":{"nodes":{"` + node + `":1}}` }

// dial connects to the TCP port.
func (g *gateway) dial() *net.TCPConn {
	g.Helper()
	c, err := net.Dial("tcp", g.tcp.Addr().String())
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patient))
	return c.(*net.TCPConn)
}

// ask sends text, ends the connection's sending side and reads everything.
func ask(c net.Conn, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		if err := w.CloseWrite(); err != nil {
			return "", err
		}
	}
	b, err := io.ReadAll(c)
	return string(b), err
}

// node serves TCP connections until the test ends.
func node(t testing.TB, serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, serve)
}

func serveOn(t testing.TB, l net.Listener, serve func(net.Conn)) string {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(patient))
				serve(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// named answers with its name and everything that it got.
func named(t testing.TB, name string) string {
	return node(t, func(c net.Conn) {
		b, err := io.ReadAll(c)
		if err == nil {
			fmt.Fprintf(c, "%s:%s", name, b)
		}
	})
}

// echo sends everything back at once.
func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// certificate is an ssl object for a name, and what a client trusts.
func certificate(t testing.TB, name string) (object string, pair tls.Certificate, roots *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var cert, secret bytes.Buffer
	_ = pem.Encode(&cert, &pem.Block{Type: "CERTIFICATE", Bytes: der})       // a Buffer
	_ = pem.Encode(&secret, &pem.Block{Type: "PRIVATE KEY", Bytes: private}) // takes everything
	doc, err := json.Marshal(map[string]any{"snis": []string{name}, "cert": cert.String(), "key": secret.String()})
	if err != nil {
		t.Fatal(err)
	}
	if pair, err = tls.X509KeyPair(cert.Bytes(), secret.Bytes()); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(cert.Bytes())
	return string(doc), pair, roots
}

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/source/embed"
)

// A front speaks TLS before a store, with clients that its authority knows.
type front struct {
	t        *testing.T
	listener net.Listener
	target   string

	mu    sync.Mutex
	trust *tls.Config
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

func newFront(t *testing.T, target string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{t: t, listener: l, target: target, conns: map[net.Conn]struct{}{}}
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.serve(nc) })
		}
	})
	t.Cleanup(func() { l.Close(); f.cut(); f.wg.Wait() })
	return f
}

// use makes the server's certificate and those of its clients the authority's.
func (f *front) use(a *authority) {
	pair, err := tls.LoadX509KeyPair(a.file("server"), a.file("server-key"))
	if err != nil {
		f.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	f.mu.Lock()
	f.trust = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"}}
	f.mu.Unlock()
	f.cut()
}

func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for nc := range f.conns {
		nc.Close()
	}
}

func (f *front) serve(nc net.Conn) {
	defer nc.Close()
	f.mu.Lock()
	client := tls.Server(nc, f.trust)
	f.conns[nc] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, nc)
	}()
	if client.HandshakeContext(context.Background()) != nil {
		return
	}
	store, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer store.Close()
	f.wg.Go(func() { _, _ = io.Copy(store, client); store.Close() })
	_, _ = io.Copy(client, store)
}

func storeAuthority(t *testing.T) *authority {
	a := newAuthority(t)
	a.issue("server", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	a.issue("client", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	return a
}

// The store's certificate, the gateway's and both CAs are replaced while the gateway
// runs: it goes on with the new files.
func TestStoreCertificatesReplaced(t *testing.T) {
	server, err := embed.Start(t.Context(), embed.Config{Dir: filepath.Join(t.TempDir(), "etcd"), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f, dir := newFront(t, strings.TrimPrefix(server.ClientURL(), "http://")), t.TempDir()
	install := func(a *authority) {
		f.use(a)
		for name, from := range map[string]string{"ca": "ca", "cert": "client", "key": "client-key"} {
			text, err := os.ReadFile(a.file(from))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.cut()
	}
	install(storeAuthority(t))
	s := newSite(t, "") // embedded store of its own, for its upstream only
	o, _ := options(t, t.TempDir(), fmt.Sprintf(`
deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: %[2]s, role: admin}]},
  etcd: {host: ["https://%[3]s"], timeout: 2, tls: {cert: %[1]s/cert, key: %[1]s/key}}}
`, dir, siteKey, f.listener.Addr()))
	o.Config.APISIX.SSL.TrustedCertificate = filepath.Join(dir, "ca")
	g := start(t, o)
	defer stop(t, g)
	mine := *s
	mine.g, mine.proxy, mine.admin = g, "http://"+g.Data()[0].String(), "http://"+g.Admin().String()+"/apisix/admin/"
	mine.put("routes/1", mine.route("/one", s.echo, ""))
	install(storeAuthority(t))
	for end := time.Now().Add(20 * time.Second); mine.call("PUT", "routes/2", mine.route("/two", s.echo, "")) >= 300; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("writes do not work with the new certificates")
		}
	}
	if got := mine.get("/one", ""); got != 200 {
		t.Error(got)
	}
}

// A file that cannot be read leaves the last good certificate in use, and says so.
func TestStoreCertificatesBroken(t *testing.T) {
	a := storeAuthority(t)
	c := &config.Config{}
	c.APISIX.SSL.TrustedCertificate = a.file("ca")
	c.Deployment.Etcd.TLS = config.EtcdTLS{Cert: a.file("client"), Key: a.file("client-key"), Verify: true}
	var log bytes.Buffer
	read, err := etcdTLS(c, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	good, err := read()
	if err != nil || good.RootCAs == nil || len(good.Certificates) != 1 || good.InsecureSkipVerify {
		t.Fatalf("%+v, %v", good, err)
	}
	if err := os.WriteFile(a.file("client-key"), []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := read(); err != nil || again != good || !strings.Contains(log.String(), "deployment.etcd.tls") {
		t.Errorf("%v, %v, %s", again == good, err, &log)
	}
	if _, err := etcdTLS(c, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("at the start a file that cannot be read is an error")
	}
}

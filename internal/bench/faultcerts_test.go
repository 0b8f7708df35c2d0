package bench

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"
)

// A server admits what its authority has issued and is valid, and nothing else.
func TestCertificates(t *testing.T) {
	c, err := newCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if roots, err := os.ReadFile(c.roots()); err != nil || !trusted.AppendCertsFromPEM(roots) {
		t.Fatal("no authority is trusted:", err)
	}
	pair := func(name string) tls.Certificate {
		p, err := tls.LoadX509KeyPair(c.file(name), c.file(name))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { p := pair(ofServer); return &p, nil },
		ClientCAs:      trusted, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func(nc net.Conn) { _, _ = nc.Write([]byte("x")); _ = nc.Close() }(nc)
		}
	}()
	admitted := func() error {
		d := &tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair(ofGateway)}, RootCAs: trusted}}
		return admits(t.Context(), d, ln.Addr().String())
	}
	first := c.issuer
	for _, step := range []struct {
		name   string
		of     string
		issuer *authority
		valid  time.Duration
		refuse bool
	}{
		{"as made", ofGateway, first, validTime, false},
		{"expired client", ofGateway, first, -time.Minute, true},
		{"renewed client", ofGateway, first, validTime, false},
		{"expired server", ofServer, first, -time.Minute, true},
		{"renewed server", ofServer, first, validTime, false},
		{"client of another", ofGateway, other, validTime, true},
	} {
		c.issuer = step.issuer
		if err := c.issue(step.of, step.valid); err != nil {
			t.Fatal(err)
		}
		if err := admitted(); (err != nil) != step.refuse {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"weir/internal/config"
)

// HTTP/3 is served on the UDP port of the same number, by the certificates that
// the Admin API was given.
func TestHTTP3(t *testing.T) {
	o, _ := options(t, t.TempDir(), withKey)
	o.Config.APISIX.SSL.Enable = true
	o.Config.APISIX.SSL.Listen = config.Listeners{{IP: "127.0.0.1", HTTP3: true}}
	g := start(t, o)
	defer stop(t, g)
	a := newAuthority(t)
	a.issue("server", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	pair := map[string]string{"sni": "localhost"}
	for field, name := range map[string]string{"cert": "server", "key": "server-key"} {
		b, err := os.ReadFile(a.file(name))
		if err != nil {
			t.Fatal(err)
		}
		pair[field] = string(b)
	}
	body, err := json.Marshal(pair)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := do(t, g, "PUT", "/ssls/1", string(body)); status != 201 {
		t.Fatal(status, answer)
	}
	addr := g.Data()[1].String()
	tr := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, addr, t, q)
		},
	}
	defer tr.Close()
	r, err := (&http.Client{Transport: tr}).Get("https://localhost/none")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != 404 || r.ProtoMajor != 3 || r.Header.Get("Server") != "Weir" {
		t.Errorf("%d %s %v", r.StatusCode, r.Proto, r.Header)
	}
}

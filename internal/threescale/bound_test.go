package threescale

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/wire"
)

func TestBound(t *testing.T) {
	cert, other := &x509.Certificate{Raw: []byte("DER")}, &x509.Certificate{Raw: []byte("another")}
	sum := sha256.Sum256(cert.Raw)
	cnf := func(v any) *Token { return &Token{Claims: map[string]any{"cnf": v}} }
	thumb := map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}
	shown := func(certs ...*x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: certs}
	}
	for name, tc := range map[string]struct {
		token *Token
		state *tls.ConnectionState
		want  bool
	}{
		"bound":               {cnf(thumb), shown(cert, other), true},
		"another certificate": {cnf(thumb), shown(other, cert), false},
		"no certificate":      {cnf(thumb), shown(), false},
		"plain":               {cnf(thumb), nil, false},
		"no token":            {nil, shown(cert), false},
		"no claim":            {&Token{}, shown(cert), false},
		"odd claim":           {cnf("x5t#S256"), shown(cert), false},
		"odd thumbprint":      {cnf(map[string]any{"x5t#S256": 1.0}), shown(cert), false},
	} {
		c := &plugin.Ctx{Request: new(wire.Request), TLS: tc.state}
		(&Product{Product: new(model.Product)}).Begin(c)
		Of(c).Token = tc.token
		if got := Bound(c); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		End(c)
	}
}

package threescale

import (
	"crypto/sha256"
	"encoding/base64"

	"weir/internal/plugin"
)

// Bound says that a request's token is bound to the certificate that the client
// has shown (RFC 8705 §3.1): the claim cnf has its SHA-256 thumbprint. No token,
// no certificate and no claim are not bound.
func Bound(c *plugin.Ctx) bool {
	token := Of(c).Token
	if token == nil || c.TLS == nil || len(c.TLS.PeerCertificates) == 0 {
		return false
	}
	cnf, _ := token.Claims["cnf"].(map[string]any)
	want, _ := cnf["x5t#S256"].(string)
	sum := sha256.Sum256(c.TLS.PeerCertificates[0].Raw)
	var text [43]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return string(text[:]) == want
}

package app

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"weir/internal/cert"
	"weir/internal/config"
)

// ciphers are OpenSSL's names of the suites that crypto/tls has. The DHE suites
// of APISIX's default list have no counterpart; every client that offers them
// offers ECDHE too.
var ciphers = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	"AES128-GCM-SHA256":             tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
	"AES256-GCM-SHA384":             tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
}

// tlsBase is what all certificates' handshakes have in common (apisix.ssl).
func tlsBase(c *config.SSL, http2 bool) (*tls.Config, error) {
	t := &tls.Config{NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: !c.SessionTickets}
	if http2 {
		t.NextProtos = []string{"h2", "http/1.1"}
	}
	var versions []uint16
	for name := range strings.FieldsSeq(c.Protocols) {
		v, ok := cert.Version(name)
		if !ok {
			return nil, fmt.Errorf("apisix.ssl.ssl_protocols: unknown version %q", name)
		}
		versions = append(versions, v)
	}
	if len(versions) == 0 {
		versions = []uint16{tls.VersionTLS12, tls.VersionTLS13}
	}
	t.MinVersion, t.MaxVersion = slices.Min(versions), slices.Max(versions)
	for name := range strings.SplitSeq(c.Ciphers, ":") {
		if id, ok := ciphers[name]; ok {
			t.CipherSuites = append(t.CipherSuites, id)
		}
	}
	if c.Ciphers != "" && t.CipherSuites == nil {
		return nil, fmt.Errorf("apisix.ssl.ssl_ciphers: none of them is known: %s", c.Ciphers)
	}
	return t, nil
}

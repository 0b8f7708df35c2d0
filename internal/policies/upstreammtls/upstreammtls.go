// Package upstreammtls proves the gateway to upstreams and has them prove
// themselves.
package upstreammtls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is upstream_mtls.
var Policy = plugin.Define(
	plugin.Meta{Name: "upstream_mtls", Doc: "Shows upstreams a certificate and verifies theirs."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	CertificateType string   `json:"certificate_type" schema:"default=path,enum=path|embedded" doc:"What certificate is: a path or a data URL."`
	Certificate     string   `json:"certificate" doc:"The gateway's certificate, and those that lead to its issuer, in PEM."`
	KeyType         string   `json:"certificate_key_type" schema:"default=path,enum=path|embedded" doc:"What certificate_key is: a path or a data URL."`
	Key             string   `json:"certificate_key" schema:"secret" doc:"Its private key in PEM."`
	CAs             []string `json:"ca_certificates" doc:"Certificates in PEM whose holders may vouch for upstreams; none: those of the system."`
	Verify          bool     `json:"verify" doc:"Whether upstreams must prove themselves."`
}

// compile goes on where a certificate cannot be read, as APIcast does: the upstream
// will refuse who shows none.
func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	log := env.Log.With("policy", "upstream_mtls", "owner", env.Owner)
	own := &threescale.ClientTLS{Verify: c.Verify}
	if c.Certificate != "" || c.Key != "" {
		var err error
		if own.Certificate, own.Key, err = pair(c); err != nil {
			log.Error("the certificate for upstreams cannot be used", "err", err)
		}
	}
	for i, text := range c.CAs {
		normal := string(threescale.NormalPEM(text))
		block, _ := pem.Decode([]byte(normal))
		if block == nil {
			log.Warn("a certificate of ca_certificates cannot be read", "entry", i)
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			log.Warn("a certificate of ca_certificates cannot be read", "entry", i, "err", err)
			continue
		}
		own.CAs += normal
	}
	return plugin.Phases{Access: func(c *plugin.Ctx) *plugin.Reply {
		threescale.Of(c).Connect.TLS = own
		return nil
	}}, nil
}

func pair(c *Config) (certificate, key string, err error) {
	if certificate, err = read(c.CertificateType, c.Certificate); err != nil {
		return "", "", fmt.Errorf("certificate: %w", err)
	}
	if key, err = read(c.KeyType, c.Key); err != nil {
		return "", "", fmt.Errorf("certificate_key: %w", err)
	}
	if _, err = tls.X509KeyPair([]byte(certificate), []byte(key)); err != nil {
		return "", "", err
	}
	return certificate, key, nil
}

// largest is the size in bytes that a file may have.
const largest = 1 << 20

func read(kind, value string) (string, error) {
	if kind == "embedded" {
		return threescale.DataURL(value)
	}
	info, err := os.Stat(value)
	if err != nil {
		return "", err
	}
	if info.Size() > largest || !info.Mode().IsRegular() {
		return "", errors.New("it is no file of a certificate's size")
	}
	text, err := os.ReadFile(value)
	return strings.TrimSpace(string(text)) + "\n", err
}

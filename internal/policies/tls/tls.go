// Package tls is the policy that gives a product certificates of its own for the
// handshakes of clients.
package tls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is tls.
var Policy = plugin.Define(
	plugin.Meta{Name: "tls", Doc: "Shows a certificate of the product's own to clients that ask for one of its hosts."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Certificates []Certificate `json:"certificates" doc:"Certificates with their keys; the first that can be read is used."`
}

// Certificate is a certificate with its chain and its key, in PEM: both as files or
// both as data URLs.
type Certificate struct {
	Path    text `json:"certificate_path" doc:"File of the certificate."`
	KeyPath text `json:"certificate_key_path" doc:"File of its key."`

	Embedded    text `json:"certificate" doc:"Data URL of the certificate."`
	EmbeddedKey text `json:"certificate_key" schema:"secret" doc:"Data URL of its key."`
}

// text is a string; null is absent, as 3scale's portal writes it.
type text string

// JSONSchema implements schema.Describer.
func (text) JSONSchema() []byte { return []byte(`{"type":["string","null"]}`) }

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	var list []source
	for i := range c.Certificates {
		s, err := c.Certificates[i].open(env)
		if err != nil {
			env.Log.Warn("could not parse certificate", "policy", "tls", "owner", env.Owner, "certificate", i, "err", err)
		}
		if s != nil {
			list = append(list, s)
		}
	}
	if list == nil {
		env.Log.Warn("No valid certificates loaded", "policy", "tls", "owner", env.Owner)
		return plugin.Phases{}, nil
	}
	threescale.ProductOf(env).Handshake.Certificate = func() (*tls.Certificate, error) { return first(list) }
	return plugin.Phases{}, nil
}

// A source is a pair of a certificate and its key, which may change; nil: it cannot
// be read, and the error is why.
type source func() (*tls.Certificate, error)

// errPair says that a certificate and a key can be read, but are not a pair.
var errPair = errors.New("the key is not the certificate's")

// first is the first pair that can be shown. Nothing at all can be where a key is
// another certificate's, as in APIcast: it has let go of the gateway's own by then.
func first(list []source) (*tls.Certificate, error) {
	var refuse error
	for _, s := range list {
		pair, err := s()
		if pair != nil {
			return pair, nil
		}
		if errors.Is(err, errPair) {
			refuse = err
		}
	}
	return nil, refuse
}

// open reads a pair. One whose source is nil never can be.
func (c *Certificate) open(env plugin.Env) (source, error) {
	switch {
	case c.Embedded != "" && c.EmbeddedKey != "":
		pair, err := read(threescale.DataURL, string(c.Embedded), string(c.EmbeddedKey))
		return func() (*tls.Certificate, error) { return pair, err }, err
	case c.Path != "" && c.KeyPath != "":
		f := openFiles(env, string(c.Path), string(c.KeyPath))
		_, err := f.pair()
		return f.pair, err
	}
	return nil, errors.New("configuration does not match any supported type")
}

func read(get func(string) (string, error), certificate, key string) (*tls.Certificate, error) {
	chain, err := get(certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	secret, err := get(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair([]byte(chain), []byte(secret))
	switch {
	case err == nil:
		return &pair, nil
	case strings.Contains(err.Error(), "does not match"):
		return nil, errPair
	}
	return nil, err
}

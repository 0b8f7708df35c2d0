package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"

	"weir/internal/config"
)

// etcdTLS is what a handshake with the store uses. Its files are read at each: they
// may be replaced while the gateway runs. What cannot be read leaves in use what could.
func etcdTLS(c *config.Config, log *slog.Logger) (func() (*tls.Config, error), error) {
	read := func() (*tls.Config, error) { return readEtcdTLS(c) }
	first, err := read()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	return func() (*tls.Config, error) {
		next, err := read()
		if err != nil {
			log.Error("store: the certificates are what they were before", "err", err)
			return last.Load(), nil
		}
		last.Store(next)
		return next, nil
	}, nil
}

func readEtcdTLS(c *config.Config) (*tls.Config, error) {
	t := &c.Deployment.Etcd.TLS
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.SNI, InsecureSkipVerify: !t.Verify}
	var err error
	if out.RootCAs, err = roots(c.APISIX.SSL.TrustedCertificate); err != nil {
		return nil, err
	}
	if t.Cert == "" {
		return out, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("deployment.etcd.tls: %w", err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

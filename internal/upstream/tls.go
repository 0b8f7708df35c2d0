package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"weir/internal/wire"
)

// maxSessions bounds the TLS sessions that are kept to be resumed.
const maxSessions = 4096

// maxRecord is the payload of one TLS record (RFC 8446 §5.1).
const maxRecord = 16 << 10

// An ident is what two connections to one address must have in common for one
// to serve in place of the other. That of a plain connection is the zero ident.
type ident struct {
	http2  bool // and shared by requests
	tls    bool
	verify bool
	sni    string
	cert   string // fingerprint of the client's certificate; empty: none
	roots  string // fingerprint of what is trusted in place of Env.Roots; empty: nothing
	tunnel tunnel
	head   int // bytes of a response's head; 0: the usual limit
}

// A Certificate is what the gateway shows to an upstream.
type Certificate struct {
	pair        tls.Certificate
	fingerprint string
}

// NewCertificate reads a certificate, with its chain, and its private key, both
// in PEM.
func NewCertificate(cert, key string) (*Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for _, der := range pair.Certificate {
		hash.Write(der)
	}
	return &Certificate{pair, string(hash.Sum(nil))}, nil
}

// tlsSettings are an upstream's tls. The zero value neither verifies nor shows
// anything.
type tlsSettings struct {
	verify bool
	own    *Certificate // that stands in the upstream; nil: none
	id     string       // of one that stands elsewhere; empty: none

	roots   *x509.CertPool // nil: Env.Roots
	rootsID string         // fingerprint of roots
}

func parseTLS(raw []byte, env *Env) (s tlsSettings, err error) {
	if raw == nil {
		return s, nil
	}
	var doc struct {
		ID     any    `json:"client_cert_id"`
		Cert   string `json:"client_cert"`
		Key    string `json:"client_key"`
		Verify bool   `json:"verify"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return s, fmt.Errorf("tls: %w", err)
	}
	s.verify = doc.Verify
	switch id := doc.ID.(type) {
	case string:
		s.id = id
	case float64:
		s.id = strconv.FormatFloat(id, 'f', -1, 64)
	}
	if doc.Cert == "" {
		return s, nil
	}
	key := doc.Key
	if env.OpenKey != nil {
		var ok bool
		if key, ok = env.OpenKey(key); !ok {
			return s, errors.New("tls.client_key cannot be decrypted")
		}
	}
	if s.own, err = NewCertificate(doc.Cert, key); err != nil {
		return s, fmt.Errorf("tls.client_cert and client_key: %w", err)
	}
	return s, nil
}

// trust has certificates verified with these CAs; none: with Env.Roots.
func (s *tlsSettings) trust(cas string) error {
	if cas == "" {
		return nil
	}
	s.roots = x509.NewCertPool()
	if !s.roots.AppendCertsFromPEM([]byte(cas)) {
		return errors.New("none of the CA certificates can be read")
	}
	sum := sha256.Sum256([]byte(cas))
	s.rootsID = string(sum[:])
	return nil
}

// certificate is what is shown now; nil: nothing.
func (s *tlsSettings) certificate(env *Env) (*Certificate, error) {
	switch {
	case s.id == "":
		return s.own, nil
	case env.Certificate == nil:
		return nil, fmt.Errorf("no client certificate with id %q", s.id)
	}
	return env.Certificate(s.id)
}

// config is for one connection.
func (s *tlsSettings) config(env *Env, id *ident, addr string, cert *Certificate) *tls.Config {
	protocol := "http/1.1"
	if id.http2 {
		protocol = "h2"
	}
	cfg := &tls.Config{
		ServerName:         id.sni,
		InsecureSkipVerify: !id.verify,
		RootCAs:            cmp.Or(s.roots, env.Roots),
		NextProtos:         []string{protocol},
		MinVersion:         tls.VersionTLS12,
		CipherSuites:       suites(),
		ClientSessionCache: sessions{env.Pools.sessions, fmt.Sprint(addr, "#", id.cert, "#", id.verify, "#", id.roots, "#", id.tunnel.to, "#")},
	}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{cert.pair}
	}
	return cfg
}

// suites are those of TLS 1.2 that OpenSSL offers by default: Go's own and, for
// old servers, key exchange by RSA.
func suites() []uint16 {
	ids := []uint16{
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
	}
	for _, s := range tls.CipherSuites() {
		ids = append(ids, s.ID)
	}
	return ids
}

// forChecks is what health checks over TLS start from.
func (s *tlsSettings) forChecks(env *Env) *tls.Config {
	cfg := &tls.Config{RootCAs: cmp.Or(s.roots, env.Roots), CipherSuites: suites()}
	if cert, err := s.certificate(env); err == nil && cert != nil {
		cfg.Certificates = []tls.Certificate{cert.pair}
	}
	return cfg
}

// sessions are those that may be resumed by connections of one kind: a session
// carries the identity that was shown, and that the server was verified.
type sessions struct {
	all  tls.ClientSessionCache
	kind string
}

func (s sessions) Get(key string) (*tls.ClientSessionState, bool) { return s.all.Get(s.kind + key) }

func (s sessions) Put(key string, cs *tls.ClientSessionState) { s.all.Put(s.kind+key, cs) }

// beneath is the connection that TLS runs over. While peeking it does not wait.
type beneath struct {
	*net.TCPConn
	probe   *wire.Probe
	peeking bool
}

func (b *beneath) Read(p []byte) (int, error) {
	if b.peeking {
		switch b.probe.State() {
		case wire.Quiet:
			return 0, os.ErrDeadlineExceeded // passes, to crypto/tls
		case wire.Ended:
			return 0, io.EOF
		}
	}
	return b.TCPConn.Read(p)
}

// secure makes c a TLS connection.
func (c *conn) secure(ctx context.Context, cfg *tls.Config) error {
	c.under = &beneath{TCPConn: c.tcp, probe: c.probe}
	c.tls = tls.Client(c.under, cfg)
	c.io = c.tls
	return c.tls.HandshakeContext(ctx)
}

// aliveTLS is alive for TLS: session tickets and key updates that wait are
// taken in, anything else that waits ends the connection.
func (c *conn) aliveTLS() bool {
	if c.probe.State() == wire.Readable {
		// The deadline of the last request must not hide what is there.
		c.readBy = time.Time{}
		if c.tcp.SetReadDeadline(c.readBy) != nil {
			return false
		}
	}
	c.under.peeking = true
	var b [1]byte
	n, err := c.tls.Read(b[:])
	c.under.peeking = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// writeTLS writes small pieces as one record.
func (c *conn) writeTLS(pieces *net.Buffers) error {
	size := 0
	for _, p := range *pieces {
		size += len(p)
	}
	if size > maxRecord {
		n, err := pieces.WriteTo(c.tls)
		c.written += n
		return err
	}
	b := wire.GetBuffer(size)
	defer b.Free()
	all := b.B[:0]
	for _, p := range *pieces {
		all = append(all, p...)
	}
	*pieces = nil
	n, err := c.tls.Write(all)
	c.written += int64(n)
	return err
}

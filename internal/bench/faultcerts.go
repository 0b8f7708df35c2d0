package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are the files with which gateway and store know each other. Each has a
// certificate and its key, so that both change at once.
type certificates struct {
	dir    string
	issuer *authority
}

const (
	ofServer  = "server"
	ofGateway = "gateway"
	validTime = time.Hour
)

func newCertificates(dir string) (*certificates, error) {
	issuer, err := newAuthority()
	if err != nil {
		return nil, err
	}
	c := &certificates{dir: dir, issuer: issuer}
	return c, errors.Join(c.trust(issuer), c.issue(ofServer, validTime), c.issue(ofGateway, validTime))
}

func (c *certificates) file(name string) string { return filepath.Join(c.dir, name+".pem") }

// roots is the file with the authorities that both sides trust.
func (c *certificates) roots() string { return c.file("roots") }

// issue replaces a certificate by one that is valid for so long; it may be over.
func (c *certificates) issue(name string, valid time.Duration) error {
	text, err := c.issuer.issue(name, time.Now().Add(valid))
	if err != nil {
		return err
	}
	return replaceFile(c.file(name), text)
}

// trust replaces the authorities.
func (c *certificates) trust(all ...*authority) error {
	var text []byte
	for _, a := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})...)
	}
	return replaceFile(c.roots(), text)
}

// replaceFile lets nobody read half of it.
func replaceFile(name string, text []byte) error {
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := template("authority", time.Now().Add(validTime))
	c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// template is a certificate for loopback that began long ago.
func template(name string, end time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: end, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

// issue is a certificate with its key, in PEM.
func (a *authority) issue(name string, end time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := template(name, end)
	c.KeyUsage = x509.KeyUsageDigitalSignature
	// etcd uses the server's for a client of its own as well.
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// rotateCertificates renews the certificates of both sides while they run, lets first
// the gateway's and then the store's expire, and has another authority take the place
// of the first, whose certificates are refused then.
func rotateCertificates(ctx context.Context, t *trial) error {
	certs := t.cluster.certs
	if err := t.renewCertificates(ctx); err != nil {
		return err
	}
	for _, name := range []string{ofGateway, ofServer} {
		if err := t.expire(ctx, name); err != nil {
			return err
		}
	}
	old, err := os.ReadFile(certs.file(ofGateway))
	if err != nil {
		return err
	}
	if err := t.changeAuthority(ctx); err != nil {
		return err
	}
	return t.cluster.refuses(ctx, old)
}

// renewCertificates must not be noticed.
func (t *trial) renewCertificates(ctx context.Context) error {
	certs := t.cluster.certs
	if err := errors.Join(certs.issue(ofServer, validTime), certs.issue(ofGateway, validTime)); err != nil {
		return err
	}
	t.cluster.each((*relay).drop)
	t.mended = time.Now()
	return t.recover(ctx)
}

// expire has a certificate be over for a while, in which nothing can be written.
func (t *trial) expire(ctx context.Context, name string) error {
	certs := t.cluster.certs
	if err := certs.issue(name, -time.Minute); err != nil {
		return err
	}
	t.cluster.each((*relay).drop)
	before, err := t.cluster.revision(ctx)
	if err != nil {
		return err
	}
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	after, err := t.cluster.revision(ctx)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the certificate of the %s is over, and the store went from revision %d to %d", name, before, after)
	}
	if err := certs.issue(name, validTime); err != nil {
		return err
	}
	t.mended, t.result.Recovery = time.Now(), 0
	if err := t.recover(ctx); err != nil {
		return err
	}
	t.note("the certificate of the %s was over for %v; %.2f s after it was renewed a write was live", name, t.opts.hold, t.result.Recovery)
	return nil
}

// changeAuthority has both sides trust two for a while; members read whom they trust
// when they start.
func (t *trial) changeAuthority(ctx context.Context) error {
	certs := t.cluster.certs
	next, err := newAuthority()
	if err != nil {
		return err
	}
	if err := certs.trust(certs.issuer, next); err != nil {
		return err
	}
	if err := t.cluster.roll(ctx); err != nil {
		return err
	}
	certs.issuer = next
	if err := t.renewCertificates(ctx); err != nil {
		return err
	}
	if err := certs.trust(next); err != nil {
		return err
	}
	if err := t.cluster.roll(ctx); err != nil {
		return err
	}
	t.cluster.each((*relay).drop)
	return t.recover(ctx)
}

// roll starts the members anew, one after the other.
func (c *cluster) roll(ctx context.Context) error {
	for _, m := range c.members {
		m.proc.stop()
		if err := c.start(m); err != nil {
			return err
		}
		for {
			try, cancel := context.WithTimeout(ctx, time.Second)
			st, err := c.client.Status(try, m.url())
			cancel()
			if err == nil && st.Leader != 0 {
				break
			}
			if !sleepUntil(ctx, time.Now().Add(50*time.Millisecond)) {
				return fmt.Errorf("%s does not come back: %w", m.name, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

// refuses makes sure that no member admits a certificate (PEM, with its key).
func (c *cluster) refuses(ctx context.Context, text []byte) error {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(c.certs.issuer.cert)
	d := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted, MinVersion: tls.VersionTLS12}}
	for _, m := range c.members {
		if err := admits(ctx, &d, m.relay.server.addr()); err == nil {
			return fmt.Errorf("%s admits a certificate of an authority that it does not trust", m.name)
		}
	}
	return nil
}

// admits is nil if a server does not end the connection because of its client's
// certificate, which with TLS 1.3 shows after the handshake.
func admits(ctx context.Context, d *tls.Dialer, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
	if _, err = io.ReadFull(nc, make([]byte, 1)); ctx.Err() != nil {
		return nil
	}
	return err
}

// Package staple keeps what OCSP responders say of the gateway's certificates
// (RFC 6960), to be sent along in handshakes (RFC 6066 §8). It asks them in the
// background: a handshake takes what is there.
package staple

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Why nothing can be stapled to a certificate.
var (
	ErrNoIssuer    = errors.New("the chain does not have the certificate's issuer")
	ErrNoResponder = errors.New("the certificate names no OCSP responder")
)

const (
	asking      = 8 // responders at once
	firstPause  = 5 * time.Second
	longPause   = 5 * time.Minute
	shortestTTL = time.Second // between answers, however short they are valid
)

// A Stapler keeps the answers of all certificates. Make it with New.
type Stapler struct {
	log     *slog.Logger
	client  *http.Client
	now     func() time.Time
	turn    chan struct{} // to ask a responder
	context context.Context
	end     context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	staples map[key]*Staple
}

// A key is a certificate, its issuer, and whether answers are believed unseen.
type key struct {
	certificates [sha256.Size]byte
	trusting     bool
}

// A Staple is what a responder last said of one certificate, and asks again in
// time. It belongs to all that hold it.
type Staple struct {
	stapler      *Stapler
	key          key
	leaf, issuer *x509.Certificate
	users        int          // guarded by Stapler.mu
	ttl          atomic.Int64 // nanoseconds
	current      atomic.Pointer[answer]
	stop         context.CancelFunc
}

// Options are how answers are treated.
type Options struct {
	// SkipVerify believes answers whoever signed them, and passes on that a
	// certificate is revoked.
	SkipVerify bool

	// TTL is how long an answer is used before the responder is asked again. One
	// that ends earlier is replaced earlier. The last one to hold a certificate
	// decides for all, from the next answer on.
	TTL time.Duration
}

// New makes a Stapler; Close ends it.
func New(log *slog.Logger) *Stapler {
	s := &Stapler{log: log, client: newClient(), now: time.Now, turn: make(chan struct{}, asking), staples: map[key]*Staple{}}
	s.context, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends the asking. What is held has no answers any more in time.
func (s *Stapler) Close() {
	s.end()
	s.wg.Wait()
}

// Hold returns the staple of a chain's first certificate, which is shared with
// all who hold one of the same, and has the responder asked. Release ends that.
func (s *Stapler) Hold(chain []*x509.Certificate, o Options) (*Staple, error) {
	leaf := chain[0]
	issuer := issuerOf(leaf, chain[1:])
	switch {
	case issuer == nil:
		return nil, ErrNoIssuer
	case len(leaf.OCSPServer) == 0:
		return nil, ErrNoResponder
	}
	k := key{sha256.Sum256(append(bytes.Clone(leaf.Raw), issuer.Raw...)), o.SkipVerify}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.staples[k]
	if t == nil {
		t = &Staple{stapler: s, key: k, leaf: leaf, issuer: issuer}
		t.ttl.Store(int64(o.TTL))
		s.staples[k] = t
		var ctx context.Context
		ctx, t.stop = context.WithCancel(s.context)
		s.wg.Go(func() { t.keep(ctx) })
	}
	t.ttl.Store(int64(o.TTL))
	t.users++
	return t, nil
}

func issuerOf(leaf *x509.Certificate, others []*x509.Certificate) *x509.Certificate {
	for _, c := range others {
		if bytes.Equal(c.RawSubject, leaf.RawIssuer) && leaf.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}

// Release ends the use by one that holds t; the last one ends the asking.
func (t *Staple) Release() {
	s := t.stapler
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(s.staples, t.key)
		t.stop()
	}
}

// Response is the answer that is to be sent, in DER; nil: there is none that is
// valid. It never waits.
func (t *Staple) Response() []byte {
	a := t.current.Load()
	if a == nil || !a.until.After(t.stapler.now()) {
		return nil
	}
	return a.der
}

// keep asks the responder again and again.
func (t *Staple) keep(ctx context.Context) {
	failed := firstPause
	for {
		pause, err := t.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.stapler.log.Error("no OCSP answer for a certificate", "certificate", t.leaf.Subject, "again", failed, "err", err)
			pause, failed = failed, min(2*failed, longPause)
		default:
			failed = firstPause
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return
		}
	}
}

// renew asks once and returns when to ask again. What was said before stays
// if there is no answer, but not if the answer is that the certificate is not
// good.
func (t *Staple) renew(ctx context.Context) (time.Duration, error) {
	s := t.stapler
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-s.turn }()
	a, err := s.fetch(ctx, t.leaf, t.issuer, t.key.trusting)
	if err != nil {
		if errors.Is(err, ErrStatus) {
			t.current.Store(nil)
		}
		return 0, err
	}
	t.current.Store(a)
	return max(shortestTTL, min(time.Duration(t.ttl.Load()), a.until.Sub(s.now())/2)), nil
}

// jitter takes up to a tenth off, so that certificates that came together are
// not renewed together for ever.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/10)
}

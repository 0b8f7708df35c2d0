package tlsvalidation

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/staple"
	"weir/internal/threescale"
)

// A responder knows of revoked certificates by asking (RFC 6960).
type responder struct {
	rt   *threescale.Runtime
	all  *statuses
	url  string // empty: the certificate names it
	most time.Duration
}

func newResponder(c *Config, env plugin.Env) *responder {
	r := &responder{rt: threescale.ProductOf(env).Runtime, all: openKnown(env).ocsp, url: c.Responder, most: longest}
	if c.TTL > 0 {
		r.most = min(schema.Seconds(c.TTL), longest)
	}
	return r
}

var errNoResponder = errors.New("could not extract OCSP responder URL, the client certificate may be missing the required extensions")

// check returns nil if leaf is known not to be revoked.
func (r *responder) check(leaf, issuer *x509.Certificate, now time.Time) error {
	url := r.url
	if url == "" {
		if len(leaf.OCSPServer) == 0 {
			return errNoResponder
		}
		url = leaf.OCSPServer[0]
	}
	h := sha256.New()
	for _, part := range [...][]byte{leaf.Raw, issuer.Raw, []byte(url), []byte(r.most.String())} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return r.all.get(statusKey(h.Sum(nil)), now, r.most, func(ctx context.Context) (time.Time, error) {
		question, err := staple.Question(leaf, issuer)
		if err != nil {
			return time.Time{}, err
		}
		answer, err := r.rt.Post(ctx, url, http.Header{"Content-Type": {"application/ocsp-request"}}, question)
		if err != nil {
			return time.Time{}, fmt.Errorf("failed to send request to OCSP responder: %w", err)
		}
		good, err := staple.Check(answer, leaf, issuer, r.rt.Now())
		if err != nil {
			return time.Time{}, fmt.Errorf("failed to validate OCSP response: %w", err)
		}
		return good, nil
	})
}

// A statusKey is a certificate, its issuer and who is asked.
type statusKey [sha256.Size]byte

// Statuses are what responders have said. One that is relied on is asked for anew
// before it ends, in the background, so that requests wait for the first only.
type statuses struct {
	now     func() time.Time
	context context.Context
	end     context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	known  map[statusKey]*status
	closed bool
}

// mostStatuses bounds what is remembered. Above it what has ended is forgotten,
// and if all is still valid, something.
const mostStatuses = 10_000

// A status is one of them.
type status struct {
	until  time.Time // when it is not to be relied on any more
	renew  time.Time // when it is asked for anew
	err    error     // why the certificate is not known to be good
	asking chan struct{}
}

// pause is how long a failure is remembered, lest every request asks again.
const pause = 2 * time.Second

func newStatuses(env plugin.Env) *statuses {
	s := &statuses{now: env.Now, known: map[statusKey]*status{}}
	s.context, s.end = context.WithCancel(env.Context)
	return s
}

func (s *statuses) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
}

var errClosed = errors.New("the gateway stops")

// get returns nil if a certificate is good, asking if that is not known.
func (s *statuses) get(key statusKey, now time.Time, most time.Duration, ask func(context.Context) (time.Time, error)) error {
	s.mu.Lock()
	e := s.known[key]
	if e == nil {
		s.makeRoom(now)
		e = new(status)
		s.known[key] = e
	}
	if e.asking == nil && (!now.Before(e.renew) || !now.Before(e.until)) {
		if s.closed {
			s.mu.Unlock()
			return errClosed
		}
		done := make(chan struct{})
		e.asking = done
		s.wg.Go(func() { s.renew(e, done, most, ask) })
	}
	asking := e.asking
	if now.Before(e.until) {
		defer s.mu.Unlock()
		return e.err
	}
	s.mu.Unlock()
	<-asking // it is bounded
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.err
}

func (s *statuses) renew(e *status, done chan struct{}, most time.Duration, ask func(context.Context) (time.Time, error)) {
	until, err := ask(s.context)
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	e.asking = nil
	if err != nil {
		if e.err == nil && now.Before(e.until) && !errors.Is(err, staple.ErrStatus) {
			e.renew = now.Add(pause) // what is known stays while it is valid
			return
		}
		e.err, e.until = err, now.Add(pause)
		e.renew = e.until
		return
	}
	e.err, e.until = nil, earlier(until, now.Add(most))
	e.renew = now.Add(e.until.Sub(now) * 3 / 4)
}

func (s *statuses) makeRoom(now time.Time) {
	if len(s.known) < mostStatuses {
		return
	}
	left := len(s.known) - mostStatuses*9/10
	for _, ended := range [...]bool{true, false} {
		for k, e := range s.known {
			if left <= 0 {
				return
			}
			if e.asking == nil && (!ended || !now.Before(e.until)) {
				delete(s.known, k)
				left--
			}
		}
	}
}

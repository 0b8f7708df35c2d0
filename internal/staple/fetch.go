package staple

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/crypto/ocsp"
)

const (
	fetchTimeout = 10 * time.Second
	maxAnswer    = 64 << 10 // bytes; every handshake would carry them
)

// newClient asks responders. They are asked seldom: no connection is kept.
func newClient() *http.Client {
	return &http.Client{
		// The certificate says who is asked, nobody else does.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: fetchTimeout}).DialContext,
			TLSHandshakeTimeout:   fetchTimeout,
			ResponseHeaderTimeout: fetchTimeout,
			DisableKeepAlives:     true,
		},
	}
}

// fetch asks the responders that leaf names, one after the other, until one
// gives an answer that can be sent on.
func (s *Stapler) fetch(ctx context.Context, leaf, issuer *x509.Certificate, trusting bool) (*answer, error) {
	question, err := ocsp.CreateRequest(leaf, issuer, nil)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, url := range leaf.OCSPServer {
		der, err := s.ask(ctx, url, question)
		if err == nil {
			var a *answer
			if a, err = check(der, leaf, issuer, trusting, s.now()); err == nil {
				return a, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
	}
	return nil, errors.Join(errs...)
}

// ask sends one question (RFC 6960 §A.1).
func (s *Stapler) ask(ctx context.Context, url string, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/ocsp-request")
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	der, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(der) > maxAnswer:
		return nil, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return der, nil
}

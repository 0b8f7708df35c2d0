package threescale

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// transport is a Runtime's way to other services, if it is given none.
func (rt *Runtime) transport() http.RoundTripper {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: callTime}).DialContext,
		Proxy:               func(r *http.Request) (*url.URL, error) { return rt.ProxyURL(r.URL), nil },
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: !rt.VerifyTLS}, // as APIcast
		TLSHandshakeTimeout: callTime,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
	}
}

const (
	callTime      = 10 * time.Second // for a service's whole answer
	largestAnswer = 1 << 20          // bytes
)

var errLong = errors.New("the answer is too long")

// Post sends a body to a service of a policy's and returns the body of its answer,
// whose status must be 200. It takes at most ten seconds.
func (rt *Runtime) Post(ctx context.Context, to string, header http.Header, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header.Clone()
	r.Header.Set("User-Agent", rt.UserAgent)
	// Redirects are not followed: what is sent is for this service alone.
	res, err := rt.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, largestAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > largestAnswer:
		return nil, errLong
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	return answer, nil
}

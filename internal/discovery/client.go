package discovery

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// pingAfter is the silence after which it is found out whether an HTTP/2
// connection still works.
const pingAfter = 30 * time.Second

// maxAnswer bounds the answers of registries, in bytes.
const maxAnswer = 64 << 20

// A Client asks registries over HTTP. It follows no redirects and uses no
// proxy. Its errors name the address, not the query: that may hold secrets.
type Client struct {
	http  *http.Client
	slots chan struct{} // nil: as many at a time as there are
}

// ClientOptions is what NewClient needs.
type ClientOptions struct {
	Connect time.Duration // time-out
	TLS     *tls.Config   // nil: the default
	AtOnce  int           // requests at a time that JSON sends; 0: no limit
	NoReuse bool          // of connections
}

// NewClient makes a Client; Close frees its connections.
func NewClient(o ClientOptions) *Client {
	c := &Client{http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: o.Connect}).DialContext,
			TLSHandshakeTimeout: o.Connect,
			TLSClientConfig:     o.TLS,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter},
			MaxIdleConnsPerHost: 32,
			IdleConnTimeout:     90 * time.Second,
			DisableKeepAlives:   o.NoReuse,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if o.AtOnce > 0 {
		c.slots = make(chan struct{}, o.AtOnce)
	}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A StatusError is an answer with another status than 200.
type StatusError struct {
	Status int
	Header http.Header
}

// Error tells the status.
func (e *StatusError) Error() string { return fmt.Sprintf("status %d", e.Status) }

// JSON sends r and decodes the answer into dst; timeout bounds the whole of it.
func (c *Client) JSON(ctx context.Context, r *http.Request, timeout time.Duration, dst any) (http.Header, error) {
	if c.slots != nil {
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := c.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body := io.LimitedReader{R: resp.Body, N: maxAnswer}
	if err := json.NewDecoder(&body).Decode(dst); err != nil {
		if body.N <= 0 {
			err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		}
		return nil, fail(r, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // what is left, so that the connection can be used again
	return resp.Header, nil
}

// Open sends r and returns the answer if its status is 200. The body is the
// caller's to close.
func (c *Client) Open(ctx context.Context, r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r.WithContext(ctx))
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if err != nil {
		return nil, fail(r, err)
	}
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // as in JSON
		resp.Body.Close()
		return nil, fail(r, &StatusError{resp.StatusCode, resp.Header})
	}
	return resp, nil
}

func fail(r *http.Request, err error) error {
	return fmt.Errorf("%s %s://%s%s: %w", r.Method, r.URL.Scheme, r.URL.Host, r.URL.EscapedPath(), err)
}

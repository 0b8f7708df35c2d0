package logentry

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"weir/internal/plugin"
)

// A Receiver posts batches to a server over HTTP.
type Receiver struct {
	Header  http.Header // of every request
	Timeout time.Duration

	client *http.Client
}

// NewReceiver makes one whose connections are those of all configurations that
// verify certificates alike.
func NewReceiver(env plugin.Env, verify bool, timeout time.Duration, header http.Header) *Receiver {
	return &Receiver{Header: header, Timeout: timeout, client: &http.Client{
		Transport:     connections(env, verify),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// transport is an http.Transport that ends with the gateway.
type transport struct{ *http.Transport }

func (t transport) Close() { t.CloseIdleConnections() }

func connections(env plugin.Env, verify bool) http.RoundTripper {
	return plugin.Lasting(env, fmt.Sprintf("loggers/verify=%v", verify), func() transport {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 16
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !verify}
		return transport{t}
	})
}

// Endpoint is the URL of a server as the named attribute has it; what is not
// https is http, as in APISIX.
func Endpoint(attribute, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("property %q validation failed: it is no URL", attribute) // it may hold a password
	}
	if u.Scheme != "https" {
		u.Scheme = "http"
	}
	return u, nil
}

// answerSize bounds what is read of an answer: enough to say what went wrong,
// and to use the connection again.
const answerSize = 64 << 10

// Post sends a batch; a status of 400 or above is an error.
func (r *Receiver) Post(ctx context.Context, to *url.URL, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = r.Header.Clone()
	res, err := r.client.Do(req)
	if err != nil {
		return plugin.Bare(err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, answerSize)) // the status has said all
	if res.StatusCode >= 400 {
		return fmt.Errorf("%s answered %d: %.200q", to.Host, res.StatusCode, answer)
	}
	return nil
}

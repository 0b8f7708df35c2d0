// Package httplogger sends log entries to a server over HTTP.
package httplogger

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"weir/internal/logentry"
	"weir/internal/plugin"
)

const name = "http-logger"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 410, Doc: "Sends log entries in batches to a server over HTTP."},
	compile,
	plugin.Metadata[logentry.Metadata](),
)

// Config is the configuration on a route.
type Config struct {
	URI          string `json:"uri"           schema:"required,pattern=^[^\\/]+:\\/\\/([\\da-zA-Z.-]+|\\[[\\da-fA-F:]+\\])(:\\d+)?" doc:"Where entries are sent, by POST."`
	AuthHeader   string `json:"auth_header"   schema:"secret"                              doc:"Value of the Authorization header."`
	Timeout      int    `json:"timeout"       schema:"default=3,min=1"                     doc:"Seconds that one try may take."`
	ConcatMethod string `json:"concat_method" schema:"default=json,enum=json|new_line"     doc:"json: an array of entries, or the entry itself if batch_max_size is 1; new_line: an entry per line."`
	SSLVerify    bool   `json:"ssl_verify"    schema:"default=false"                       doc:"Check the server's certificate."`
	Name         string `json:"name"          schema:"default=http logger"                 doc:"The processor's name in logs and metrics."`
	logentry.Formats
	logentry.Bodies
	logentry.Batch
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	meta, err := plugin.DecodeMetadata[logentry.Metadata](env)
	if err != nil {
		return plugin.Phases{}, err
	}
	to, err := newReceiver(c, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	entry, err := logentry.Compile(c.Formats, meta.Formats, c.Bodies, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	entry.NoRoute = "no-matched"
	sink := logentry.NewSink(env, name, c.Name, c.Batch, meta.MaxPendingEntries, to.send)
	phases := entry.Phases()
	phases.Log = func(r *plugin.Ctx) { sink.Log(r, entry.Make(r)) }
	phases.Close = sink.Close
	return phases, nil
}

// A receiver is the server that gets the entries of one configuration.
type receiver struct {
	url         string
	host        string
	auth        string
	timeout     time.Duration
	contentType string
	begin, sep  string // of a batch
	end         string
	client      *http.Client
}

func newReceiver(c *Config, env plugin.Env) (*receiver, error) {
	u, err := url.Parse(c.URI)
	if err != nil {
		return nil, fmt.Errorf("property %q validation failed: %w", "uri", err)
	}
	if u.Scheme != "https" {
		u.Scheme = "http"
	}
	r := &receiver{
		url: u.String(), host: u.Host, auth: c.AuthHeader, timeout: time.Duration(c.Timeout) * time.Second,
		contentType: "text/plain", sep: "\n",
		client: &http.Client{
			Transport:     connections(env, c.SSLVerify),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.ConcatMethod == "json" {
		r.contentType = "application/json"
		if c.BatchMaxSize > 1 {
			r.begin, r.sep, r.end = "[", ",", "]"
		}
	}
	return r, nil
}

// transport is an http.Transport that ends with the gateway.
type transport struct{ *http.Transport }

func (t transport) Close() { t.CloseIdleConnections() }

// connections are those of all configurations that verify certificates alike.
func connections(env plugin.Env, verify bool) http.RoundTripper {
	return plugin.Lasting(env, fmt.Sprintf("%s/verify=%v", name, verify), func() transport {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 16
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !verify}
		return transport{t}
	})
}

// answerSize bounds what is read of an answer: enough to say what went wrong,
// and to use the connection again.
const answerSize = 64 << 10

func (r *receiver) send(ctx context.Context, entries [][]byte) (done int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	body := logentry.Join(r.begin, entries, r.sep, r.end)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", r.contentType)
	if r.auth != "" {
		req.Header.Set("Authorization", r.auth)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, answerSize)) // the status has said all
	if res.StatusCode >= 400 {
		return 0, fmt.Errorf("%s answered %d: %.200q", r.host, res.StatusCode, answer)
	}
	return 0, nil
}

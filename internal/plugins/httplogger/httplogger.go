// Package httplogger sends log entries to a server over HTTP.
package httplogger

import (
	"context"
	"net/http"
	"net/url"

	"weir/internal/logentry"
	"weir/internal/plugin"
	"weir/internal/schema"
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
	*logentry.Receiver
	url        *url.URL
	begin, sep string // of a batch
	end        string
}

func newReceiver(c *Config, env plugin.Env) (*receiver, error) {
	u, err := logentry.Endpoint("uri", c.URI)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"text/plain"}}
	if c.AuthHeader != "" {
		header.Set("Authorization", c.AuthHeader)
	}
	r := &receiver{url: u, sep: "\n", Receiver: logentry.NewReceiver(env, c.SSLVerify, schema.Seconds(c.Timeout), header)}
	if c.ConcatMethod == "json" {
		header.Set("Content-Type", "application/json")
		if c.BatchMaxSize > 1 {
			r.begin, r.sep, r.end = "[", ",", "]"
		}
	}
	return r, nil
}

func (r *receiver) send(ctx context.Context, entries [][]byte) (done int, err error) {
	return 0, r.Post(ctx, r.url, logentry.Join(r.begin, entries, r.sep, r.end))
}

// Package tcplogger sends log entries to a server over TCP or TLS.
package tcplogger

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"weir/internal/logentry"
	"weir/internal/plugin"
	"weir/internal/schema"
)

const name = "tcp-logger"

// Plugin is tcp-logger as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 405, Doc: "Sends log entries in batches to a server over TCP."},
	compile,
	plugin.Metadata[logentry.Metadata](),
)

// Config is the configuration on a route.
type Config struct {
	Host       string `json:"host"        schema:"required"           doc:"The server's name or address."`
	Port       int    `json:"port"        schema:"required,min=0"     doc:"Its port."`
	TLS        bool   `json:"tls"         schema:"default=false"      doc:"TLS over TCP. The server's certificate is not verified, as in APISIX."`
	TLSOptions string `json:"tls_options"                             doc:"The name asked for in the TLS handshake (SNI)."`
	Timeout    int    `json:"timeout"     schema:"default=1000,min=1" doc:"Milliseconds to connect, and to send a batch."`
	Name       string `json:"name"        schema:"default=tcp logger" doc:"The processor's name in logs and metrics."`
	logentry.Formats
	logentry.Bodies
	logentry.Batch
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	meta, err := plugin.DecodeMetadata[logentry.Metadata](env)
	if err != nil {
		return plugin.Phases{}, err
	}
	entry, err := logentry.Compile(c.Formats, meta.Formats, c.Bodies, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	to := &logentry.Socket{
		Network: "tcp", Addr: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)),
		Timeout: schema.Milliseconds(c.Timeout),
	}
	if c.TLS {
		to.TLS = &tls.Config{ServerName: c.TLSOptions, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	}
	single := c.BatchMaxSize == 1
	sink := logentry.NewSink(env, name, c.Name, c.Batch, meta.MaxPendingEntries,
		func(ctx context.Context, entries [][]byte) (int, error) {
			return to.Send(ctx, func(nc net.Conn) (int, error) {
				_, err := nc.Write(logentry.Document(entries, single))
				return 0, err
			})
		})
	phases := entry.Phases()
	phases.Log = func(r *plugin.Ctx) { sink.Log(r, entry.Make(r)) }
	phases.Close = sink.Close
	return phases, nil
}

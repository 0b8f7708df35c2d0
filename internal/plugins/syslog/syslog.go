// Package syslog sends log entries to a syslog server (RFC 5424), over TCP, TLS or
// UDP (RFC 6587 section 3.4.2, RFC 5425, RFC 5426).
package syslog

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strconv"
	"time"

	"weir/internal/logentry"
	"weir/internal/plugin"
	"weir/internal/schema"
)

const name = "syslog"

// meta is immutable.
var meta = plugin.Meta{Name: name, Priority: 401, Doc: "Sends log entries in batches to a syslog server."}

// Plugin is the plugin.
var Plugin = plugin.Define(meta, compile, plugin.Metadata[logentry.Metadata]())

// Stream is the plugin of stream routes.
var Stream = plugin.DefineStream(meta, compileStream, plugin.Metadata[logentry.Metadata]())

// Config is the configuration on a route.
type Config struct {
	Target
	logentry.Formats
	logentry.Bodies
	logentry.Batch
}

// StreamConfig is the configuration on a stream route, where there are no bodies.
type StreamConfig struct {
	Target
	logentry.Formats
	logentry.Batch
}

// A Target is the server and how it is reached.
type Target struct {
	Host       string `json:"host"        schema:"required"                   doc:"The server's name or address."`
	Port       int    `json:"port"        schema:"required"                   doc:"Its port."`
	SockType   string `json:"sock_type"   schema:"default=tcp,enum=tcp|udp"   doc:"tcp: an entry per line; udp: an entry per datagram."`
	TLS        bool   `json:"tls"         schema:"default=false"              doc:"TLS over TCP. The server's certificate is not verified, as in APISIX."`
	Timeout    int    `json:"timeout"     schema:"default=3000,min=1"         doc:"Milliseconds to connect, and to send a batch."`
	FlushLimit int    `json:"flush_limit" schema:"default=4096,min=1"         doc:"Taken as APISIX does and without effect: batch_max_size counts."`
	DropLimit  int    `json:"drop_limit"  schema:"default=1048576"            doc:"Taken as APISIX does and without effect: max_pending_entries counts."`
	PoolSize   int    `json:"pool_size"   schema:"default=5,min=5"            doc:"Taken as APISIX does and without effect: a batch has a connection of its own."`
	Name       string `json:"name"        schema:"default=sys logger"         doc:"The processor's name in logs and metrics."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	entry, sink, err := open(&c.Target, c.Formats, c.Bodies, c.Batch, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	phases := entry.Phases()
	phases.Log = func(r *plugin.Ctx) { sink.Log(r, entry.Make(r)) }
	phases.Close = sink.Close
	return phases, nil
}

func compileStream(c *StreamConfig, env plugin.Env) (plugin.Stream, error) {
	entry, sink, err := open(&c.Target, c.Formats, logentry.Bodies{}, c.Batch, env)
	if err != nil {
		return plugin.Stream{}, err
	}
	log := func(s *plugin.StreamCtx) { sink.Log(&s.Ctx, entry.Make(&s.Ctx)) }
	if !entry.Custom() {
		// The full entry is about requests; there is none for sessions.
		log = func(*plugin.StreamCtx) { env.Log.Error("syslog's log_format is not set", "owner", env.Owner) }
	}
	return plugin.Stream{Log: log, Close: sink.Close}, nil
}

func open(to *Target, f logentry.Formats, bodies logentry.Bodies, b logentry.Batch, env plugin.Env) (*logentry.Entry, *logentry.Sink, error) {
	meta, err := plugin.DecodeMetadata[logentry.Metadata](env)
	if err != nil {
		return nil, nil, err
	}
	entry, err := logentry.Compile(f, meta.Formats, bodies, env)
	if err != nil {
		return nil, nil, err
	}
	s := newServer(to, env)
	return entry, logentry.NewSink(env, name, to.Name, b, meta.MaxPendingEntries, s.send), nil
}

// A server is the one that gets the entries of a configuration.
type server struct {
	logentry.Socket
	now    func() time.Time
	source string // what stands between a message's time and its text
}

func newServer(t *Target, env plugin.Env) *server {
	host, err := os.Hostname()
	if err != nil {
		host = "-"
	}
	s := &server{
		Socket: logentry.Socket{
			Network: t.SockType, Addr: net.JoinHostPort(t.Host, strconv.Itoa(t.Port)),
			Timeout: schema.Milliseconds(t.Timeout),
		},
		now:    env.Now,
		source: " " + host + " apisix " + strconv.Itoa(os.Getpid()) + " - - ",
	}
	if t.TLS && t.SockType == "tcp" {
		s.TLS = &tls.Config{ServerName: t.Host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	}
	return s
}

// send is a Sink's.
func (s *server) send(ctx context.Context, entries [][]byte) (done int, err error) {
	return s.Send(ctx, func(c net.Conn) (int, error) {
		if s.Network == "udp" {
			for i, e := range entries {
				if _, err := c.Write(s.message(nil, e)); err != nil {
					return i, err
				}
			}
			return len(entries), nil
		}
		var all []byte
		for _, e := range entries {
			all = s.message(all, e)
		}
		_, err := c.Write(all)
		return 0, err
	})
}

// priority is facility 5 (syslog) and severity 6 (informational), RFC 5424 §6.2.1.
const priority = "<46>1 "

// message appends one message with a line feed.
func (s *server) message(dst, entry []byte) []byte {
	dst = s.now().UTC().AppendFormat(append(dst, priority...), "2006-01-02T15:04:05.000Z")
	return append(append(append(dst, s.source...), entry...), '\n')
}

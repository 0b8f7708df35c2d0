// Package udplogger sends log entries to a server over UDP.
package udplogger

import (
	"context"
	"net"
	"strconv"

	"weir/internal/logentry"
	"weir/internal/plugin"
	"weir/internal/schema"
)

const name = "udp-logger"

// Plugin is udp-logger as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 400, Doc: "Sends log entries in batches to a server over UDP."},
	compile,
	plugin.Metadata[logentry.Metadata](),
)

// Config is the configuration on a route.
type Config struct {
	Host    string `json:"host"    schema:"required"           doc:"The server's name or address."`
	Port    int    `json:"port"    schema:"required,min=0"     doc:"Its port."`
	Timeout int    `json:"timeout" schema:"default=3,min=1"    doc:"Seconds to look the server's name up, and to send a batch."`
	Name    string `json:"name"    schema:"default=udp logger" doc:"The processor's name in logs and metrics."`
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
		Network: "udp", Addr: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)),
		Timeout: schema.Seconds(c.Timeout),
	}
	single := c.BatchMaxSize == 1
	sink := logentry.NewSink(env, name, c.Name, c.Batch, meta.MaxPendingEntries,
		func(ctx context.Context, entries [][]byte) (int, error) {
			return to.Send(ctx, func(nc net.Conn) (int, error) { return write(nc, entries, single) })
		})
	phases := entry.Phases()
	phases.Log = func(r *plugin.Ctx) {
		e := entry.Make(r)
		if len(e) > largest {
			env.Log.Error("a log entry does not fit in a datagram and is lost", "plugin", name, "owner", env.Owner, "bytes", len(e))
			return
		}
		sink.Log(r, e)
	}
	phases.Close = sink.Close
	return phases, nil
}

// datagram is how many bytes a datagram carries (RFC 768, over IPv4); largest is
// the entry that fits in one, in an array.
const (
	datagram = 65507
	largest  = datagram - len("[]")
)

// write sends entries in as few datagrams as they fit in. done is how many of
// them were sent.
func write(nc net.Conn, entries [][]byte, single bool) (done int, err error) {
	for done < len(entries) {
		n, size := 1, len("[]")+len(entries[done])
		for _, e := range entries[done+1:] {
			if size += len(",") + len(e); size > datagram {
				break
			}
			n++
		}
		if _, err := nc.Write(logentry.Document(entries[done:done+n], single)); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

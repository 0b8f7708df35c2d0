// Package clickhouselogger inserts log entries into a table of ClickHouse, over
// its HTTP interface.
package clickhouselogger

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"weir/internal/logentry"
	"weir/internal/plugin"
	"weir/internal/schema"
)

const name = "clickhouse-logger"

// Plugin is clickhouse-logger as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 398, Doc: "Inserts log entries in batches into a table of ClickHouse."},
	compile,
	plugin.Metadata[logentry.Metadata](),
)

// Config is the configuration on a route.
type Config struct {
	EndpointAddr  *address  `json:"endpoint_addr"                                    doc:"The server's HTTP interface; endpoint_addrs takes its place."`
	EndpointAddrs []address `json:"endpoint_addrs" schema:"minItems=1"               doc:"HTTP interfaces, one of which gets each batch, at random."`
	User          string    `json:"user"           schema:"default="                 doc:"User of ClickHouse."`
	Password      string    `json:"password"       schema:"default=,secret"          doc:"The user's password."`
	Database      string    `json:"database"       schema:"default="                 doc:"Database of the table."`
	Logtable      string    `json:"logtable"       schema:"default="                 doc:"The table; its columns are the members of entries."`
	Timeout       int       `json:"timeout"        schema:"default=3,min=1"          doc:"Seconds that one try may take."`
	Name          string    `json:"name"           schema:"default=clickhouse logger" doc:"The processor's name in logs and metrics."`
	SSLVerify     bool      `json:"ssl_verify"     schema:"default=true"             doc:"Check the server's certificate."`
	logentry.Formats
	logentry.Bodies
	logentry.Batch
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.ExactlyOne(
		[]string{"endpoint_addr", "user", "password", "database", "logtable"},
		[]string{"endpoint_addrs", "user", "password", "database", "logtable"},
	)}
}

// An address is the URL of an HTTP interface.
type address string

// JSONSchema implements schema.Describer.
func (address) JSONSchema() []byte {
	return []byte(`{"type": "string", "pattern": "^[^\\/]+:\\/\\/([\\da-zA-Z.-]+|\\[[\\da-fA-F:]+\\])(:\\d+)?"}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *address) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*string)(a)) }

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	meta, err := plugin.DecodeMetadata[logentry.Metadata](env)
	if err != nil {
		return plugin.Phases{}, err
	}
	attribute, all := "endpoint_addrs", c.EndpointAddrs
	if c.EndpointAddr != nil {
		attribute, all = "endpoint_addr", []address{*c.EndpointAddr}
	}
	to := make([]*url.URL, len(all))
	for i, a := range all {
		if to[i], err = logentry.Endpoint(attribute, string(a)); err != nil {
			return plugin.Phases{}, err
		}
	}
	entry, err := logentry.Compile(c.Formats, meta.Formats, c.Bodies, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	r := logentry.NewReceiver(env, c.SSLVerify, schema.Seconds(c.Timeout), http.Header{
		"Content-Type":          {"application/json"},
		"X-ClickHouse-User":     {c.User},
		"X-ClickHouse-Key":      {c.Password},
		"X-ClickHouse-Database": {c.Database},
	})
	insert := "INSERT INTO " + c.Logtable + " FORMAT JSONEachRow "
	sink := logentry.NewSink(env, name, c.Name, c.Batch, meta.MaxPendingEntries,
		func(ctx context.Context, entries [][]byte) (int, error) {
			return 0, r.Post(ctx, to[int(env.Rand()*float64(len(to)))], logentry.Join(insert, entries, " ", ""))
		})
	phases := entry.Phases()
	phases.Log = func(r *plugin.Ctx) { sink.Log(r, entry.Make(r)) }
	phases.Close = sink.Close
	return phases, nil
}

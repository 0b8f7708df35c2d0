package prometheus

import (
	"strconv"

	"weir/internal/meter"
	"weir/internal/plugin"
)

// Stream is the plugin of stream routes. What ports carry is counted without it.
var Stream = plugin.DefineStream(
	plugin.Meta{Name: name, Priority: 500, Version: 0.2, Doc: "Counts sessions and how they end, for Prometheus."},
	compileStream,
)

// StreamConfig is the configuration on a stream route.
type StreamConfig struct {
	PreferName bool `json:"prefer_name" schema:"default=false" doc:"Label with the name of the route instead of its id, where it has one."`
}

// object is the owner of series: an object of the configuration.
type object struct {
	exists func(string) bool
	path   string
}

// Gone implements meter.Owner.
func (o *object) Gone() bool { return o.exists != nil && !o.exists(o.path) }

func compileStream(c *StreamConfig, env plugin.Env) (plugin.Stream, error) {
	attr, err := readAttr(env.Attr)
	if err != nil {
		return plugin.Stream{}, err
	}
	rec := recorderOf(env, attr)
	sessions := env.Meter.Vec(meter.Desc{
		Name: "stream_connection_total", Help: "Total number of connections handled per stream route in APISIX", Labels: []string{"route"},
		Expire: attr.expire("stream_connection_total"),
	})
	ends := env.Meter.Vec(meter.Desc{
		Name: "stream_status", Help: "Stream sessions by how they ended", Labels: []string{"code", "listen_addr", "node"},
		Expire: attr.expire("stream_status"),
	})
	log := func(s *plugin.StreamCtx) {
		rec.wake()
		owner := &object{env.Exists, "stream_routes/" + s.Route.ID}
		route := s.Route.ID
		if c.PreferName && s.Route.Name != "" {
			route = s.Route.Name
		}
		if one, ok := sessions.With(owner, route); ok {
			one.Add(1)
		}
		node := ""
		if n := len(s.Sent.Tries); n > 0 {
			node = s.Sent.Tries[n-1].Addr
		}
		if one, ok := ends.With(owner, strconv.Itoa(s.Sent.Status), s.Listener, node); ok {
			one.Add(1)
		}
	}
	return plugin.Stream{Log: log}, nil
}

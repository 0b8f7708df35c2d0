// Package exampleplugin shows what a plugin can do: it reports its phases in the
// error log, can send requests elsewhere, and adds to the Control API.
package exampleplugin

import (
	"encoding/json"
	"net/url"

	"weir/internal/plugin"
)

const name = "example-plugin"

// Plugin is example-plugin as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 0, Doc: "Shows what plugins do: reports each phase in the error log; for trials."},
	compile,
	plugin.Metadata[Metadata](),
	plugin.Controls(plugin.Control{Method: "GET", Path: "/v1/plugin/example-plugin/hello", Answer: hello}),
)

// Config is the configuration on a route.
type Config struct {
	I    float64           `json:"i"    schema:"required,min=0" doc:"A number."`
	S    string            `json:"s"                            doc:"A text."`
	T    []json.RawMessage `json:"t"    schema:"minItems=1"     doc:"A list of anything."`
	IP   *string           `json:"ip"                           doc:"Send requests to this address instead of the route's upstream."`
	Port *int              `json:"port"                         doc:"The port there."`
}

// Metadata is read and otherwise unused.
type Metadata struct {
	IKey float64 `json:"ikey" schema:"required,min=0" doc:"A number."`
	SKey string  `json:"skey" schema:"required"       doc:"A text."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	tell := func(phase string) {
		env.Log.Warn("plugin "+phase+" phase", "plugin", name, "owner", env.Owner, "conf", string(env.Raw))
	}
	p := plugin.Phases{
		Rewrite: func(*plugin.Ctx) *plugin.Reply { tell("rewrite"); return nil },
		Access:  func(*plugin.Ctx) *plugin.Reply { tell("access"); return nil },
		Header:  func(*plugin.Ctx) { tell("header_filter") },
		Body:    func(*plugin.Ctx) plugin.BodyFilter { return filter{tell} },
		Log:     func(*plugin.Ctx) { tell("log") },
	}
	if c.IP == nil {
		return p, nil
	}
	up, err := elsewhere(*c.IP, c.Port, env)
	if err != nil {
		refused := plugin.Text(500, err.Error()) // APISIX finds out when a request comes
		p.Access = func(*plugin.Ctx) *plugin.Reply { tell("access"); return refused }
		return p, nil
	}
	p.Close = up.Close
	p.Access = func(r *plugin.Ctx) *plugin.Reply {
		tell("access")
		r.To.Upstream = up
		return nil
	}
	return p, nil
}

// elsewhere is an upstream of one node.
func elsewhere(ip string, port *int, env plugin.Env) (plugin.Upstream, error) {
	type node struct {
		Host   string `json:"host"`
		Port   *int   `json:"port,omitempty"`
		Weight int    `json:"weight"`
	}
	raw, err := json.Marshal(struct {
		Type  string `json:"type"`
		Nodes []node `json:"nodes"`
	}{"roundrobin", []node{{ip, port, 1}}})
	if err != nil {
		return nil, err
	}
	return env.Upstream(raw)
}

// A filter reports the pieces of a body and lets them pass.
type filter struct{ tell func(phase string) }

// Write implements plugin.BodyFilter.
func (f filter) Write(chunk []byte, last bool) []byte {
	f.tell("body_filter")
	if last {
		f.tell("delayed_body_filter")
	}
	return chunk
}

// Size implements plugin.Sized.
func (filter) Size(in int64) int64 { return in }

// hello greets; with an argument json, as a JSON object.
func hello(query string) *plugin.Reply {
	args, _ := url.ParseQuery(query) // what cannot be read is not there
	if args.Has("json") {
		return plugin.JSON(200, map[string]string{"msg": "world"}, [2]string{"Content-Type", "application/json"})
	}
	return plugin.Text(200, "world\n")
}

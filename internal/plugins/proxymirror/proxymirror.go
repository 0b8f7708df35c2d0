// Package proxymirror sends copies of requests to another server.
package proxymirror

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"weir/internal/plugin"
	"weir/internal/wire"
)

const name = "proxy-mirror"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 1010, Doc: "Sends a copy of each request to another server and takes no notice of its answer."},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Host        string  `json:"host"             schema:"required,pattern=^(http(s)?|grpc(s)?):\\/\\/([\\da-zA-Z.-]+|\\[[\\da-fA-F:]+\\])(:\\d+)?$" doc:"Scheme and address of the server."`
	Path        string  `json:"path"             schema:"pattern=^/[^?&]+$" doc:"Path of the copy; the query stays. Not for gRPC."`
	ConcatMode  string  `json:"path_concat_mode" schema:"default=replace,enum=replace|prefix,description=the concatenation mode for custom path" doc:"replace: path takes the place of the request's; prefix: it stands before it."`
	SampleRatio float64 `json:"sample_ratio"     schema:"default=1,min=0.00001,max=1" doc:"Part of the requests that is copied."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	times, err := readTimeouts(env.Attr)
	if err != nil {
		return plugin.Phases{}, err
	}
	to, err := url.Parse(c.Host)
	if err != nil {
		return plugin.Phases{}, fmt.Errorf("property %q validation failed: %w", "host", err)
	}
	m := &mirror{
		Config: c, url: *to,
		sender: plugin.Lasting(env, name, func() *sender { return newSender(env.Log, times) }),
	}
	m.grpc = strings.HasPrefix(to.Scheme, "grpc")
	m.transport = m.sender.transports[to.Scheme]
	m.url.Scheme = map[string]string{"grpc": "http", "grpcs": "https"}[to.Scheme]
	if !m.grpc {
		m.url.Scheme = to.Scheme
	}
	rewrite := func(r *plugin.Ctx) *plugin.Reply {
		if c.SampleRatio >= 1 || env.Rand() < c.SampleRatio {
			m.prepare(r)
		}
		return nil
	}
	return plugin.Phases{Rewrite: rewrite, BeforeProxy: m.start, Log: m.end}, nil
}

// A mirror copies the requests of one configuration.
type mirror struct {
	*Config
	*sender
	url       url.URL
	grpc      bool
	transport transport
}

// prepare notes what is to be copied: the target as it is now, before plugins
// of lower priority change it, and the body as it will pass.
func (m *mirror) prepare(r *plugin.Ctx) {
	x := &sending{target: m.target(r)}
	if r.Request.Length != 0 {
		x.body = newQueue()
		r.TapBody(x.body)
	}
	r.SetState(m, x)
}

// target is the copy's request target.
func (m *mirror) target(r *plugin.Ctx) string {
	now := r.Request.Target
	if r.To.Target != "" {
		now = r.To.Target
	}
	switch {
	case m.Path == "":
		return strings.Clone(now)
	case m.ConcatMode == "prefix":
		return m.Path + now
	}
	if _, query, ok := strings.Cut(now, "?"); ok && query != "" {
		return m.Path + "?" + query
	}
	return m.Path
}

// start sends the copy, once, now that the headers are those that the upstream
// gets.
func (m *mirror) start(r *plugin.Ctx) *plugin.Reply {
	x, ok := r.State(m).(*sending)
	if !ok || x.started {
		return nil
	}
	x.started = true
	if m.grpc {
		x.target = strings.Clone(r.Request.Target)
		if r.To.Target != "" {
			x.target = strings.Clone(r.To.Target)
		}
	}
	x.length = r.Request.Length
	if own := r.To.Body; own != nil {
		x.length = int64(len(own))
	}
	m.send(m, x, headOf(r))
	return nil
}

// end ends the copy's body. If the request's own did not come whole, nor does the
// copy's.
func (m *mirror) end(r *plugin.Ctx) {
	x, ok := r.State(m).(*sending)
	if !ok || x.body == nil {
		return
	}
	x.body.end(r.Sent.Source == plugin.FromUpstream && r.Sent.Cause == nil, x.length)
}

// A head is what is copied of a request's, in memory of its own.
type head struct {
	method, host string
	fields       [][2]string
}

func headOf(r *plugin.Ctx) head {
	h := head{method: strings.Clone(r.Request.Method), host: strings.Clone(r.Request.Host)}
	if r.To.Method != "" {
		h.method = strings.Clone(r.To.Method)
	}
	if r.To.Host != "" {
		h.host = strings.Clone(r.To.Host)
	}
	fields := r.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; copied(f) {
			h.fields = append(h.fields, [2]string{strings.Clone(f.Name), strings.Clone(f.Value)})
		}
	}
	if c := r.Consumer; c != nil {
		for _, f := range [...][2]string{
			{"X-Consumer-Username", c.Name}, {"X-Credential-Identifier", c.CredentialID}, {"X-Consumer-Custom-ID", c.CustomID},
		} {
			if f[1] != "" {
				h.fields = append(h.fields, f)
			}
		}
	}
	return h
}

// copied says that a field is the request's and not the connection's. The chain
// of earlier proxies is dropped by the gateway, which sends a longer one.
func copied(f *wire.Field) bool {
	switch f.Known {
	case wire.KnownHost, wire.KnownContentLength, wire.KnownTransferEncoding, wire.KnownExpect,
		wire.KnownConnection, wire.KnownKeepAlive, wire.KnownUpgrade, wire.KnownTE, wire.KnownTrailer:
		return false
	case wire.KnownXForwardedFor:
		return true
	}
	return !f.Dropped
}

// attr is the plugin's entry in plugin_attr of config.yaml.
type attr struct {
	Timeout struct {
		Connect nginxTime `json:"connect"`
		Read    nginxTime `json:"read"`
		Send    nginxTime `json:"send"`
	} `json:"timeout"`
}

func readTimeouts(raw json.RawMessage) (timeouts, error) {
	var a attr
	if raw != nil {
		if err := json.Unmarshal(raw, &a); err != nil {
			return timeouts{}, fmt.Errorf("plugin_attr.%s: %w", name, err)
		}
	}
	t := a.Timeout
	return timeouts{connect: t.Connect.or60s(), read: t.Read.or60s(), send: t.Send.or60s()}, nil
}

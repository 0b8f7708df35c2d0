package threescale

import (
	"cmp"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// noUpstream answers a request to a product that has nowhere to go, unreachable
// one whose way cannot be made (apicast.md §2.3).
var (
	noUpstream  = &plugin.Reply{Status: 404, Body: []byte{}}
	unreachable = &plugin.Reply{Status: 503, Body: []byte{}}
)

// Route sends the request to the upstream that a policy has chosen, or to the
// product's own, in the way that policies have chosen (apicast.md §4.6). A Reply
// says that there is none. It is for the Content phase; who calls it first in a
// chain decides.
func Route(c *plugin.Ctx) *plugin.Reply {
	if c.To.Upstream != nil {
		return nil
	}
	r := Of(c)
	p := r.Product
	if r.Delegated && r.asked.key == "" {
		return p.Failed // who should have asked for the authorization did not, as under a condition that has changed
	}
	u := cmp.Or(r.Upstream, p.Upstream)
	if u == nil {
		if n := p.Runtime.aimless.due(); n > 0 {
			p.Runtime.Log.Warn("there is no upstream for requests", "product", p.ID, "requests", n)
		}
		return noUpstream
	}
	way := p.own
	if u != p.Upstream || r.Connect != (Connect{}) {
		way = p.ways.find(p, u, r.Connect)
	}
	if way == nil || way.upstream == nil {
		return unreachable
	}
	c.To.Upstream = way.upstream
	c.To.Host = cmp.Or(r.Host, p.HostnameRewrite, u.Header)
	if t := target(c, r, u, way); t != "" {
		c.To.Target = t
	}
	if way.authorizes {
		if own, ok := c.Header("Proxy-Authorization"); ok {
			c.SetHeader("Proxy-Authorization", own) // the client's passes, though it is the connection's
		} else if way.authorization != "" {
			c.SetHeader("Proxy-Authorization", way.authorization)
		}
	}
	p.mark(c, r)
	if u.echoes() && p.Runtime.proxyFor(u, r.Connect.Proxies) == nil {
		return echo(c, cmp.Or(c.To.Target, c.Request.Target))
	}
	return nil
}

// mark removes what is between client and gateway, and shows the upstream the
// product's secret.
func (p *Product) mark(c *plugin.Ctx, r *Request) {
	c.ClearHeader("X-3scale-debug")
	c.ClearHeader(secretHeader)
	c.ClearHeader(grpcSecretHeader)
	if p.SecretToken == "" {
		return
	}
	name := secretHeader
	if r.Connect.HTTP2 {
		name = grpcSecretHeader
	}
	c.SetHeader(name, p.SecretToken)
}

const (
	secretHeader     = "X-3scale-proxy-secret-token"
	grpcSecretHeader = "X-3scale-grpc-secret-token"
)

// target is what is asked for instead of what the engine would send; empty: that
// is right.
func target(c *plugin.Ctx, r *Request, u *Upstream, w *way) string {
	kept := !r.Rewritten && u.Path == "" && u.Query == ""
	if kept && w.absolute == "" {
		return ""
	}
	var stack [512]byte
	b := append(stack[:0], w.absolute...)
	switch {
	case kept:
		sent := cmp.Or(c.To.Target, c.Request.Target)
		if strings.HasPrefix(sent, "/") { // "*" has no absolute form but that without a path
			b = append(b, sent...)
		}
		return c.Keep(b)
	case r.Path == "/" || r.Path == "":
		b = append(b, cmp.Or(u.Root, "/")...)
	default:
		b = wire.EscapePath(append(b, u.Path...), r.Path)
	}
	if q := cmp.Or(u.Query, r.Query); q != "" {
		b = append(append(b, '?'), q...)
	}
	return c.Keep(b)
}

// A way is how one upstream is reached.
type way struct {
	upstream      plugin.Upstream // nil: it could not be made
	absolute      string          // stands before the path in requests: "http://host"; empty: nothing
	authorizes    bool            // the requests go to a forward proxy, which may want to know who asks
	authorization string
}

// A place is a node and how it is reached: what ways differ in.
type place struct {
	scheme, host string
	port         int
	websocket    bool
	connect      Connect
}

// ways are those of a product that are not known before its first request.
type ways struct {
	all atomic.Pointer[map[place]*way]
	mu  sync.Mutex // held while all is replaced
}

// find returns the way to u, which is made once.
func (s *ways) find(p *Product, u *Upstream, connect Connect) *way {
	at := place{u.Scheme, u.Host, u.Port, u.Websocket, connect}
	if all := s.all.Load(); all != nil {
		if w := (*all)[at]; w != nil {
			return w
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[place]*way{}
	if all := s.all.Load(); all != nil {
		if w := (*all)[at]; w != nil {
			return w
		}
		for k, w := range *all {
			next[k] = w
		}
	}
	w, err := p.newWay(u, connect)
	if err != nil {
		p.Runtime.Log.Error("an upstream cannot be reached", "product", p.ID, "upstream", u.Header, "err", err)
		w = new(way)
	}
	next[at] = w
	s.all.Store(&next)
	return w
}

func (s *ways) close() {
	all := s.all.Load()
	if all == nil {
		return
	}
	for _, w := range *all {
		if w.upstream != nil {
			w.upstream.Close()
		}
	}
}

// newWay makes the way to u.
func (p *Product) newWay(u *Upstream, connect Connect) (*way, error) {
	m := &model.Upstream{
		Scheme: u.Scheme, Type: "roundrobin", PassHost: "pass", Retries: new(int), MaxHead: p.Runtime.UpstreamHead,
		// APIcast's upstream block and nginx's defaults.
		Keepalive: &model.Keepalive{Size: 1024, IdleTimeout: 60 * time.Second, Requests: 1000},
		RetryOn:   p.Runtime.retryOn,
		Nodes:     []model.Node{{Host: u.Host, Port: u.Port, Weight: 1}},
	}
	w := new(way)
	if proxy := p.Runtime.proxyFor(u, connect.Proxies); proxy != nil {
		m.Nodes[0].Host, m.Nodes[0].Port = proxy.Host, proxy.Port
		camel := connect.Proxies != nil && connect.Proxies.Absolute
		switch {
		case u.Scheme == "https" && !camel:
			m.Tunnel = &model.Tunnel{To: address(u.Host, u.Port), Authorization: proxy.Authorization}
		default:
			w.absolute = u.Scheme + "://" + u.Header
			if w.authorizes = !camel; w.authorizes {
				w.authorization = proxy.Authorization
			}
		}
	}
	if connect.HTTP2 {
		m.Scheme = "grpcs"
	}
	var err error
	if m.TLS, m.CAs, err = p.Runtime.clientTLS(connect.TLS); err != nil {
		return nil, err
	}
	w.upstream, err = p.env.Reach(m)
	return w, err
}

// clientTLS is the gateway's side of TLS, as an upstream's document has it: what
// a policy says, else what the environment does.
func (rt *Runtime) clientTLS(t *ClientTLS) (doc json.RawMessage, cas string, err error) {
	var d struct {
		Certificate string `json:"client_cert,omitempty"`
		Key         string `json:"client_key,omitempty"`
		Verify      bool   `json:"verify"`
	}
	d.Certificate, d.Key, d.Verify = rt.Certificate, rt.CertificateKey, rt.VerifyTLS
	if t != nil {
		if t.Certificate != "" {
			d.Certificate, d.Key = t.Certificate, t.Key
		}
		d.Verify = d.Verify || t.Verify
		cas = t.CAs
	}
	doc, err = json.Marshal(d)
	return doc, cas, err
}

package threescale

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/upstream"
	"weir/internal/wire"
)

// A Client asks 3scale's backend, and tells it, about the callers of one product
// (apicast.md §4.3).
type Client struct {
	rt        *Runtime
	backend   *backend
	authrep   string // targets, up to what is asked about
	authorize string
	report    string
}

// A backend is 3scale's service at one endpoint. Products share it.
type backend struct {
	upstream caller
	host     string
	get      []byte // header lines
	post     []byte
	err      error // why it cannot be asked
}

// A caller is what an upstream of package upstream is to calls.
type caller interface {
	RoundTrip(*upstream.Call) error
	Close()
}

// Close ends the use of the endpoint.
func (b *backend) Close() {
	if b.upstream != nil {
		b.upstream.Close()
	}
}

// NewClient is the client of the product whose policy is compiled.
func NewClient(env plugin.Env) (*Client, error) {
	p := ProductOf(env)
	endpoint, host := p.Backend.URL, p.Backend.Host
	if o := p.Runtime.BackendOverride; o != "" {
		endpoint, host = o, ""
	}
	u, err := NewUpstream(endpoint)
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	host = cmp.Or(host, strings.TrimSuffix(u.Header, ":"+strconv.Itoa(u.Port)))
	proxy := p.Runtime.proxyFor(u, nil)
	b := plugin.Keep(env, "3scale backend "+endpoint+" "+host, func() *backend { return newBackend(env, u, host, proxy) })
	if b.err != nil {
		return nil, fmt.Errorf("backend: %w", b.err)
	}
	c := &Client{rt: p.Runtime, backend: b}
	base := u.Path
	if proxy != nil && u.Scheme == "http" {
		base = "http://" + u.Header + base
	}
	proof := appendArgument(nil, "service_id", p.ID)
	if p.BackendAuthName != "" {
		proof = appendArgument(append(proof, '&'), p.BackendAuthName, p.BackendAuthValue)
	}
	form := ""
	if p.BackendVersion == oauth {
		form = "oauth_"
	}
	c.authrep = base + "/transactions/" + form + "authrep.xml?" + string(proof)
	c.authorize = base + "/transactions/" + form + "authorize.xml?" + string(proof)
	c.report = base + "/transactions.xml?" + string(proof)
	return c, nil
}

// Host is the Host header of requests to the backend.
func (k *Client) Host() string { return k.backend.host }

func newBackend(env plugin.Env, u *Upstream, host string, proxy *Proxy) *backend {
	rt := ProductOf(env).Runtime
	m := &model.Upstream{
		Scheme: u.Scheme, Type: "roundrobin", PassHost: "pass", Retries: new(int),
		Keepalive: &model.Keepalive{Size: reportsAtOnce, IdleTimeout: time.Minute, Requests: math.MaxInt32},
		Nodes:     []model.Node{{Host: u.Host, Port: u.Port, Weight: 1}},
	}
	lines := "User-Agent: " + rt.UserAgent + "\r\n"
	if proxy != nil {
		m.Nodes[0].Host, m.Nodes[0].Port = proxy.Host, proxy.Port
		switch {
		case u.Scheme == "https":
			m.Tunnel = &model.Tunnel{To: address(u.Host, u.Port), Authorization: proxy.Authorization}
		case proxy.Authorization != "":
			lines += "Proxy-Authorization: " + proxy.Authorization + "\r\n"
		}
	}
	b := &backend{host: host}
	// Bodies would tell what nobody reads.
	b.get = []byte(lines + "3scale-options: rejection_reason_header=1&limit_headers=1&no_body=1\r\n")
	b.post = []byte(lines + "Content-Type: application/x-www-form-urlencoded\r\n")
	m.TLS = json.RawMessage(`{"verify":` + strconv.FormatBool(rt.VerifyTLS) + `}`)
	made, err := env.Reach(m)
	if err != nil {
		b.err = err
		return b
	}
	var ok bool
	if b.upstream, ok = made.(caller); !ok {
		made.Close()
		b.err = fmt.Errorf("a %T cannot be asked", made)
	}
	return b
}

// An Answer is what the backend said.
type Answer struct {
	Status int    // 0: nothing
	Reason string // why it refuses; empty: it does not say

	// The limit that is the next to be reached, how much of it is left, and in how
	// many seconds it begins anew; 0: the backend did not say, or that.
	LimitMax, LimitRemaining, LimitReset int64

	nothing bool // LimitMax is 0 because the backend said so
}

// unavailable says that the backend cannot answer at the moment.
func (a *Answer) unavailable() bool { return a.Status == 0 || a.Status >= 499 }

// LimitsExceeded is the reason of a refusal because of limits.
const LimitsExceeded = "limits_exceeded"

// An asking is one request to a backend; it is reused.
type asking struct {
	call    upstream.Call
	request wire.Request
	body    bytes.Reader
}

var askings = sync.Pool{New: func() any { return new(asking) }}

// do sends a request; nil stands for no body.
func (b *backend) do(rt *Runtime, target string, body []byte) (a Answer) {
	x := askings.Get().(*asking)
	defer askings.Put(x)
	x.request.Reset()
	x.request.Method, x.request.Target, x.request.Proto = "GET", target, wire.HTTP11
	c := &x.call
	c.Reset()
	c.Request, c.ForceHost, c.Extra = &x.request, b.host, b.get
	if body != nil {
		x.request.Method, c.Extra = "POST", b.post
		x.body.Reset(body)
		c.Body, c.Length = &x.body, int64(len(body))
	}
	defer c.Finish()
	err := b.upstream.RoundTrip(c)
	if err == nil {
		a.read(c.Response)
		drain(c)
	}
	if !a.unavailable() {
		return a
	}
	if n := rt.silent.due(); n > 0 {
		if err == nil {
			err = fmt.Errorf("status %d", a.Status)
		}
		rt.Log.Warn("3scale's backend did not answer", "host", b.host, "calls", n, "err", err)
	}
	return a
}

// read takes what counts from the response, whose memory does not last.
func (a *Answer) read(r *wire.Response) {
	a.Status = r.Status
	fields := r.Header.Fields()
	for i := range fields {
		f := &fields[i]
		if len(f.Name) < len("3scale-") || f.Name[0] != '3' {
			continue
		}
		switch {
		case wire.EqualFold(f.Name, "3scale-rejection-reason"):
			if a.Reason = LimitsExceeded; f.Value != LimitsExceeded {
				a.Reason = strings.Clone(f.Value)
			}
		case wire.EqualFold(f.Name, "3scale-limit-max-value"):
			n, err := strconv.ParseInt(f.Value, 10, 64)
			a.LimitMax, a.nothing = n, err == nil && n == 0
		case wire.EqualFold(f.Name, "3scale-limit-remaining"):
			a.LimitRemaining, _ = strconv.ParseInt(f.Value, 10, 64)
		case wire.EqualFold(f.Name, "3scale-limit-reset"):
			a.LimitReset, _ = strconv.ParseInt(f.Value, 10, 64)
		}
	}
}

// maxIgnored is how much of a body is read so that the connection can go on.
const maxIgnored = 64 << 10

func drain(c *upstream.Call) {
	b := wire.GetBuffer(4 << 10)
	defer b.Free()
	for read := 0; read < maxIgnored; {
		n, err := c.ReadBody(b.B)
		if read += n; err != nil || n == 0 && err == io.EOF {
			return
		}
	}
}

// Authorize asks whether what the request counts is allowed, without counting it.
func (k *Client) Authorize(r *Request) Answer {
	var stack [512]byte
	b := appendAsked(append(stack[:0], k.authorize...), r)
	a := k.backend.do(k.rt, string(b), nil)
	k.rt.calls.count(callAuthorize, a.Status)
	return a
}

// AuthRep is Authorize, and counts.
func (k *Client) AuthRep(r *Request) Answer {
	var stack [512]byte
	b := appendExtra(appendAsked(append(stack[:0], k.authrep...), r), r.Extra)
	return k.authRep(string(b))
}

func (k *Client) authRep(target string) Answer {
	a := k.backend.do(k.rt, target, nil)
	k.rt.calls.count(callAuthRep, a.Status)
	return a
}

// send reports transactions, which are a form, and says whether they arrived.
func (k *Client) send(form []byte) bool {
	a := k.backend.do(k.rt, k.report, form)
	k.rt.calls.count(callReport, a.Status)
	return a.Status >= 200 && a.Status < 300
}

// appendAsked appends what the request counts, and whose it is, as arguments.
func appendAsked(b []byte, r *Request) []byte {
	for i := range r.Usage {
		b = append(b, "&usage%5B"...)
		b = appendEscaped(b, r.Usage[i].Metric)
		b = strconv.AppendInt(append(b, "%5D="...), r.Usage[i].Delta, 10)
	}
	if r.Credentials.has() != 0 {
		b = appendCredentials(append(b, '&'), &r.Credentials)
	}
	return b
}

// appendCredentials appends credentials as arguments.
func appendCredentials(b []byte, c *Credentials) []byte {
	from, has := len(b), c.has()
	for i, m := range [...]struct{ name, value string }{
		{"user_key", c.UserKey}, {"app_id", c.AppID}, {"app_key", c.AppKey}, {"access_token", c.AccessToken},
	} {
		if has&(1<<i) == 0 {
			continue
		}
		if len(b) > from {
			b = append(b, '&')
		}
		b = appendArgument(b, m.name, m.value)
	}
	return b
}

func appendExtra(b []byte, extra []Parameter) []byte {
	for _, e := range extra {
		b = appendArgument(append(b, '&'), e.Name, e.Value)
	}
	return b
}

func appendArgument(b []byte, name, value string) []byte {
	return appendEscaped(append(appendEscaped(b, name), '='), value)
}

// appendEscaped escapes all but what is unreserved (RFC 3986 §2.3), as
// ngx.encode_args does.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if isAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~' {
			b = append(b, c)
			continue
		}
		b = append(b, '%', hex[c>>4], hex[c&15])
	}
	return b
}

const hex = "0123456789ABCDEF"

// Package plugintest drives one plugin through the same door as the gateway: a
// JSON configuration, then requests. Time is stepped, nothing sleeps.
package plugintest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/internal/meter"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// A Case is one configuration and the requests sent to it in order.
type Case struct {
	Name      string
	Config    string
	Invalid   string // if set, compiling must fail with an error that contains it
	Consumers Consumers
	Plugins   []plugin.Spec // that the plugin may contain
	Requests  []Request

	// Product is the product whose policy the plugin is (Env.Product), Begin makes a
	// request one to it; nil: there is none.
	Product any
	Begin   func(*plugin.Ctx)
}

// Consumers is a plugin.ConsumerIndex: by plugin name and key; by an empty
// plugin name and the consumer's own name.
type Consumers map[[2]string]*plugin.Consumer

// Find implements plugin.ConsumerIndex.
func (c Consumers) Find(name, key string) *plugin.Consumer {
	if name == "" {
		return nil
	}
	return c[[2]string{name, key}]
}

// Named implements plugin.ConsumerIndex.
func (c Consumers) Named(name string) *plugin.Consumer { return c[[2]string{"", name}] }

// A Request and what must become of it.
type Request struct {
	After   time.Duration // clock step before the request
	Method  string        // GET if empty
	Target  string        // "/" if empty
	Query   map[string]string
	Header  map[string]string
	Fields  [][2]string // header fields whose order or repetition matters
	Payload string      // the request's body
	Client  string      // the caller's address, 127.0.0.1 if empty
	Answer  Answer      // of the upstream

	// Status is that of the plugin's own answer; 0: the request goes upstream.
	Status int
	// Body is contained in what the client gets.
	Body string
	// Reply are headers of what the client gets; an empty value: not there.
	Reply map[string]string
	// Consumer is the name of the authenticated consumer; empty: none.
	Consumer string
	// Upstream are headers that reach the upstream.
	Upstream map[string]string
	// Gone are headers that do not.
	Gone []string
	// UpstreamTarget is the target as sent upstream; empty: not looked at.
	UpstreamTarget string
	// UpstreamBody is the body that the plugin sends instead of the client's;
	// empty: not looked at.
	UpstreamBody string
	// Pause is how long the plugin makes the request wait, in all.
	Pause time.Duration
	// Before runs when the request has begun, Look when it is over; nil: nothing.
	Before func(*plugin.Ctx)
	Look   func(*testing.T, *plugin.Ctx)
}

// An Answer is what the upstream answers: 200 without a body if zero.
type Answer struct {
	Status int
	Header map[string]string
	Body   string
}

// Run runs the cases as subtests.
func Run(t *testing.T, spec plugin.Spec, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			env := Env(func() time.Time { return now })
			var keeper plugin.Keeper
			env.Keep = keeper.Uses()
			env.Product = c.Product
			contain(&env, c.Plugins)
			ph, err := spec.Compile([]byte(c.Config), env)
			if c.Invalid != "" {
				if err == nil || !strings.Contains(err.Error(), c.Invalid) {
					t.Fatalf("compile: got %v, want an error with %q", err, c.Invalid)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			Own(t, spec, ph)
			for i, r := range c.Requests {
				now = now.Add(r.After)
				ctx := r.ctx(now)
				ctx.Index = c.Consumers
				for _, f := range [...]func(*plugin.Ctx){c.Begin, r.Before} {
					if f != nil {
						f(ctx)
					}
				}
				r.check(t, i, ctx, r.serve(ph, ctx))
				if r.Look != nil {
					r.Look(t, ctx)
				}
			}
			if ph.Close != nil {
				ph.Close()
			}
			env.Keep.Release()
			if n := keeper.Len(); n != 0 {
				t.Errorf("%d kept values have no user and are still there", n)
			}
		})
	}
}

// ctx is the request as the gateway presents it.
func (r *Request) ctx(now time.Time) *plugin.Ctx {
	target := r.Target
	if target == "" {
		target = "/"
	}
	if len(r.Query) > 0 {
		q := url.Values{}
		for k, v := range r.Query {
			q.Set(k, v)
		}
		target += "?" + q.Encode()
	}
	c := NewCtx(target, r.Fields...)
	for k, v := range r.Header {
		c.Request.Header.Add(k, v)
	}
	if r.Method != "" {
		c.Request.Method = r.Method
	}
	if r.Client != "" {
		c.Client = r.Client
		c.Peer = netip.AddrPortFrom(netip.MustParseAddr(r.Client), c.Peer.Port())
	}
	c.Request.Length = int64(len(r.Payload))
	c.Buffer = payload(r.Payload)
	c.Start = now
	return c
}

// outcome is what the client got.
type outcome struct {
	replied bool // by the plugin
	body    string
	paused  time.Duration
}

// serve takes the request through all phases.
func (r *Request) serve(ph plugin.Phases, c *plugin.Ctx) outcome {
	var paused time.Duration
	c.Pause = func(d time.Duration) bool {
		paused += d
		return true
	}
	reply := Send(ph, c)
	c.Response = &wire.Response{Status: 200, Proto: wire.HTTP11}
	var body []byte
	if reply != nil {
		c.Response.Status = reply.Status
		for _, h := range reply.Header {
			c.Response.Header.Set(h[0], h[1])
		}
		body = reply.Body
	} else {
		if r.Answer.Status != 0 {
			c.Response.Status = r.Answer.Status
		}
		for k, v := range r.Answer.Header {
			c.Response.Header.Add(k, v)
		}
		body = []byte(r.Answer.Body)
		c.Sent.Source = plugin.FromUpstream
	}
	c.Response.Length = int64(len(body))
	for _, h := range c.ReplyHeader() {
		c.Response.Header.Set(h[0], h[1])
	}
	if ph.Header != nil {
		ph.Header(c)
	}
	for _, open := range [...]func(*plugin.Ctx) plugin.BodyFilter{ph.Body, ph.Encode} {
		if open != nil {
			body = filter(open(c), c.Response, body)
		}
	}
	c.Sent.Status, c.Sent.BodyBytes = c.Response.Status, int64(len(body))
	if ph.Log != nil {
		ph.Log(c)
	}
	return outcome{replied: reply != nil, body: string(body), paused: paused}
}

// filter sends body through f, if that is not nil, in two pieces and an empty
// last one.
func filter(f plugin.BodyFilter, r *wire.Response, body []byte) []byte {
	if f == nil {
		return body
	}
	size := int64(-1)
	if s, ok := f.(plugin.Sized); ok {
		size = s.Size(int64(len(body)))
	}
	var out []byte
	half := len(body) / 2
	for _, chunk := range [...][]byte{body[:half], body[half:]} {
		out = append(out, f.Write(chunk, false)...)
	}
	out = append(out, f.Write(nil, true)...)
	if size >= 0 && size != int64(len(out)) {
		panic(fmt.Sprintf("the filter announced %d bytes and returned %d", size, len(out)))
	}
	if c, ok := f.(interface{ Close() }); ok {
		out = bytes.Clone(out)
		c.Close()
	}
	r.Length = size
	return out
}

func (r *Request) check(t *testing.T, i int, c *plugin.Ctx, got outcome) {
	t.Helper()
	switch {
	case r.Status == 0 && got.replied:
		t.Errorf("request %d: answered %d %q, want it to go upstream", i, c.Response.Status, got.body)
	case r.Status != 0 && !got.replied:
		t.Errorf("request %d: went upstream, want %d", i, r.Status)
	case r.Status != 0 && c.Response.Status != r.Status:
		t.Errorf("request %d: answered %d, want %d", i, c.Response.Status, r.Status)
	}
	if !strings.Contains(got.body, r.Body) {
		t.Errorf("request %d: body %q, want %q in it", i, got.body, r.Body)
	}
	for k, want := range r.Reply {
		if v, there := c.Response.Header.Get(k); v != want || there != (want != "") {
			t.Errorf("request %d: reply has %s: %q, want %q", i, k, v, want)
		}
	}
	name := ""
	if c.Consumer != nil {
		name = c.Consumer.Name
	}
	if name != r.Consumer {
		t.Errorf("request %d: consumer %q, want %q", i, name, r.Consumer)
	}
	for k, want := range r.Upstream {
		if v, _ := c.Header(k); v != want {
			t.Errorf("request %d: upstream gets %s: %q, want %q", i, k, v, want)
		}
	}
	for _, k := range r.Gone {
		if v, there := c.Header(k); there {
			t.Errorf("request %d: upstream gets %s: %q, want it gone", i, k, v)
		}
	}
	target := c.Request.Target
	if c.To.Target != "" {
		target = c.To.Target
	}
	if r.UpstreamBody != "" && string(c.To.Body) != r.UpstreamBody {
		t.Errorf("request %d: upstream gets body %q, want %q", i, c.To.Body, r.UpstreamBody)
	}
	if got.paused != r.Pause {
		t.Errorf("request %d: waits for %v, want %v", i, got.paused, r.Pause)
	}
	if r.UpstreamTarget != "" && target != r.UpstreamTarget {
		t.Errorf("request %d: upstream gets target %q, want %q", i, target, r.UpstreamTarget)
	}
}

// NewCtx is a GET request with the given header fields, from 127.0.0.1.
func NewCtx(target string, fields ...[2]string) *plugin.Ctx {
	path, _, _ := strings.Cut(target, "?")
	req := &wire.Request{Method: "GET", Target: target, Proto: wire.HTTP11, Host: "example.com"}
	for _, f := range fields {
		req.Header.Add(f[0], f[1])
	}
	local := netip.MustParseAddr("127.0.0.1")
	return &plugin.Ctx{
		Request: req,
		Path:    path,
		Route:   &plugin.Route{ID: "1"},
		Peer:    netip.AddrPortFrom(local, 40_000),
		Server:  netip.AddrPortFrom(local, 9080),
		Scheme:  "http",
		Client:  local.String(),
		Buffer:  payload(""),
		Pause:   func(time.Duration) bool { return true },
	}
}

// Send runs the request phases; nil means that the request goes upstream.
func Send(ph plugin.Phases, c *plugin.Ctx) *plugin.Reply {
	for _, f := range [...]func(*plugin.Ctx) *plugin.Reply{ph.Rewrite, ph.Access, ph.Content, ph.BeforeProxy} {
		if f == nil {
			continue
		}
		if r := f(c); r != nil {
			return r
		}
	}
	return nil
}

// Env is an environment with a clock of your own, which logs nothing and knows
// no other plugins.
func Env(now func() time.Time) plugin.Env {
	env := plugin.Env{
		Context: context.Background(),
		Owner:   "routes/1",
		Meter:   meter.New(0),
		Files:   new(plugin.Files),
		Exists:  func(string) bool { return true },
		Keep:    new(plugin.Keeper).Uses(),
		Now:     now,
		Rand:    rand.Float64,
		Log:     slog.New(slog.DiscardHandler),

		Upstream:    func(json.RawMessage) (plugin.Upstream, error) { return upstream{}, nil },
		Reach:       func(*model.Upstream) (plugin.Upstream, error) { return upstream{}, nil },
		Connections: func() plugin.Connections { return plugin.Connections{} },

		Endpoint: func(string, string) func(*plugin.Ctx) *plugin.Reply { return nil },
	}
	contain(&env, nil)
	return env
}

// upstream leads nowhere.
type upstream struct{}

func (upstream) Close() {}

// contain makes plugins known to env.
func contain(env *plugin.Env, plugins []plugin.Spec) {
	find := func(name string) (plugin.Spec, bool) {
		for _, s := range plugins {
			if s.Name == name {
				return s, true
			}
		}
		return plugin.Spec{}, false
	}
	inner := *env
	env.Plugin = func(name string) (plugin.Meta, bool) {
		s, known := find(name)
		return s.Meta, known
	}
	env.Compile = func(name string, conf json.RawMessage) (plugin.Phases, error) {
		s, known := find(name)
		if !known {
			return plugin.Phases{}, fmt.Errorf("unknown plugin [%s]", name)
		}
		return s.Compile(conf, inner)
	}
}

type payload string

func (p payload) Body(limit int64) ([]byte, error) {
	if int64(len(p)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	return []byte(p), nil
}

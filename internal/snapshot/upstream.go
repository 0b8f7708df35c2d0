package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"weir/internal/dialect/apisix"
	"weir/internal/expr"
	"weir/internal/health"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/upstream"
)

// An Upstream is a compiled upstream, ready to run.
type Upstream struct {
	*upstream.Upstream

	// Key reads what the node is chosen by; nil: the type does not need it.
	Key func(*plugin.Ctx) string

	// Websocket allows WebSockets on every route to this upstream.
	Websocket bool
}

// newUpstream compiles an upstream of the object owner, which was created at the
// given revision: what is known of the nodes outlives changes of one object, and
// ends with it. An empty owner stands for none.
func (x *compiler) newUpstream(m *model.Upstream, owner string, created int64) (*Upstream, error) {
	env := x.config.Upstream
	if owner != "" {
		env.Owner = owner + "@" + strconv.FormatInt(created, 10)
	}
	u, err := upstream.Compile(m, env)
	if err != nil {
		return nil, err
	}
	on, key, hashes := u.HashKey()
	if !hashes {
		return &Upstream{Upstream: u, Websocket: m.Websocket}, nil
	}
	read, err := hashKey(on, key)
	if err != nil {
		u.Close()
		return nil, fmt.Errorf("upstream key: %w", err)
	}
	return &Upstream{u, read, m.Websocket}, nil
}

// hashKey reads what hash_on and key name; where that is absent, the client's
// address.
func hashKey(on, key string) (func(*plugin.Ctx) string, error) {
	switch on {
	case "consumer":
		key = "consumer_name"
	case "header":
		key = "http_" + strings.ReplaceAll(strings.ToLower(key), "-", "_")
	case "cookie":
		key = "cookie_" + key
	case "vars_combinations":
		t, err := expr.Parse(key)
		if err != nil {
			return nil, err
		}
		return func(c *plugin.Ctx) string {
			if t.Resolved(c) {
				return t.Value(c)
			}
			return c.Client
		}, nil
	}
	v, err := expr.Variable(key)
	if err != nil {
		return nil, err
	}
	return func(c *plugin.Ctx) string {
		if s, ok := v.Value(c); ok {
			return s
		}
		return c.Client
	}, nil
}

func (x *compiler) compileUpstream(o model.Object) (*Upstream, error) {
	m, err := apisix.Upstream(o.ID, o.Raw)
	if err != nil {
		return nil, err
	}
	return x.newUpstream(m, o.Key.String(), o.Created)
}

// Checked is what health checks have found of one object's upstream.
type Checked struct {
	Object model.Key
	Type   string        // http, https, tcp
	Nodes  []health.Node // nil: no request has started the checks yet
}

// Health reports on every route, service and upstream with configured checks.
func (s *Snapshot) Health(yield func(Checked) bool) {
	for id, e := range s.routes.All() {
		if e.running != nil && !report(model.Key{Kind: model.KindRoute, ID: id}, e.own(), yield) {
			return
		}
	}
	for id, e := range s.services.All() {
		if !report(model.Key{Kind: model.KindService, ID: id}, e.upstream, yield) {
			return
		}
	}
	for id, e := range s.streams.All() {
		if !report(model.Key{Kind: model.KindStreamRoute, ID: id}, e.own(), yield) {
			return
		}
	}
	for id, e := range s.upstreams.All() {
		if !report(model.Key{Kind: model.KindUpstream, ID: id}, e.running, yield) {
			return
		}
	}
}

// HealthOf reports on one object; checked is false if it has no checks.
func (s *Snapshot) HealthOf(k model.Key) (c Checked, checked bool) {
	var u *Upstream
	switch k.Kind {
	case model.KindRoute:
		if e, ok := s.routes.Get(k.ID); ok {
			u = e.own()
		}
	case model.KindStreamRoute:
		if e, ok := s.streams.Get(k.ID); ok {
			u = e.own()
		}
	case model.KindService:
		if e, ok := s.services.Get(k.ID); ok {
			u = e.upstream
		}
	case model.KindUpstream:
		if e, ok := s.upstreams.Get(k.ID); ok {
			u = e.running
		}
	}
	report(k, u, func(found Checked) bool {
		c, checked = found, true
		return true
	})
	return c, checked
}

// own is the upstream that stands in the route itself; nil: none does.
func (e *routeEntry) own() *Upstream {
	if e.running == nil || e.good == nil || e.good.Upstream == nil {
		return nil
	}
	return e.running.Value.Upstream
}

func report(k model.Key, u *Upstream, yield func(Checked) bool) bool {
	if u == nil {
		return true
	}
	kind, nodes, ok := u.Health()
	return !ok || yield(Checked{k, kind, nodes})
}

// certificates are the client certificates of ssl objects that upstreams have
// asked for.
type certificates struct {
	mu   sync.Mutex
	byID map[string]heldCertificate
}

type heldCertificate struct {
	modified int64 // of the object it was read from
	cert     *upstream.Certificate
	err      error
}

// certificate is upstream.Env's: the certificate of an ssl object of type
// client.
func (a *Applier) certificate(id string) (*upstream.Certificate, error) {
	o, ok := a.Current().documents[model.KindSSL].Get(id)
	c := &a.certificates
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		delete(c.byID, id)
		return nil, fmt.Errorf("there is no ssl object %q", id)
	}
	held, had := c.byID[id]
	if !had || held.modified != o.Modified {
		held = heldCertificate{modified: o.Modified}
		held.cert, held.err = readCertificate(o.Raw, a.config.Upstream.OpenKey)
		if c.byID == nil {
			c.byID = map[string]heldCertificate{}
		}
		c.byID[id] = held
	}
	if held.err != nil {
		return nil, fmt.Errorf("ssl object %q: %w", id, held.err)
	}
	return held.cert, nil
}

func readCertificate(raw []byte, openKey func(string) (string, bool)) (*upstream.Certificate, error) {
	var doc struct {
		Type string `json:"type"`
		Cert string `json:"cert"`
		Key  string `json:"key"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if doc.Type != "client" {
		return nil, errors.New("wrong ssl type")
	}
	if openKey != nil {
		var ok bool
		if doc.Key, ok = openKey(doc.Key); !ok {
			return nil, errors.New("its key cannot be decrypted")
		}
	}
	return upstream.NewCertificate(doc.Cert, doc.Key)
}

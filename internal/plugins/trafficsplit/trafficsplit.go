// Package trafficsplit sends parts of the traffic to other upstreams.
package trafficsplit

import (
	"encoding/json"
	"errors"
	"fmt"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/quota"
)

const name = "traffic-split"

// Plugin is traffic-split as in APISIX.
var Plugin = plugin.Define(meta, compile)

// Stream is the plugin of stream routes.
var Stream = plugin.DefineStream(meta, compileStream)

// meta is immutable.
var meta = plugin.Meta{
	Name:     name,
	Priority: 966,
	Doc:      "Sends parts of the traffic to other upstreams than the route's, by weight and by what requests are like.",
}

// Config is the configuration on a route.
type Config struct {
	Rules []Rule `json:"rules" doc:"The first rule that matches decides."`
}

// A Rule sends the requests that match to one of several upstreams.
type Rule struct {
	Match     []Match    `json:"match" doc:"The rule matches if one of these does; without it, always."`
	Upstreams []Weighted `json:"weighted_upstreams" schema:"minItems=1,maxItems=20,default=[{\"weight\":1}]" doc:"Where requests go, in turn."`
}

// A Match is one condition.
type Match struct {
	Vars expression `json:"vars" doc:"Match expression, as in a route's vars."`
}

// Weighted is an upstream and its part of the requests.
type Weighted struct {
	ID       plugin.ObjectID `json:"upstream_id" doc:"Id of an upstream."`
	Upstream inline          `json:"upstream" doc:"An upstream of its own; only its name, type, hash_on, key, pass_host, upstream_host, nodes, timeout and scheme count. With neither, the request goes where the route says."`
	Weight   int             `json:"weight" schema:"default=1,min=0" doc:"Its part, relative to those of the others."`
}

// An expression is a match expression in its document.
type expression json.RawMessage

// JSONSchema implements schema.Describer.
func (expression) JSONSchema() []byte { return []byte(`{"type": "array"}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (e *expression) UnmarshalJSON(b []byte) error {
	*e = append(expression(nil), b...)
	return nil
}

// An inline upstream is a document that the gateway checks.
type inline json.RawMessage

// JSONSchema implements schema.Describer.
func (inline) JSONSchema() []byte { return []byte(`{"type": "object"}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (u *inline) UnmarshalJSON(b []byte) error {
	*u = append(inline(nil), b...)
	return nil
}

// A rule is compiled.
type rule struct {
	matches []*expr.Expr
	always  bool
	targets []target
	wheel   *wheel
}

// A target is where requests go; the zero target is where the route says.
type target struct {
	id       string
	object   string        // of id
	missing  *plugin.Reply // when there is no such upstream
	upstream plugin.Upstream
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	prefix := name + " " + quota.Prefix(env)
	rules := make([]rule, len(c.Rules))
	for i, given := range c.Rules {
		r, err := compileRule(given, env, fmt.Sprint(prefix, i))
		if err != nil {
			if inline := new(inlineError); errors.As(err, &inline) {
				return plugin.Phases{}, fmt.Errorf(`property "rules" validation failed: failed to validate item %d: %w`, i+1, err)
			}
			return plugin.Phases{}, err
		}
		rules[i] = r
	}
	access := func(r *plugin.Ctx) *plugin.Reply {
		for i := range rules {
			if rules[i].match(r) {
				return rules[i].send(r, env)
			}
		}
		return nil
	}
	return plugin.Phases{Access: access}, nil
}

func compileStream(c *Config, env plugin.Env) (plugin.Stream, error) {
	p, err := compile(c, env)
	if err != nil {
		return plugin.Stream{}, err
	}
	return plugin.Stream{Preread: func(s *plugin.StreamCtx) *plugin.Reply { return p.Access(&s.Ctx) }}, nil
}

func compileRule(given Rule, env plugin.Env, key string) (rule, error) {
	r := rule{always: len(given.Match) == 0, targets: make([]target, len(given.Upstreams))}
	for _, m := range given.Match {
		vars := m.Vars
		if vars == nil {
			vars = expression("null")
		}
		e, err := expr.Compile(json.RawMessage(vars))
		if err != nil {
			return rule{}, fmt.Errorf("failed to validate the 'vars' expression: %w", err)
		}
		r.matches = append(r.matches, e)
	}
	weights := make([]int, len(given.Upstreams))
	for i, w := range given.Upstreams {
		weights[i] = w.Weight
		t, err := compileTarget(w, env, fmt.Sprint(key, " ", i))
		if err != nil {
			return rule{}, &inlineError{i + 1, err}
		}
		r.targets[i] = t
	}
	r.wheel = plugin.Keep(env, key, func() *wheel { return newWheel(weights) })
	return r, nil
}

// An inlineError says what is wrong with the upstream of a rule, in the words of
// APISIX's validator.
type inlineError struct {
	item int
	err  error
}

func (e *inlineError) Error() string {
	return fmt.Sprintf(`property "weighted_upstreams" validation failed: failed to validate item %d: property "upstream" validation failed: %v`, e.item, e.err)
}

func (e *inlineError) Unwrap() error { return e.err }

func compileTarget(w Weighted, env plugin.Env, key string) (target, error) {
	if w.ID != "" {
		id := string(w.ID)
		return target{
			id: id, object: "upstreams/" + id,
			missing: plugin.Text(500, "failed to fetch upstream info by upstream id: "+id),
		}, nil
	}
	if w.Upstream == nil {
		return target{}, nil
	}
	// It is kept, lest a change elsewhere begins its balancing anew.
	opened := plugin.Keep(env, key, func() *opened {
		u, err := open(w.Upstream, env)
		return &opened{u, err}
	})
	return target{upstream: opened.Upstream}, opened.err
}

// opened is an upstream, or why it is none.
type opened struct {
	plugin.Upstream
	err error
}

// Close ends the upstream.
func (o *opened) Close() {
	if o.Upstream != nil {
		o.Upstream.Close()
	}
}

// counted are the members of an inline upstream that count.
type counted struct {
	Name         json.RawMessage `json:"name,omitempty"`
	Type         json.RawMessage `json:"type,omitempty"`
	HashOn       json.RawMessage `json:"hash_on,omitempty"`
	Key          json.RawMessage `json:"key,omitempty"`
	PassHost     json.RawMessage `json:"pass_host,omitempty"`
	UpstreamHost json.RawMessage `json:"upstream_host,omitempty"`
	Nodes        json.RawMessage `json:"nodes,omitempty"`
	Timeout      json.RawMessage `json:"timeout,omitempty"`
	Scheme       json.RawMessage `json:"scheme,omitempty"`
}

// open checks the whole document and compiles what counts of it.
func open(doc inline, env plugin.Env) (plugin.Upstream, error) {
	whole, err := env.Upstream(json.RawMessage(doc))
	if err != nil {
		return nil, err
	}
	whole.Close()
	var c counted
	if err := json.Unmarshal(doc, &c); err != nil {
		return nil, err
	}
	if doc, err = json.Marshal(c); err != nil {
		return nil, err
	}
	return env.Upstream(json.RawMessage(doc))
}

func (r *rule) match(c *plugin.Ctx) bool {
	if r.always {
		return true
	}
	for _, e := range r.matches {
		if ok, err := e.Match(c); ok && err == nil {
			return true
		}
	}
	return false
}

// send has the request go to the next of the rule's targets.
func (r *rule) send(c *plugin.Ctx, env plugin.Env) *plugin.Reply {
	t := &r.targets[r.wheel.next()]
	if t.id != "" && !env.Exists(t.object) {
		return t.missing
	}
	c.To.UpstreamID, c.To.Upstream = t.id, t.upstream
	return nil
}

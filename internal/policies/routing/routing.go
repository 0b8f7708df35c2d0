// Package routing sends requests to other upstreams by what they ask for.
package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// Policy is routing.
var Policy = plugin.Define(
	plugin.Meta{Name: "routing", Before: []string{"apicast"}, Doc: "Sends requests to other upstreams by what they ask for."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Rules []Rule `json:"rules" doc:"The first one whose condition holds is applied."`
}

// A Rule says where some requests go.
type Rule struct {
	URL         string        `json:"url" schema:"required" doc:"URL of the upstream."`
	Condition   *Condition    `json:"condition" schema:"required" doc:"Which requests are meant."`
	HostHeader  string        `json:"host_header" doc:"Host header; absent: the product's hostname_rewrite, else the URL's."`
	ReplacePath string        `json:"replace_path" doc:"Liquid template of the path that follows the URL's instead of the request's."`
	OwnerID     schema.Scalar `json:"owner_id" doc:"Backend API that the upstream belongs to: mapping rules of others do not count."`
}

// A Condition combines operations.
type Condition struct {
	CombineOp  string      `json:"combine_op" schema:"default=and,enum=and|or" doc:"Whether all or one of them must hold."`
	Operations []Operation `json:"operations" doc:"What is compared."`
}

// An Operation compares a part of the request.
type Operation struct {
	Match     string        `json:"match" schema:"required,enum=path|header|query_arg|jwt_claim|liquid" doc:"What is compared."`
	Header    string        `json:"header_name" doc:"Name of the header."`
	Argument  string        `json:"query_arg_name" doc:"Name of the argument."`
	Claim     string        `json:"jwt_claim_name" doc:"Name of the claim of the verified token."`
	Liquid    string        `json:"liquid_value" doc:"Template."`
	Op        string        `json:"op" schema:"required,enum===|!=|matches" doc:"The comparison; matches looks for a PCRE pattern."`
	Value     schema.Scalar `json:"value" doc:"What it is compared with."`
	ValueType string        `json:"value_type" schema:"default=plain,enum=plain|liquid" doc:"How the value is evaluated."`
}

// A rule is a compiled Rule.
type rule struct {
	test     threescale.Test
	upstream *threescale.Upstream
	host     string
	path     *threescale.Text // nil: the request's
	owner    string
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	var rules []*rule
	for i := range c.Rules {
		u, err := threescale.NewUpstream(c.Rules[i].URL)
		if err != nil { // the others work
			env.Log.Warn("a rule of the policy routing is left out", "owner", env.Owner, "rule", i, "err", err)
			continue
		}
		r, err := c.Rules[i].compile(u, threescale.ProductOf(env))
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("rules[%d]: %w", i, err)
		}
		rules = append(rules, r)
	}
	if rules == nil {
		return plugin.Phases{}, nil
	}
	return plugin.Phases{
		Access: func(c *plugin.Ctx) *plugin.Reply {
			choose(c, rules)
			return nil
		},
		Content: func(c *plugin.Ctx) *plugin.Reply {
			if threescale.Of(c).Upstream == nil {
				return nil
			}
			return threescale.Route(c)
		},
	}, nil
}

func (d *Rule) compile(u *threescale.Upstream, p *threescale.Product) (r *rule, err error) {
	r = &rule{upstream: u, owner: string(d.OwnerID), host: cmp.Or(d.HostHeader, p.HostnameRewrite, u.Header)}
	if d.ReplacePath != "" {
		if r.path, err = threescale.NewText(d.ReplacePath, threescale.Liquid); err != nil {
			return nil, err
		}
	}
	var operations []threescale.Operation
	for _, o := range d.Condition.Operations {
		op := threescale.Operation{Op: o.Op, Right: o.Value, RightType: o.ValueType}
		if o.Match == "liquid" {
			op.Left, op.LeftType = schema.Scalar(o.Liquid), threescale.Liquid
		} else {
			op.Of = o.left()
		}
		operations = append(operations, op)
	}
	r.test, err = threescale.Combine(d.Condition.CombineOp, operations)
	return r, err
}

// counted is the usage before a rule's owner had others' rules taken out of it, so
// that a later policy routing can decide otherwise.
var counted = new(threescale.Usage)

func choose(c *plugin.Ctx, rules []*rule) {
	r := threescale.Of(c)
	if before, ok := c.State(counted).(threescale.Usage); ok {
		r.Usage = append(r.Usage[:0], before...)
		c.SetState(counted, nil)
	}
	r.Upstream, r.Host = nil, ""
	for _, rule := range rules {
		if rule.test.Holds(c) {
			rule.apply(c, r)
			return
		}
	}
}

func (d *rule) apply(c *plugin.Ctx, r *threescale.Request) {
	r.Upstream, r.Host = d.upstream, d.host
	if d.owner != "" {
		c.SetState(counted, slices.Clone(r.Usage))
		for _, m := range r.Matched {
			if m.Owner != "" && m.Owner != d.owner {
				r.Usage.Add(m.Metric, -m.Delta)
			}
		}
		r.Usage.Trim()
	}
	if d.path != nil {
		r.Upstream = d.upstream.Below(d.path.Value(c))
		r.SetPath("/")
	}
}

// absent is what the original compares where there is nothing, several what it
// compares where there is more than one.
const (
	absent  = "nil"
	several = "table"
)

// left is the part of a request that is compared.
func (o *Operation) left() func(*plugin.Ctx) string {
	switch o.Match {
	case "header":
		name := o.Header
		return func(c *plugin.Ctx) string { return header(c, name) }
	case "query_arg":
		name := o.Argument
		return func(c *plugin.Ctx) string { return argument(threescale.Of(c).Query, name) }
	case "jwt_claim":
		name := o.Claim
		return func(c *plugin.Ctx) string {
			token := threescale.Of(c).Token
			if token == nil {
				return absent
			}
			return claim(token.Claims[name])
		}
	}
	return func(c *plugin.Ctx) string { return threescale.Of(c).Path }
}

func header(c *plugin.Ctx, name string) string {
	value, n := absent, 0
	fields := c.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped && strings.EqualFold(f.Name, name) {
			value = f.Value
			n++
		}
	}
	if n > 1 {
		return several
	}
	return value
}

func argument(query, name string) string {
	value, n := absent, 0
	threescale.EachArgument(query, func(k, v string, bare bool) {
		if k != name {
			return
		}
		if value, n = v, n+1; bare {
			value = "true"
		}
	})
	if n > 1 {
		return several
	}
	return value
}

func claim(v any) string {
	if v == nil {
		return absent
	}
	if s, ok := threescale.TextOf(v); ok {
		return s
	}
	return several
}

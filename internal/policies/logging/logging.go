// Package logging decides what the access log has of requests.
package logging

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
	"weir/internal/threescale/liquid"
)

// Policy is logging.
var Policy = plugin.Define(
	plugin.Meta{Name: "logging", Doc: "Turns the access log off, or replaces its lines."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Enabled   bool       `json:"enable_access_logs" schema:"default=true" doc:"Whether requests are in the access log."`
	Custom    *string    `json:"custom_logging" doc:"Liquid template of the line; besides what all templates know there are req.headers, resp.headers and all variables of nginx."`
	JSON      bool       `json:"enable_json_logs" doc:"Whether the line is a JSON object."`
	Members   []Member   `json:"json_object_config" doc:"The members of that object."`
	Condition *Condition `json:"condition" doc:"For which requests the line is written; there is none for others. Absent: all."`
}

// A Member is one of a JSON object.
type Member struct {
	Key       string        `json:"key" schema:"required" doc:"Name of the member."`
	Value     schema.Scalar `json:"value" schema:"required" doc:"The value."`
	ValueType string        `json:"value_type" schema:"default=plain,enum=plain|liquid" doc:"How the value is evaluated."`
}

// A Condition combines operations.
type Condition struct {
	Operations []Operation `json:"operations" doc:"What is compared."`
	CombineOp  string      `json:"combine_op" schema:"default=and,enum=and|or" doc:"Whether all or one of them must hold."`
}

// An Operation compares two texts.
type Operation struct {
	Op        string        `json:"op" schema:"required,enum===|!=|matches" doc:"The comparison; matches looks for a PCRE pattern."`
	Match     schema.Scalar `json:"match" doc:"Left operand."`
	MatchType string        `json:"match_type" schema:"default=plain,enum=plain|liquid" doc:"How the left operand is evaluated."`
	Value     schema.Scalar `json:"value" doc:"Right operand."`
	ValueType string        `json:"value_type" schema:"default=plain,enum=plain|liquid" doc:"How the right operand is evaluated."`
}

// member is a compiled Member.
type member struct {
	before string // `{"key":` or `,"key":`
	value  *threescale.Text
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	if c.Custom == nil && !c.JSON {
		off := !c.Enabled
		p.Log = func(x *plugin.Ctx) { x.Line.Off = off }
		return p, nil
	}
	test, err := c.test()
	if err != nil {
		return p, err
	}
	line, err := c.line()
	if err != nil {
		return p, err
	}
	p.Log = func(x *plugin.Ctx) {
		x.Line = plugin.AccessLine{Off: true}
		if test.Holds(x) {
			x.Line.Own, x.Line.Text = true, line(x)
		}
	}
	return p, nil
}

func (c *Config) test() (threescale.Test, error) {
	if c.Condition == nil {
		return threescale.Test{}, nil
	}
	operations := make([]threescale.Operation, len(c.Condition.Operations))
	for i, o := range c.Condition.Operations {
		operations[i] = threescale.Operation{Left: o.Match, LeftType: o.MatchType, Op: o.Op, Right: o.Value, RightType: o.ValueType}
	}
	return threescale.CombineOf(threescale.Afterwards, c.Condition.CombineOp, operations)
}

// line is what makes a request's line.
func (c *Config) line() (func(*plugin.Ctx) string, error) {
	if !c.JSON {
		text, err := threescale.NewTextOf(threescale.Afterwards, *c.Custom, threescale.Liquid)
		if err != nil {
			return nil, err
		}
		return text.Value, nil
	}
	var members []member
	for i, m := range c.Members {
		value, err := threescale.NewTextOf(threescale.Afterwards, string(m.Value), m.ValueType)
		if err != nil {
			return nil, fmt.Errorf("json_object_config[%d]: %w", i, err)
		}
		separator := ","
		if i == 0 {
			separator = "{"
		}
		members = append(members, member{separator + string(liquid.AppendJSON(nil, m.Key)) + ":", value})
	}
	return func(c *plugin.Ctx) string { return object(c, members) }, nil
}

func object(c *plugin.Ctx, members []member) string {
	if len(members) == 0 {
		return "{}"
	}
	dst := make([]byte, 0, 256)
	for i := range members {
		dst = append(dst, members[i].before...)
		dst = liquid.AppendString(dst, members[i].value.Value(c))
	}
	return c.Keep(append(dst, '}'))
}

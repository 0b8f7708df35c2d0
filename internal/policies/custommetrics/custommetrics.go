// Package custommetrics counts on metrics of 3scale what the answers to requests
// say.
package custommetrics

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// Policy is custom_metrics.
var Policy = plugin.Define(
	plugin.Meta{
		Name: "custom_metrics", Before: []string{"apicast"},
		Doc: "Count on further metrics of 3scale, depending on the answer.",
	},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Rules []Rule `json:"rules" doc:"What is counted."`
}

// A Rule counts where its condition holds.
type Rule struct {
	Condition *threescale.Condition `json:"condition" doc:"When the rule counts; absent: always. Besides what all templates know there are req.headers, resp.headers and all variables of nginx."`
	Metric    string                `json:"metric" doc:"Liquid template of the metric's system name; an empty name: nothing is counted."`
	Increment schema.Scalar         `json:"increment" schema:"default=0" doc:"Liquid template of how much is counted."`
}

// rule is a compiled Rule.
type rule struct {
	test              threescale.Test
	metric, increment *threescale.Text
}

func (r *Rule) compile() (c rule, err error) {
	if k := r.Condition; k != nil {
		if c.test, err = threescale.CombineOf(threescale.Afterwards, k.CombineOp, k.Operations); err != nil {
			return c, fmt.Errorf("condition: %w", err)
		}
	}
	if c.metric, err = threescale.NewTextOf(threescale.Afterwards, r.Metric, threescale.Liquid); err != nil {
		return c, err
	}
	c.increment, err = threescale.NewTextOf(threescale.Afterwards, string(r.Increment), threescale.Liquid)
	return c, err
}

func compile(conf *Config, env plugin.Env) (plugin.Phases, error) {
	var rules []rule
	for i := range conf.Rules {
		r, err := conf.Rules[i].compile()
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("rules[%d]: %w", i, err)
		}
		if !r.test.Never() {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return plugin.Phases{}, nil
	}
	client, err := threescale.NewClient(env)
	if err != nil {
		return plugin.Phases{}, err
	}
	return plugin.Phases{Log: func(c *plugin.Ctx) {
		var stack [8]threescale.Count
		counted := threescale.Usage(stack[:0])
		for i := range rules {
			rules[i].count(c, &counted)
		}
		if counted.Trim(); len(counted) > 0 {
			report(threescale.Of(c), client, counted)
		}
	}}, nil
}

func (r *rule) count(c *plugin.Ctx, u *threescale.Usage) {
	if !r.test.Holds(c) {
		return
	}
	if metric := r.metric.Value(c); metric != "" {
		n, err := strconv.ParseFloat(strings.TrimSpace(r.increment.Value(c)), 64)
		if err != nil {
			n = 0
		}
		u.Add(metric, int64(n))
	}
}

// report adds to what the request is reported with, if that is still to come.
func report(r *threescale.Request, client *threescale.Client, counted threescale.Usage) {
	switch {
	case r.Reported():
		for _, n := range counted {
			r.Usage.Add(n.Metric, n.Delta)
		}
	case r.Batch != nil && !r.Credentials.None():
		r.Batch.Add(&r.Credentials, counted)
	default:
		client.ReportUsage(&r.Credentials, counted)
	}
}

// Package jwtclaimcheck refuses requests whose token lacks what a rule for the
// resource asks of its claims.
package jwtclaimcheck

import (
	"fmt"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
	"weir/internal/threescale/liquid"
)

// Policy is jwt_claim_check.
var Policy = plugin.Define(
	plugin.Meta{Name: "jwt_claim_check", Guard: true, Doc: "Refuses requests to a resource unless the claims of their token are as its rule says."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Rules    []Rule `json:"rules" doc:"What is asked of tokens, by resource. Each rule for the request's resource must hold."`
	Message  string `json:"error_message" schema:"default=Request blocked due to JWT claim policy" doc:"Body of a refusal."`
	Extended bool   `json:"enable_extended_context" doc:"Templates know the whole request, with the claims as jwt, instead of the claims as names of their own."`
}

// Rule is what is asked of the tokens for a resource.
type Rule struct {
	Resource     string      `json:"resource" schema:"required" doc:"Pattern of the path, as in mapping rules."`
	ResourceType string      `json:"resource_type" schema:"default=plain,enum=plain|liquid" doc:"How the resource is evaluated."`
	Methods      []string    `json:"methods" doc:"Methods that are meant; default: ANY, which is all."`
	CombineOp    string      `json:"combine_op" schema:"default=and,enum=and|or" doc:"Whether all operations must hold, or one."`
	Operations   []Operation `json:"operations" doc:"What is compared."`
}

// Operation compares a claim.
type Operation struct {
	Claim     string        `json:"jwt_claim" schema:"required" doc:"Name of a claim, or a template."`
	ClaimType string        `json:"jwt_claim_type" schema:"default=liquid,enum=plain|liquid" doc:"plain: a claim's name. liquid: a template."`
	Op        string        `json:"op" schema:"required,enum===|!=|matches" doc:"The comparison; matches looks for a PCRE pattern."`
	Value     schema.Scalar `json:"value" doc:"What the claim is compared with."`
	ValueType string        `json:"value_type" schema:"default=plain,enum=plain|liquid" doc:"How the value is evaluated."`
}

// A rule is a compiled one.
type rule struct {
	resource *threescale.Resource
	test     threescale.Test
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	rules := make([]rule, len(c.Rules))
	for i := range c.Rules {
		var err error
		if rules[i], err = c.Rules[i].compile(c.Extended); err != nil {
			return plugin.Phases{}, fmt.Errorf("rules[%d]: %w", i, err)
		}
	}
	if len(rules) == 0 {
		return plugin.Phases{}, nil
	}
	refusal := plugin.Text(403, c.Message+"\n")
	return plugin.Phases{Access: func(r *plugin.Ctx) *plugin.Reply {
		for i := range rules {
			covered, err := rules[i].resource.Covers(r)
			if err != nil {
				env.Log.Warn("a resource out of a template is no pattern", "policy", "jwt_claim_check", "owner", env.Owner, "err", err)
				return refusal
			}
			if covered && !rules[i].test.Holds(r) {
				return refusal
			}
		}
		return nil
	}}, nil
}

func (k *Rule) compile(extended bool) (r rule, err error) {
	if r.resource, err = threescale.NewResource(k.Resource, k.ResourceType, k.Methods); err != nil {
		return r, fmt.Errorf("resource: %w", err)
	}
	var scope func(*plugin.Ctx) liquid.Scope
	if !extended {
		scope = threescale.ClaimsOf
	}
	operations := make([]threescale.Operation, len(k.Operations))
	for i, o := range k.Operations {
		left := o.Claim
		if o.ClaimType == threescale.Plain {
			if extended {
				left = "jwt." + left
			}
			left = "{{" + left + "}}"
		}
		operations[i] = threescale.Operation{
			Left: schema.Scalar(left), LeftType: threescale.Liquid, Op: o.Op, Right: o.Value, RightType: o.ValueType,
		}
	}
	r.test, err = threescale.CombineIn(scope, k.CombineOp, operations)
	return r, err
}

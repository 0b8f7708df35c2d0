// Package conditional runs policies for some requests only.
package conditional

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"weir/internal/dialect/apicast"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is conditional.
var Policy = plugin.Define(
	plugin.Meta{Name: "conditional", Guard: true, Doc: "Runs policies for the requests for which a condition holds; it is asked in every phase."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Condition Condition `json:"condition" doc:"Which requests are meant."`
	Chain     document  `json:"policy_chain" doc:"The policies, as in a product's chain."`
}

// A Condition combines operations.
type Condition struct {
	CombineOp  string                 `json:"combine_op" schema:"default=and,enum=and|or" doc:"Whether all or one of them must hold."`
	Operations []threescale.Operation `json:"operations" doc:"What is compared."`
}

// A document is a policy chain as it stands in a configuration.
type document json.RawMessage

// JSONSchema implements schema.Describer.
func (document) JSONSchema() []byte { return []byte(`{"type":"array","items":{"type":"object"}}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *document) UnmarshalJSON(b []byte) error {
	*d = append(document(nil), b...)
	return nil
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	var chain []model.Policy
	if c.Chain != nil {
		var err error
		if chain, err = apicast.Policies(json.RawMessage(c.Chain)); err != nil {
			return plugin.Phases{}, fmt.Errorf("policy_chain: %w", err)
		}
	}
	test, err := threescale.Combine(c.Condition.CombineOp, c.Condition.Operations)
	if c.Condition.Operations == nil {
		err = errors.New("condition: there are no operations")
	}
	if err != nil {
		return broken(chain, err, env)
	}
	parts, left, err := members(chain, env)
	if left != nil && answersFailures(chain) {
		end(parts)
		env.Log.Error("a policy is left out", "owner", env.Owner, "in", "conditional", "err", left)
		return refusing(&test, threescale.ProductOf(env)), nil
	}
	if err != nil {
		end(parts)
		return plugin.Phases{}, err
	}
	if left != nil {
		fault(env, left)
	}
	return wrap(&test, parts), nil
}

// answersFailures says that a chain has on_failed, which answers the requests that
// a policy that does not work should have seen.
func answersFailures(chain []model.Policy) bool {
	return slices.ContainsFunc(chain, func(p model.Policy) bool { return p.Name == "on_failed" })
}

// refusing answers where the test holds, as on_failed says.
func refusing(test *threescale.Test, p *threescale.Product) plugin.Phases {
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		if test.Holds(c) {
			return p.OnBroken
		}
		return nil
	}}
}

// broken is what becomes of a policy whose condition is wrong: like APIcast it does
// nothing, but for one that has guards in it, which must not be left out.
func broken(chain []model.Policy, cause error, env plugin.Env) (plugin.Phases, error) {
	for _, p := range chain {
		if guards(p, env) {
			return plugin.Phases{}, cause
		}
	}
	fault(env, cause)
	return plugin.Phases{}, nil
}

// members compiles the policies. left joins why some are left out, err those of
// them that are guards.
func members(chain []model.Policy, env plugin.Env) (parts []plugin.Phases, left, err error) {
	for i, p := range chain {
		part, fault := plugin.Phases{}, error(nil)
		if p.Version != apicast.Builtin {
			fault = fmt.Errorf("there is no version %q of it", p.Version)
		} else {
			part, fault = env.Compile(p.Name, p.Configuration)
		}
		if fault == nil {
			parts = append(parts, part)
			continue
		}
		fault = fmt.Errorf("policy_chain[%d]: %s: %w", i, p.Name, fault)
		left = errors.Join(left, fault)
		if guards(p, env) {
			err = errors.Join(err, fault)
		}
	}
	return parts, left, err
}

// guards says that a policy is a guard, or could be.
func guards(p model.Policy, env plugin.Env) bool {
	meta, known := env.Plugin(p.Name)
	return !known || p.Version != apicast.Builtin || meta.Guard
}

// fault tells of what is left out.
func fault(env plugin.Env, err error) {
	env.Log.Error("a policy is left out", "owner", env.Owner, "in", "conditional", "err", err)
	threescale.ProductOf(env).Broken = true
}

func end(parts []plugin.Phases) {
	for _, p := range parts {
		if p.Close != nil {
			p.Close()
		}
	}
}

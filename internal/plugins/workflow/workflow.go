// Package workflow chooses, per request, what is done with it.
package workflow

import (
	"encoding/json"
	"errors"
	"fmt"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

const name = "workflow"

// Plugin is workflow as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     name,
		Priority: 1006,
		Guard:    true,
		Doc:      "Refuses or limits the requests that match a case.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	Rules []Rule `json:"rules" schema:"required" doc:"The first rule whose case matches decides."`
}

// A Rule says what is done with the requests of a case.
type Rule struct {
	Case    expression `json:"case" doc:"Match expression, as in a route's vars; without it, every request matches."`
	Actions []action   `json:"actions" schema:"required" doc:"The first is taken: [\"return\", {\"code\": 403}], [\"limit-count\", {…}] or [\"limit-conn\", {…}], with the plugin's own configuration."`
}

// An expression is a match expression in its document.
type expression json.RawMessage

// JSONSchema implements schema.Describer.
func (expression) JSONSchema() []byte {
	return []byte(`{"type": "array", "items": {"anyOf": [{"type": "array"}, {"type": "string"}]}, "minItems": 1}`)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *expression) UnmarshalJSON(b []byte) error {
	*e = append(expression(nil), b...)
	return nil
}

// An action is its name and its configuration.
type action struct {
	name string
	conf json.RawMessage
}

// JSONSchema implements schema.Describer.
func (action) JSONSchema() []byte { return []byte(`{"type": "array", "minItems": 1}`) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *action) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if json.Unmarshal(parts[0], &a.name) != nil {
		a.name = string(parts[0])
	}
	if len(parts) > 1 {
		a.conf = parts[1]
	}
	return nil
}

// Return is the configuration of the action return.
type Return struct {
	Code int `json:"code" schema:"required,min=100,max=599"`
}

// A rule is compiled.
type rule struct {
	when   *expr.Expr // nil: always
	action string     // empty: none
	run    func(*plugin.Ctx) *plugin.Reply
	log    func(*plugin.Ctx)
}

// A flow is one configuration.
type flow struct {
	rules []rule
	close []func()
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	f := new(flow)
	for i, given := range c.Rules {
		r, err := f.compileRule(i+1, given, env)
		if err != nil {
			f.end()
			return plugin.Phases{}, err
		}
		f.rules = append(f.rules, r)
	}
	return plugin.Phases{Access: f.access, Log: f.log, Close: f.end}, nil
}

// compileRule compiles a rule and all of its actions, of which the first counts.
func (f *flow) compileRule(number int, given Rule, env plugin.Env) (r rule, err error) {
	if given.Case != nil {
		if r.when, err = expr.Compile(json.RawMessage(given.Case)); err != nil {
			return r, fmt.Errorf("failed to validate the 'case' expression: %w", err)
		}
	}
	for i, a := range given.Actions {
		run, log, err := f.compileAction(number, a, env)
		if err != nil {
			return r, err
		}
		if i == 0 {
			r.action, r.run, r.log = a.name, run, log
		}
	}
	return r, nil
}

func (f *flow) compileAction(number int, a action, env plugin.Env) (run func(*plugin.Ctx) *plugin.Reply, log func(*plugin.Ctx), err error) {
	switch a.name {
	case "return":
		reply, err := compileReturn(a.conf)
		if err != nil {
			return nil, nil, invalid(a, err)
		}
		return func(*plugin.Ctx) *plugin.Reply { return reply }, nil, nil
	case "limit-count", "limit-conn":
		conf, err := numbered(a.conf, number)
		if err != nil {
			return nil, nil, invalid(a, err)
		}
		ph, err := env.Compile(a.name, conf)
		if err != nil {
			return nil, nil, invalid(a, err)
		}
		if ph.Close != nil {
			f.close = append(f.close, ph.Close)
		}
		return ph.Access, ph.Log, nil
	}
	return nil, nil, fmt.Errorf("unsupported action: %s", a.name)
}

func invalid(a action, err error) error {
	var refused *plugin.ConfigError
	if errors.As(err, &refused) {
		err = refused.Err
	}
	return fmt.Errorf("failed to validate the '%s' action: %w", a.name, err)
}

func compileReturn(conf json.RawMessage) (*plugin.Reply, error) {
	c := new(Return)
	if err := schema.Of[Return]().Decode(orEmpty(conf), c); err != nil {
		return nil, err
	}
	return plugin.JSON(c.Code, map[string]string{"error_msg": "rejected by workflow"}), nil
}

// numbered gives an action's configuration the number of its rule, so that
// equal ones of several rules count apart, and apart from the plugin itself.
func numbered(conf json.RawMessage, number int) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(orEmpty(conf), &members); err != nil {
		return nil, errors.New("wrong type: expected object")
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	members["_vid"] = fmt.Append(nil, number)
	return json.Marshal(members)
}

func orEmpty(conf json.RawMessage) json.RawMessage {
	if conf == nil {
		return json.RawMessage(`{}`)
	}
	return conf
}

// access takes the action of the first rule that matches.
func (f *flow) access(c *plugin.Ctx) *plugin.Reply {
	for i := range f.rules {
		r := &f.rules[i]
		if r.when != nil {
			if ok, err := r.when.Match(c); !ok || err != nil {
				continue
			}
		}
		if r.action == "" {
			return nil
		}
		c.Skip(r.action)
		if r.log != nil {
			c.SetState(f, r)
		}
		return r.run(c)
	}
	return nil
}

// log ends what the action has begun.
func (f *flow) log(c *plugin.Ctx) {
	if r, ok := c.State(f).(*rule); ok {
		r.log(c)
	}
}

func (f *flow) end() {
	for _, c := range f.close {
		c()
	}
}

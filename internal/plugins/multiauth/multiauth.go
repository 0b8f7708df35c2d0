// Package multiauth admits requests that one of several authenticating plugins
// admits.
package multiauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is multi-auth as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "multi-auth",
		Priority: 2600,
		Type:     "auth",
		Doc:      "Authenticates consumers by any of several authenticating plugins, tried in order.",
	},
	compile,
)

// Config is the configuration on a route.
type Config struct {
	AuthPlugins []json.RawMessage `json:"auth_plugins" schema:"minItems=2,required" doc:"Objects of plugin name and configuration; the first plugin to authenticate decides."`
}

// Constraints gives the schema its title.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.Keyword("title", `"work with route or service object"`)}
}

func compile(c *Config, env plugin.Env) (_ plugin.Phases, err error) {
	var tries []func(*plugin.Ctx) *plugin.Reply
	var closes []func()
	closeAll := func() {
		for _, f := range closes {
			f()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	for i, raw := range c.AuthPlugins {
		var confs map[string]json.RawMessage
		if err := json.Unmarshal(raw, &confs); err != nil {
			return plugin.Phases{}, fmt.Errorf(`property "auth_plugins" validation failed: failed to validate item %d: wrong type: expected object`, i+1)
		}
		for _, name := range slices.Sorted(maps.Keys(confs)) {
			inner, err := compileInner(name, confs[name], env)
			if err != nil {
				return plugin.Phases{}, err
			}
			if inner.Close != nil {
				closes = append(closes, inner.Close)
			}
			if inner.Rewrite != nil { // nil: disabled, which authenticates nobody
				tries = append(tries, inner.Rewrite)
			}
		}
	}
	return plugin.Phases{Rewrite: anyOf(tries), Close: closeAll}, nil
}

func compileInner(name string, conf json.RawMessage, env plugin.Env) (plugin.Phases, error) {
	meta, known := env.Plugin(name)
	switch {
	case !known:
		return plugin.Phases{}, errors.New(name + " plugin did not found")
	case meta.Type != "auth":
		return plugin.Phases{}, errors.New(name + " plugin is not supported")
	}
	inner, err := env.Compile(name, conf)
	if refused, ok := errors.AsType[*plugin.ConfigError](err); ok {
		err = fmt.Errorf("plugin %s check schema failed: %w", name, refused.Err)
	}
	return inner, err
}

// anyOf runs the plugins until one has authenticated. What they answer is of no
// use to a client that could have used another one, but for their challenges.
func anyOf(tries []func(*plugin.Ctx) *plugin.Reply) func(*plugin.Ctx) *plugin.Reply {
	failed := plugin.JSON(401, map[string]string{"message": "Authorization Failed"})
	return func(r *plugin.Ctx) *plugin.Reply {
		var challenges [][2]string
		for _, try := range tries {
			refusal := try(r)
			if refusal == nil {
				return nil
			}
			for _, h := range refusal.Header {
				if h[0] == "WWW-Authenticate" {
					challenges = append(challenges, h)
				}
			}
		}
		return &plugin.Reply{Status: failed.Status, Header: challenges, Body: failed.Body}
	}
}

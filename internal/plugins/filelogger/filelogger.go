// Package filelogger writes log entries to a file.
package filelogger

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"weir/internal/expr"
	"weir/internal/logentry"
	"weir/internal/plugin"
)

const name = "file-logger"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 399, Doc: "Writes log entries to a file, one JSON object a line."},
	compile,
	plugin.Metadata[Metadata](),
)

// Config is the configuration on a route.
type Config struct {
	Path string `json:"path" doc:"The file, which is made if it is missing; its folder must exist. Without it, path of the metadata."`
	logentry.Formats
	logentry.Bodies
	Match []Match `json:"match" schema:"maxItems=20" doc:"Match expressions; a request is logged if one of them holds. Without any, every request is."`
}

// A Match is a match expression, or a single rule of one.
type Match []json.RawMessage

// Metadata is the metadata of the plugin.
type Metadata struct {
	Path string `json:"path" doc:"The file of configurations that name none."`
	logentry.Formats
}

var errNoPath = errors.New(`property "path" is not set in either the plugin conf or the metadata`)

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	meta, err := plugin.DecodeMetadata[Metadata](env)
	if err != nil {
		return plugin.Phases{}, err
	}
	match, err := compileMatch(c.Match)
	if err != nil {
		return plugin.Phases{}, err
	}
	path := c.Path
	if path == "" {
		path = meta.Path
	}
	if path == "" {
		return plugin.Phases{}, errNoPath
	}
	entry, err := logentry.Compile(c.Formats, meta.Formats, c.Bodies, env)
	if err != nil {
		return plugin.Phases{}, err
	}
	out := plugin.Keep(env, name+"/"+path, func() *file { return open(path, env) })
	phases := entry.Phases()
	if match.readBody() {
		phases.Access = first(match.access, phases.Access)
	}
	phases.Log = func(r *plugin.Ctx) {
		if match.holds(r) {
			out.write(r, entry)
		}
	}
	return phases, nil
}

// first makes a phase of a function and what follows it; nil: nothing.
func first(f func(*plugin.Ctx), then func(*plugin.Ctx) *plugin.Reply) func(*plugin.Ctx) *plugin.Reply {
	return func(c *plugin.Ctx) *plugin.Reply {
		f(c)
		if then == nil {
			return nil
		}
		return then(c)
	}
}

// matches are alternatives; nil: every request matches.
type matches []*expr.Expr

func compileMatch(list []Match) (matches, error) {
	if list == nil {
		return nil, nil
	}
	m := matches{}
	for _, one := range list {
		e, err := one.compile()
		if err != nil {
			return nil, fmt.Errorf("failed to validate the 'match' expression: %w", err)
		}
		m = append(m, e)
	}
	return m, nil
}

func (m Match) compile() (*expr.Expr, error) {
	raw, err := json.Marshal([]json.RawMessage(m))
	if err != nil {
		return nil, err
	}
	e, err := expr.Compile(raw)
	if err == nil {
		return e, nil
	}
	if rule, wrapped := expr.Compile(slices.Concat([]byte("["), raw, []byte("]"))); wrapped == nil {
		return rule, nil
	}
	return nil, err
}

func (m matches) readBody() bool { return slices.ContainsFunc(m, (*expr.Expr).ReadsBody) }

// access evaluates what is about the request's body, which is there only now.
// The variables keep their values.
func (m matches) access(c *plugin.Ctx) { m.holds(c) }

func (m matches) holds(c *plugin.Ctx) bool {
	for _, e := range m {
		if ok, err := e.Match(c); ok && err == nil {
			return true
		}
	}
	return m == nil
}

package plan

import (
	"encoding/json"
	"fmt"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// A filter is a plugin's `_meta.filter`. It is evaluated when the first of the
// plugin's phases is due and holds for the rest of the request.
type filter struct{ *expr.Expr }

// filterOf compiles a filter; nil: the plugin always runs.
func filterOf(raw json.RawMessage) (*filter, error) {
	if raw == nil {
		return nil, nil
	}
	e, err := expr.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("failed to validate the 'vars' expression: %w", err)
	}
	if e.Always() {
		return nil, nil
	}
	return &filter{e}, nil
}

// passes says whether the plugin runs. If that cannot be said it does.
func (f *filter) passes(c *plugin.Ctx) bool {
	if passed, ok := c.State(f).(bool); ok {
		return passed
	}
	passed, err := f.Match(c)
	passed = passed || err != nil
	c.SetState(f, passed)
	return passed
}

// wrap puts the filter before every phase. What it says of a body must be asked
// before the body goes upstream.
func (f *filter) wrap(p plugin.Phases) plugin.Phases {
	if p.Rewrite == nil && f.ReadsBody() {
		p.Rewrite = func(c *plugin.Ctx) *plugin.Reply {
			f.passes(c)
			return nil
		}
	} else {
		p.Rewrite = f.request(p.Rewrite)
	}
	p.Access = f.request(p.Access)
	p.Content = f.request(p.Content)
	p.BeforeProxy = f.request(p.BeforeProxy)
	p.Header = f.response(p.Header)
	p.Log = f.response(p.Log)
	p.Body = f.body(p.Body)
	p.Encode = f.body(p.Encode)
	return p
}

func (f *filter) request(run func(*plugin.Ctx) *plugin.Reply) func(*plugin.Ctx) *plugin.Reply {
	if run == nil {
		return nil
	}
	return func(c *plugin.Ctx) *plugin.Reply {
		if !f.passes(c) {
			return nil
		}
		return run(c)
	}
}

func (f *filter) response(run func(*plugin.Ctx)) func(*plugin.Ctx) {
	if run == nil {
		return nil
	}
	return func(c *plugin.Ctx) {
		if f.passes(c) {
			run(c)
		}
	}
}

func (f *filter) body(open func(*plugin.Ctx) plugin.BodyFilter) func(*plugin.Ctx) plugin.BodyFilter {
	if open == nil {
		return nil
	}
	return func(c *plugin.Ctx) plugin.BodyFilter {
		if !f.passes(c) {
			return nil
		}
		return open(c)
	}
}

// Package maintenancemode refuses requests while an API is being worked on.
package maintenancemode

import (
	"weir/internal/plugin"
	"weir/internal/threescale"
)

// Policy is maintenance_mode.
var Policy = plugin.Define(
	plugin.Meta{Name: "maintenance_mode", Guard: true, Doc: "Refuses requests while an API is being worked on."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Status      threescale.Whole `json:"status" schema:"default=503" doc:"Status of the refusal."`
	Message     string           `json:"message" schema:"default=Service Unavailable - Maintenance" doc:"Body of the refusal, before a line feed."`
	ContentType string           `json:"message_content_type" schema:"default=text/plain; charset=utf-8" doc:"Content type of the refusal."`

	Condition *threescale.Condition `json:"condition" doc:"Which requests are refused; absent: all. Templates may use upstream: scheme, host, port and path of where the request would go."`
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	if c.Status < 200 || c.Status > 999 {
		c.Status = 503
	}
	refusal := plugin.Text(int(c.Status), c.Message+"\n", [2]string{"Content-Type", c.ContentType})
	test, err := c.Condition.Compile()
	if err != nil || test.Never() {
		return p, err
	}
	if test.Always() {
		p.Access = func(*plugin.Ctx) *plugin.Reply { return refusal }
		return p, nil
	}
	p.Access = func(c *plugin.Ctx) *plugin.Reply {
		r := threescale.Of(c)
		u := r.Upstream
		if u == nil {
			u = r.Product.Upstream
		}
		r.Set("upstream", upstream{u})
		if test.Holds(c) {
			return refusal
		}
		return nil
	}
	return p, nil
}

// upstream is one as templates see it.
type upstream struct{ u *threescale.Upstream }

// Field implements liquid.Fields.
func (f upstream) Field(name string) any {
	if f.u == nil {
		return nil
	}
	switch name {
	case "scheme":
		return f.u.Scheme
	case "host":
		return f.u.Host
	case "port":
		if f.u.Header != f.u.Host && f.u.Header != "["+f.u.Host+"]" {
			return f.u.Port
		}
	case "path":
		if f.u.Root != "" && f.u.Root != "/" {
			return f.u.Root
		}
	case "query":
		if f.u.Query != "" {
			return f.u.Query
		}
	}
	return nil
}

// Names implements liquid.Lister.
func (upstream) Names() []string { return []string{"scheme", "host", "port", "path", "query"} }

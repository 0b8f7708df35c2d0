package threescale

import (
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// Afterwards is what templates know when a request is over (policies logging,
// custom_metrics): besides what a request is, its answer and all variables of
// nginx.
var Afterwards = &Vocabulary{Text: lastVariable, Value: lastValue}

// lastVariable finds the variables of nginx, as they are at the end: the host is the
// upstream's.
func lastVariable(name string) func(*plugin.Ctx) (string, bool) {
	switch name {
	case "req", "resp", "usage", "service", "original_request", "jwt", "credentials":
		return nil
	case "uri":
		return func(c *plugin.Ctx) (string, bool) { return Of(c).Path, true }
	}
	v, err := expr.Lookup(name)
	if err != nil {
		return nil
	}
	if name != "host" {
		return v.Value
	}
	return func(c *plugin.Ctx) (string, bool) {
		host := c.To.Host
		if host == "" {
			return v.Value(c)
		}
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
		return host, true
	}
}

func lastValue(c *plugin.Ctx, name string) any {
	switch name {
	case "req":
		return message{"headers", Context(c, "headers")}
	case "resp":
		return message{"headers", HeadersOf(c)}
	case "usage", "service", "original_request", "jwt", "credentials":
		return Context(c, name)
	}
	return nil
}

// A message has its headers.
type message struct {
	name    string
	headers any
}

// Field implements liquid.Fields.
func (m message) Field(name string) any {
	if name == m.name {
		return m.headers
	}
	return nil
}

// Names implements liquid.Lister.
func (m message) Names() []string { return []string{m.name} }

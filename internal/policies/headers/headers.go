// Package headers adds, changes and removes headers of requests and answers.
package headers

import (
	"fmt"
	"strings"

	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
	"weir/internal/wire"
)

// Policy is headers.
var Policy = plugin.Define(
	plugin.Meta{Name: "headers", Doc: "Adds, changes and removes headers of requests and answers."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Request  []Operation `json:"request" doc:"What is done to the request's headers."`
	Response []Operation `json:"response" doc:"What is done to the answer's headers."`
}

// An Operation changes one header.
type Operation struct {
	Op        string        `json:"op" schema:"required,enum=add|set|push|delete" doc:"add gives a header that is there one more value; set replaces it or makes it; push adds a value or makes it; delete removes it."`
	Header    string        `json:"header" schema:"required" doc:"Name of the header."`
	Value     schema.Scalar `json:"value" doc:"The value; an empty one removes the header (set) or does nothing."`
	ValueType string        `json:"value_type" schema:"default=plain,enum=plain|liquid" doc:"How the value is evaluated."`
}

// A command is a compiled operation.
type command struct {
	do    func(h *wire.Header, name, value string)
	name  string
	value *threescale.Text
}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	request, err := commands(c.Request)
	if err != nil {
		return p, fmt.Errorf("request: %w", err)
	}
	response, err := commands(c.Response)
	if err != nil {
		return p, fmt.Errorf("response: %w", err)
	}
	if request != nil {
		p.Rewrite = func(c *plugin.Ctx) *plugin.Reply {
			run(request, c, &c.Request.Header)
			return nil
		}
	}
	if response != nil {
		for i := range response { // as ngx.header takes names
			response[i].name = strings.ReplaceAll(response[i].name, "_", "-")
		}
		p.Header = func(c *plugin.Ctx) { run(response, c, &c.Response.Header) }
	}
	return p, nil
}

func commands(list []Operation) ([]command, error) {
	var compiled []command
	for i, o := range list {
		value, err := threescale.NewText(string(o.Value), o.ValueType)
		if err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		compiled = append(compiled, command{operations[o.Op], o.Header, value})
	}
	return compiled, nil
}

// operations is immutable.
var operations = map[string]func(h *wire.Header, name, value string){
	"add":    add,
	"push":   push,
	"set":    set,
	"delete": func(h *wire.Header, name, _ string) { h.Del(name) },
}

func run(list []command, c *plugin.Ctx, h *wire.Header) {
	for i := range list {
		k := &list[i]
		k.do(h, k.name, k.value.Value(c))
	}
}

func add(h *wire.Header, name, value string) {
	if _, there := h.Get(name); there {
		push(h, name, value)
	}
}

func push(h *wire.Header, name, value string) {
	if value != "" {
		h.Add(name, value)
	}
}

func set(h *wire.Header, name, value string) {
	h.Del(name)
	push(h, name, value)
}

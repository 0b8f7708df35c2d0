// Package urlrewriting changes the path and the arguments of requests.
package urlrewriting

import (
	"fmt"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/threescale"
)

// Policy is url_rewriting.
var Policy = plugin.Define(
	plugin.Meta{Name: "url_rewriting", Doc: "Changes the path and the arguments of requests."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Commands  []Command         `json:"commands" doc:"What is done to the path, one after the other."`
	Arguments []ArgumentCommand `json:"query_args_commands" doc:"What is done to the arguments, one after the other."`
}

// A Command replaces parts of the path.
type Command struct {
	Op      string   `json:"op" schema:"required,enum=sub|gsub" doc:"sub replaces the first match, gsub all."`
	Regex   string   `json:"regex" schema:"required" doc:"PCRE pattern that is looked for in the path."`
	Replace string   `json:"replace" schema:"required" doc:"What takes a match's place; $1 is what a group matched."`
	Options string   `json:"options" doc:"Options of the pattern, as ngx.re.sub has them."`
	Break   bool     `json:"break" doc:"No further command if this one has changed the path."`
	Methods []string `json:"methods" doc:"Methods of the requests that are meant; none: all."`
}

// An ArgumentCommand changes one argument.
type ArgumentCommand struct {
	Op        string         `json:"op" schema:"required,enum=add|set|push|delete" doc:"add gives an argument that is there one more value; set replaces it or makes it; push adds a value or makes it; delete removes it."`
	Arg       string         `json:"arg" schema:"required" doc:"Name of the argument."`
	Value     *schema.Scalar `json:"value" doc:"The value."`
	ValueType string         `json:"value_type" schema:"default=plain,enum=plain|liquid" doc:"How the value is evaluated."`
	Methods   []string       `json:"methods" doc:"Methods of the requests that are meant; none: all."`
}

// A command is a compiled Command.
type command struct {
	pattern *expr.Pattern
	replace *expr.Replacement
	all     bool
	last    bool // if it changes something
	methods []string
}

// An argument is a compiled ArgumentCommand.
type argument struct {
	do      func(q *threescale.Query, name, value string)
	name    string
	value   *threescale.Text
	methods []string
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	var commands []command
	for i := range c.Commands {
		k, err := c.Commands[i].compile()
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("commands[%d]: %w", i, err)
		}
		commands = append(commands, k)
	}
	var arguments []argument
	for i := range c.Arguments {
		a, err := c.Arguments[i].compile()
		if err != nil {
			return plugin.Phases{}, fmt.Errorf("query_args_commands[%d]: %w", i, err)
		}
		arguments = append(arguments, a)
	}
	if commands == nil && arguments == nil {
		return plugin.Phases{}, nil
	}
	return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
		rewrite(c, commands)
		change(c, arguments)
		return nil
	}}, nil
}

func (k *Command) compile() (command, error) {
	pattern, err := expr.CompileOptions(k.Regex, k.Options)
	if err != nil {
		return command{}, err
	}
	replace, err := expr.CompileReplacement(k.Replace)
	if err != nil {
		return command{}, err
	}
	return command{pattern, replace, k.Op == "gsub", k.Break, k.Methods}, nil
}

func (a *ArgumentCommand) compile() (argument, error) {
	compiled := argument{operations[a.Op], a.Arg, nil, a.Methods}
	if a.Value == nil { // what it would be given is nothing
		if a.Op == "set" {
			compiled.do = remove
		} else if a.Op != "delete" {
			compiled.do = func(*threescale.Query, string, string) {}
		}
		a.Value = new(schema.Scalar)
	}
	var err error
	compiled.value, err = threescale.NewText(string(*a.Value), a.ValueType)
	return compiled, err
}

// operations is immutable.
var operations = map[string]func(q *threescale.Query, name, value string){
	"add":    (*threescale.Query).Add,
	"push":   (*threescale.Query).Push,
	"set":    (*threescale.Query).Set,
	"delete": remove,
}

func remove(q *threescale.Query, name, _ string) { q.Delete(name) }

func rewrite(c *plugin.Ctx, commands []command) {
	r := threescale.Of(c)
	for i := range commands {
		k := &commands[i]
		if !threescale.MeansMethod(k.methods, c.Request.Method) {
			continue
		}
		out, n, err := k.pattern.Replace(nil, r.Path, k.replace, k.all)
		if err != nil || n == 0 || len(out) == 0 {
			continue
		}
		if r.SetPath(string(out)); k.last {
			return
		}
	}
}

func change(c *plugin.Ctx, arguments []argument) {
	var q *threescale.Query
	r := threescale.Of(c)
	for i := range arguments {
		a := &arguments[i]
		if !threescale.MeansMethod(a.methods, c.Request.Method) {
			continue
		}
		if q == nil {
			q = threescale.ParseQuery(r.Query)
		}
		a.do(q, a.name, a.value.Value(c))
	}
	if q != nil {
		r.SetQuery(q.String())
	}
}

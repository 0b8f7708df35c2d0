// Package cors answers the questions that browsers ask before they let a page use
// an answer (Fetch: CORS protocol; Resource Timing: Timing-Allow-Origin).
package cors

import (
	"errors"
	"strconv"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "cors", Priority: 4000, Doc: "Lets pages of other origins use the answers (CORS)."},
	compile,
	plugin.Metadata[Metadata](),
)

// originPattern is what a list of origins looks like.
const originPattern = `^(\*|\*\*|null|\w+://[^,]+(,\w+://[^,]+)*)$`

// Config is the configuration on a route.
type Config struct {
	AllowOrigins  Origins  `json:"allow_origins"  schema:"default=*" doc:"Origins that may use the answers, separated by commas: scheme://host:port. * is any, not with allow_credential; ** is any, with it."`
	AllowMethods  string   `json:"allow_methods"  schema:"default=*" doc:"Methods that they may use; ** is all."`
	AllowHeaders  string   `json:"allow_headers"  schema:"default=*" doc:"Request headers that they may send; ** is all that they ask for."`
	ExposeHeaders string   `json:"expose_headers" doc:"Response headers that they may read."`
	MaxAge        int      `json:"max_age"        schema:"default=5" doc:"Seconds for which a browser may remember this; -1: not at all."`
	Credential    bool     `json:"allow_credential" schema:"default=false" doc:"Requests may carry credentials. No option may then be *."`
	ByRegex       []string `json:"allow_origins_by_regex" schema:"minItems=1,unique,each.minLen=1,each.maxLen=4096" doc:"Regular expressions for origins; allow_origins does not count then."`
	ByMetadata    []string `json:"allow_origins_by_metadata" schema:"minItems=1,unique,each.minLen=1,each.maxLen=4096" doc:"Names of lists of origins in the plugin's metadata."`
	Timing        Origins  `json:"timing_allow_origins" doc:"Origins that may read timings."`
	TimingByRegex []string `json:"timing_allow_origins_by_regex" schema:"minItems=1,unique,each.minLen=1,each.maxLen=4096" doc:"Regular expressions for origins that may read timings."`
}

// Metadata are lists of origins by name.
type Metadata struct {
	AllowOrigins map[string]Origins `json:"allow_origins" doc:"Lists of origins by name, for allow_origins_by_metadata."`
}

// Origins are one origin, several, or a word for all.
type Origins string

// JSONSchema implements schema.Describer.
func (Origins) JSONSchema() []byte {
	return []byte(`{"type":"string","pattern":` + strconv.Quote(originPattern) + `}`)
}

// A policy is a compiled configuration.
type policy struct {
	*Config
	origins  list
	byRegex  []*expr.Pattern
	named    []list // of the metadata
	timing   *list
	byTiming []*expr.Pattern
	maxAge   string
	env      plugin.Env
}

// A list is a compiled list of origins.
type list struct {
	text string
	each map[string]struct{} // nil: text is a single one, or a word
}

func compileList(o Origins) list {
	l := list{text: string(o)}
	if strings.Contains(l.text, ",") {
		l.each = map[string]struct{}{}
		for one := range strings.SplitSeq(l.text, ",") {
			l.each[one] = struct{}{}
		}
	}
	return l
}

// allow is the value of the allowing header; false: none. It may be one that
// does not allow origin.
func (l *list) allow(origin string, there bool) (string, bool) {
	switch {
	case l.text == "**" && there:
		return origin, true
	case l.text == "**":
		return "*", true
	case l.each != nil:
		_, ok := l.each[origin]
		return origin, ok && there
	}
	return l.text, true
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	if c.Credential && (c.AllowOrigins == "*" || c.AllowMethods == "*" || c.AllowHeaders == "*" || c.ExposeHeaders == "*" || c.Timing == "*") {
		return plugin.Phases{}, errors.New("you can not set '*' for other option when 'allow_credential' is true")
	}
	p := &policy{Config: c, origins: compileList(c.AllowOrigins), maxAge: strconv.Itoa(c.MaxAge), env: env}
	if c.AllowMethods == "**" {
		c.AllowMethods = "GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE"
	}
	if c.Timing != "" {
		l := compileList(c.Timing)
		p.timing = &l
	}
	var err error
	if p.byRegex, err = patterns(c.ByRegex); err != nil {
		return plugin.Phases{}, err
	}
	if p.byTiming, err = patterns(c.TimingByRegex); err != nil {
		return plugin.Phases{}, err
	}
	if c.ByMetadata != nil {
		meta, err := plugin.DecodeMetadata[Metadata](env)
		if err != nil {
			return plugin.Phases{}, err
		}
		for _, name := range c.ByMetadata {
			if o, ok := meta.AllowOrigins[name]; ok {
				p.named = append(p.named, compileList(o))
			}
		}
	}
	return plugin.Phases{Rewrite: rewrite, Header: p.header}, nil
}

func patterns(rules []string) ([]*expr.Pattern, error) {
	var out []*expr.Pattern
	for _, r := range rules {
		p, err := expr.CompilePattern(r, false)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// origin is the variable that keeps the Origin: other plugins may change the
// header. No template can name it.
const origin = "cors\x00origin"

var preflight = &plugin.Reply{Status: 200}

func rewrite(c *plugin.Ctx) *plugin.Reply {
	if o, ok := c.Header("Origin"); ok {
		c.SetVar(origin, o)
	}
	if c.Request.Method == "OPTIONS" {
		return preflight
	}
	return nil
}

// header says who may use the answer.
func (p *policy) header(c *plugin.Ctx) {
	from, there := c.Var(origin)
	h := &c.Response.Header
	if p.AllowOrigins != "*" {
		h.Add("Vary", "Origin")
	}
	if allowed, ok := p.allow(from, there); ok {
		p.say(c, allowed)
	}
	if allowed, ok := p.allowTiming(from, there); ok {
		h.Set("Timing-Allow-Origin", allowed)
	}
}

func (p *policy) allow(from string, there bool) (string, bool) {
	if there && p.inMetadata(from) {
		return from, true
	}
	var allowed string
	ok := false
	switch {
	case p.ByMetadata != nil && p.AllowOrigins == "*": // the default does not count beside metadata
	case p.byRegex != nil:
		allowed, ok = from, there && p.matches(p.byRegex, from)
	default:
		allowed, ok = p.origins.allow(from, there)
		ok = ok && (allowed == "*" || there && allowed == from)
	}
	return allowed, ok
}

// inMetadata says whether a list of the metadata has the origin.
func (p *policy) inMetadata(from string) bool {
	for i := range p.named {
		if a, ok := p.named[i].allow(from, true); ok && (a == "*" || a == from) {
			return true
		}
	}
	return false
}

func (p *policy) allowTiming(from string, there bool) (string, bool) {
	if p.byTiming != nil {
		return from, there && p.matches(p.byTiming, from)
	}
	if p.timing == nil {
		return "", false
	}
	allowed, ok := p.timing.allow(from, there)
	return allowed, ok && (allowed == "*" || there && allowed == from)
}

// matches says whether one of the patterns matches; what is not decided in time
// does not.
func (p *policy) matches(list []*expr.Pattern, from string) bool {
	for _, re := range list {
		ok, err := re.Match(from)
		if err != nil {
			p.env.Log.Error("cors: a rule was not decided in time", "owner", p.env.Owner, "err", err)
		}
		if ok {
			return true
		}
	}
	return false
}

func (p *policy) say(c *plugin.Ctx, allowed string) {
	h := &c.Response.Header
	h.Set("Access-Control-Allow-Origin", allowed)
	h.Set("Access-Control-Allow-Methods", p.AllowMethods)
	h.Set("Access-Control-Max-Age", p.maxAge)
	if p.ExposeHeaders != "" {
		h.Set("Access-Control-Expose-Headers", p.ExposeHeaders)
	}
	switch wanted, ok := c.Header("Access-Control-Request-Headers"); {
	case p.AllowHeaders != "**":
		h.Set("Access-Control-Allow-Headers", p.AllowHeaders)
	case ok:
		h.Set("Access-Control-Allow-Headers", wanted)
	default:
		h.Del("Access-Control-Allow-Headers")
	}
	if p.Credential {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// Package redirect answers requests with another place to go.
package redirect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
	"weir/internal/wire"
)

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: "redirect", Priority: 900, Doc: "Redirects requests: to another URI, by a regular expression, or from HTTP to HTTPS."},
	compile,
	plugin.Shared(),
)

// Config is the configuration on a route.
type Config struct {
	RetCode     int      `json:"ret_code"            schema:"min=200,default=302" doc:"Status of the answer."`
	URI         string   `json:"uri"                 schema:"minLen=2,pattern=(\\\\\\$[0-9a-zA-Z_]+)|\\$\\{([0-9a-zA-Z_]+)\\}|\\$([0-9a-zA-Z_]+)|(\\$|[^$\\\\]+)" doc:"Where to; variables are filled in."`
	RegexURI    []string `json:"regex_uri"           schema:"minItems=2,maxItems=2" doc:"A regular expression and what takes the place of its match in the path. Nothing is redirected where it does not match."`
	HTTPToHTTPS bool     `json:"http_to_https"       doc:"Redirect what came by HTTP to the same URI by HTTPS: 301 for GET and HEAD, else 308."`
	EncodeURI   bool     `json:"encode_uri"          schema:"default=false" doc:"Percent-encode the path of the Location."`
	AppendQuery bool     `json:"append_query_string" schema:"default=false" doc:"Append the request's query; not with http_to_https."`
}

// Constraints implements schema.Constrained.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{schema.ExactlyOne([]string{"uri"}, []string{"regex_uri"}, []string{"http_to_https"})}
}

// A redirector is a compiled configuration.
type redirector struct {
	*Config
	reply   *plugin.Reply
	uri     template
	pattern *expr.Pattern
	with    *expr.Replacement
	ports   []int // of HTTPS
	log     func(msg string, args ...any)
}

// The answers of http_to_https.
var (
	permanently       = &plugin.Reply{Status: 301}
	permanentlyAsSent = &plugin.Reply{Status: 308}
	failed            = &plugin.Reply{Status: 500}
)

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	if c.HTTPToHTTPS && c.AppendQuery {
		//lint:ignore ST1005 APISIX's words, which the Admin API answers
		return plugin.Phases{}, errors.New("only one of `http_to_https` and `append_query_string` can be configured.")
	}
	r := &redirector{Config: c, reply: &plugin.Reply{Status: c.RetCode}, ports: env.TLSPorts, log: env.Log.Error}
	var attr struct {
		Port int `json:"https_port"`
	}
	if env.Attr != nil {
		if err := json.Unmarshal(env.Attr, &attr); err != nil {
			return plugin.Phases{}, fmt.Errorf("plugin_attr.redirect: %w", err)
		}
	}
	if attr.Port != 0 {
		r.ports = []int{attr.Port}
	}
	var err error
	switch {
	case c.URI != "":
		r.uri, err = parse(c.URI)
	case c.RegexURI != nil:
		if r.pattern, err = expr.CompilePattern(c.RegexURI[0], false); err == nil {
			r.with, err = expr.CompileReplacement(c.RegexURI[1])
		}
		if err != nil {
			err = fmt.Errorf("invalid regex_uri (%s, %s), err:%w", c.RegexURI[0], c.RegexURI[1], err)
		}
	}
	if err != nil {
		return plugin.Phases{}, err
	}
	return plugin.Phases{Rewrite: r.rewrite}, nil
}

// A buffer holds a location while it is made.
type buffer struct{ plain, out []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (r *redirector) rewrite(c *plugin.Ctx) *plugin.Reply {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	b.plain = b.plain[:0]
	switch {
	case r.HTTPToHTTPS && scheme(c) != "https":
		return r.toHTTPS(c, b)
	case r.uri != nil:
		b.plain = r.uri.append(b.plain, c)
	case r.pattern != nil:
		var n int
		var err error
		if b.plain, n, err = r.pattern.Replace(b.plain, c.Path, r.with, false); err != nil {
			r.log("redirect: failed to substitute the uri", "pattern", r.RegexURI[0], "err", err)
			return failed
		}
		if n == 0 {
			return nil
		}
	default:
		return nil
	}
	r.locate(c, b)
	return r.reply
}

// scheme is what the client used, as far as it is known.
func scheme(c *plugin.Ctx) string {
	if s, ok := c.Header("X-Forwarded-Proto"); ok {
		return s
	}
	return c.Scheme
}

var (
	host       = variable("host")
	requestURI = variable("request_uri")
)

func variable(name string) expr.Var {
	v, err := expr.Lookup(name)
	if err != nil {
		panic(err)
	}
	return v
}

func (r *redirector) toHTTPS(c *plugin.Ctx, b *buffer) *plugin.Reply {
	b.plain = append(b.plain, "https://"...)
	b.plain, _ = host.Append(b.plain, c)
	if len(r.ports) > 0 {
		if port := r.ports[rand.IntN(len(r.ports))]; port != 443 && port > 0 && port <= 65535 {
			b.plain = strconv.AppendInt(append(b.plain, ':'), int64(port), 10)
		}
	}
	b.plain, _ = requestURI.Append(b.plain, c)
	r.locate(c, b)
	if m := c.Request.Method; m == "GET" || m == "HEAD" {
		return permanently
	}
	return permanentlyAsSent
}

// locate sets the Location.
func (r *redirector) locate(c *plugin.Ctx, b *buffer) {
	mark := bytes.IndexByte(b.plain, '?')
	if r.EncodeURI {
		end := mark
		if mark < 0 {
			end = len(b.plain)
		}
		b.out = wire.EscapePath(b.out[:0], text(b.plain[:end]))
		b.out = append(b.out, b.plain[end:]...)
		b.plain, b.out = b.out, b.plain
	}
	if args := c.RawQuery(); r.AppendQuery && args != "" {
		sep := byte('?')
		if mark >= 0 {
			sep = '&'
		}
		b.plain = append(append(b.plain, sep), args...)
	}
	c.SetReplyHeader("Location", c.Keep(b.plain))
}

// A template is text with variables in the plugin's own syntax: $name and
// ${name}; \$name is text, backslash included, another backslash is nothing.
type template []part

type part struct {
	literal string // before the variable
	v       expr.Var
}

func parse(s string) (template, error) {
	var t template
	literal := ""
	for s != "" {
		switch {
		case s[0] == '\\':
			if n := nameLen(strings.TrimPrefix(s[1:], "$")); n > 0 && s[1] == '$' {
				literal, s = literal+s[:2+n], s[2+n:]
				continue
			}
			s = s[1:]
			continue
		case s[0] != '$':
			end := strings.IndexAny(s, `$\`)
			if end < 0 {
				end = len(s)
			}
			literal, s = literal+s[:end], s[end:]
			continue
		}
		name, rest := reference(s)
		if name == "" {
			literal, s = literal+"$", s[1:]
			continue
		}
		v, err := expr.Variable(name)
		if err != nil {
			return nil, err
		}
		t = append(t, part{literal, v})
		literal, s = "", rest
	}
	return append(t, part{literal: literal}), nil
}

// reference reads the variable at the start of s, which is a "$".
func reference(s string) (name, rest string) {
	if inner, ok := strings.CutPrefix(s, "${"); ok {
		if n := nameLen(inner); n > 0 && strings.HasPrefix(inner[n:], "}") {
			return inner[:n], inner[n+1:]
		}
		return "", s
	}
	n := nameLen(s[1:])
	return s[1 : 1+n], s[1+n:]
}

func nameLen(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || '0' <= s[n] && s[n] <= '9' || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z') {
		n++
	}
	return n
}

func (t template) append(dst []byte, c *plugin.Ctx) []byte {
	for i := range t {
		dst = append(dst, t[i].literal...)
		dst, _ = t[i].v.Append(dst, c)
	}
	return dst
}

// text is b as a string, for as long as b is not written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Package cors answers preflight requests of browsers and marks what other origins
// may read (Fetch standard, CORS protocol).
package cors

import (
	"regexp"
	"strconv"
	"strings"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/wire"
)

// Policy is cors.
var Policy = plugin.Define(
	plugin.Meta{Name: "cors", Before: []string{"apicast"}, Doc: "Answers preflight requests of browsers and marks what other origins may read."},
	compile,
	plugin.Shared(),
)

// Config is the policy's configuration.
type Config struct {
	Headers     []string          `json:"allow_headers" doc:"Headers that may be sent; absent: those that the request asks for."`
	Methods     []string          `json:"allow_methods" doc:"Methods that may be used; absent: the one that the request asks for."`
	Origin      string            `json:"allow_origin" doc:"Origin that may use the API: * or one; what is no URL is a PCRE pattern for origins. Absent: the one that asks."`
	Credentials bool              `json:"allow_credentials" schema:"default=true" doc:"Whether requests may have credentials."`
	MaxAge      *threescale.Whole `json:"max_age" doc:"Seconds for which the answer to a preflight holds; absent: 600."`
}

// A marker marks answers.
type marker struct {
	headers, methods []string // nil: what the request asks for
	origin           string   // empty: the request's
	pattern          *expr.Pattern
	credentials, age string
}

var preflight = &plugin.Reply{Status: 204, Body: []byte{}}

func compile(c *Config, _ plugin.Env) (p plugin.Phases, err error) {
	m := &marker{headers: c.Headers, methods: c.Methods, origin: c.Origin, credentials: strconv.FormatBool(c.Credentials), age: "600"}
	if c.MaxAge != nil {
		m.age = strconv.FormatInt(int64(*c.MaxAge), 10)
	}
	if isPattern(c.Origin) {
		if m.pattern, err = expr.CompilePattern(c.Origin, false); err != nil {
			return p, err
		}
	}
	p.Rewrite = func(c *plugin.Ctx) *plugin.Reply {
		if c.Request.Method != "OPTIONS" {
			return nil
		}
		_, fromOrigin := c.Header("Origin")
		if _, asks := c.Header(askedMethod); fromOrigin && asks {
			return preflight
		}
		return nil
	}
	p.Header = m.mark
	return p, nil
}

const (
	askedMethod  = "Access-Control-Request-Method"
	askedHeaders = "Access-Control-Request-Headers"
)

var endpoint = regexp.MustCompile(`//(?:.+@)?[^/\s]+?(?::\d+)?(?:/.*)?$`)

// isPattern says that an origin is what lua-resty-url does not take for a URL.
func isPattern(origin string) bool {
	if origin == "" || origin == "*" {
		return false
	}
	scheme, _, has := strings.Cut(origin, ":")
	return !has || (scheme == "http" || scheme == "https") && !endpoint.MatchString(origin)
}

func (m *marker) mark(c *plugin.Ctx) {
	origin, ok := c.Header("Origin")
	if !ok {
		return
	}
	h := &c.Response.Header
	list(c, h, "Access-Control-Allow-Headers", m.headers, askedHeaders)
	list(c, h, "Access-Control-Allow-Methods", m.methods, askedMethod)
	const allowed = "Access-Control-Allow-Origin"
	switch {
	case m.pattern != nil:
		if ok, err := m.pattern.Match(origin); ok && err == nil {
			h.Set(allowed, origin)
		}
	case m.origin != "":
		h.Set(allowed, m.origin)
	default:
		h.Set(allowed, origin)
	}
	h.Set("Access-Control-Allow-Credentials", m.credentials)
	h.Set("Access-Control-Max-Age", m.age)
}

// list sets a header to the values, without any to what the request asks for.
func list(c *plugin.Ctx, h *wire.Header, name string, values []string, asked string) {
	h.Del(name)
	if values == nil {
		if v, ok := c.Header(asked); ok {
			h.Add(name, v)
		}
	}
	for _, v := range values {
		h.Add(name, v)
	}
}

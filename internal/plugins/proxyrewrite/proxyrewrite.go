// Package proxyrewrite changes a request before it goes upstream: path, method,
// Host and headers.
package proxyrewrite

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/wire"
)

const name = "proxy-rewrite"

// Plugin is the plugin.
var Plugin = plugin.Define(
	plugin.Meta{Name: name, Priority: 1008, Doc: "Rewrites path, method, Host and headers of the request that goes upstream."},
	compile,
	plugin.Shared(),
)

// Config is the configuration on a route.
type Config struct {
	_        struct{} `schema:"minProps=1"`
	URI      string   `json:"uri"       schema:"minLen=1,maxLen=4096,pattern=^\\/.*" doc:"New path, perhaps with a query; variables are filled in."`
	Method   string   `json:"method"    schema:"enum=GET|POST|PUT|HEAD|DELETE|OPTIONS|MKCOL|COPY|MOVE|PROPFIND|LOCK|UNLOCK|PATCH|TRACE" doc:"New method."`
	RegexURI []string `json:"regex_uri" schema:"minItems=2" doc:"Pairs of a regular expression and what takes the place of its match; the first pair that matches counts. Not looked at where uri is set."`
	Host     string   `json:"host"      schema:"pattern=^[0-9a-zA-Z-.]+(:\\d{1,5})?$" doc:"New Host header."`
	Headers  *Headers `json:"headers"   doc:"Changes of request headers: add, set and remove; or just the headers to set."`
	Unsafe   bool     `json:"use_real_request_uri_unsafe" schema:"default=false" doc:"Start from the path as the client sent it, neither decoded nor normalised, and send the result as it is."`
}

// A rewriter is a compiled configuration.
type rewriter struct {
	uri      *expr.Template
	pairs    []pair
	host     string
	method   string
	add, set []header
	remove   []string
	unsafe   bool
}

type pair struct {
	source  string
	pattern *expr.Pattern
	with    *expr.Replacement
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	r := &rewriter{host: c.Host, method: c.Method, unsafe: c.Unsafe}
	var err error
	if c.URI != "" {
		if r.uri, err = expr.Parse(c.URI); err != nil {
			return plugin.Phases{}, err
		}
	}
	if r.pairs, err = compilePairs(c.RegexURI); err != nil {
		return plugin.Phases{}, err
	}
	if c.Headers != nil {
		if err := r.compileHeaders(c.Headers); err != nil {
			return plugin.Phases{}, err
		}
	}
	return plugin.Phases{Rewrite: r.rewrite}, nil
}

func compilePairs(list []string) ([]pair, error) {
	if len(list)%2 != 0 {
		//lint:ignore ST1005 APISIX's words, which the Admin API answers
		return nil, errors.New("The length of regex_uri should be an even number")
	}
	var pairs []pair
	for i := 0; i < len(list); i += 2 {
		p, err := expr.CompilePattern(list[i], false)
		var with *expr.Replacement
		if err == nil {
			with, err = expr.CompileReplacement(list[i+1])
		}
		if err != nil {
			return nil, fmt.Errorf("invalid regex_uri(%s, %s): %w", list[i], list[i+1], err)
		}
		pairs = append(pairs, pair{list[i], p, with})
	}
	return pairs, nil
}

// captures are what the groups of regex_uri matched, for headers.
type captures struct {
	text  string
	match expr.Match
}

func (r *rewriter) rewrite(c *plugin.Ctx) *plugin.Reply {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	found, err := r.target(c, b)
	if err != nil {
		return plugin.JSON(500, map[string]string{"error_msg": err.Error()})
	}
	if r.host != "" {
		c.To.Host = r.host
	}
	r.rewriteHeaders(c, b, found)
	if r.method != "" {
		c.To.Method = r.method
	}
	return nil
}

// A buffer holds a target while it is made.
type buffer struct{ plain, escaped []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// target makes the new target. As APISIX does, it starts from the decoded path
// and encodes the result, unless the configuration wants the raw one.
func (r *rewriter) target(c *plugin.Ctx, b *buffer) (captures, error) {
	from, query := c.Path, ""
	if r.unsafe {
		from = c.Request.Target
		if i := strings.IndexByte(from, '?'); i >= 0 {
			query = from[i:]
		}
	}
	b.plain = b.plain[:0]
	var found captures
	own := false // a "?" is our own, not one that the client has escaped
	switch {
	case r.uri != nil:
		own = true
		b.plain = r.uri.AppendEach(b.plain, c, escapeMarks)
		if r.unsafe {
			b.plain = appendQuery(b.plain, query)
		}
	case r.pairs != nil:
		own = strings.IndexByte(from, '?') < 0
		var err error
		if found, err = r.substitute(b, from); err != nil {
			return found, err
		}
	default:
		b.plain = append(b.plain, from...)
	}
	if r.unsafe {
		b.escaped = wire.EscapeControls(b.escaped[:0], text(b.plain))
		c.To.Target = c.Keep(b.escaped)
		return found, nil
	}
	path, rest := b.plain, []byte(nil)
	if mark := bytes.IndexByte(b.plain, '?'); own && mark >= 0 {
		path, rest = b.plain[:mark], b.plain[mark:]
	}
	b.escaped = wire.EscapePath(b.escaped[:0], text(path))
	b.escaped = wire.EscapeControls(b.escaped, text(rest))
	if args := c.RawQuery(); args != "" {
		mark := byte('?')
		if rest != nil {
			mark = '&'
		}
		b.escaped = append(append(b.escaped, mark), args...)
	}
	c.To.Target = c.Keep(b.escaped)
	return found, nil
}

// substitute rewrites by the first pair that matches.
func (r *rewriter) substitute(b *buffer, from string) (captures, error) {
	for i := range r.pairs {
		p := &r.pairs[i]
		m, err := p.pattern.Find(from)
		if err != nil {
			return captures{}, fmt.Errorf("failed to match the uri %s (%s)  : %w", from, p.source, err)
		}
		if m == nil {
			continue
		}
		b.plain = append(b.plain, from[:m[0]]...)
		b.plain = p.with.Append(b.plain, from, m)
		b.plain = append(b.plain, from[m[1]:]...)
		return captures{from, m}, nil
	}
	b.plain = append(b.plain, from...)
	return captures{}, nil
}

// appendQuery appends a query that begins with its question mark.
func appendQuery(dst []byte, query string) []byte {
	if query != "" && bytes.IndexByte(dst, '?') >= 0 {
		return append(append(dst, '&'), query[1:]...)
	}
	return append(dst, query...)
}

// escapeMarks makes question marks in a value no beginning of a query.
func escapeMarks(dst []byte, from int) []byte {
	if bytes.IndexByte(dst[from:], '?') < 0 {
		return dst
	}
	return append(dst[:from], bytes.ReplaceAll(dst[from:], []byte("?"), []byte("%3F"))...)
}

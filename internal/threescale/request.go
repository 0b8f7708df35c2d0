package threescale

import (
	"sync"

	"weir/internal/plugin"
)

// A Request is what the policies of a product know of one request. It lives as
// long as its Ctx and is pooled like it: nothing may keep it, nor what it holds.
type Request struct {
	Product *Product

	// Path is the request's path, percent-decoded and normalised (nginx: $uri),
	// Query the query string as sent, without the question mark (nginx: $args).
	// Policies read and change them with the methods of uri.go; the original ones
	// stay in the Ctx.
	Path, Query string
	Rewritten   bool // a policy has changed Path or Query

	// Credentials are the caller's, found or given by a policy.
	Credentials Credentials

	// Usage is what the request counts, Matched the mapping rules that it matched.
	Usage   Usage
	Matched []*Rule

	// Token is the verified token of the caller; nil: none.
	Token *Token

	// Delegated says that another policy than apicast asks the backend for
	// authorization (3scale_batcher).
	Delegated bool

	// Caching says how long answers of the backend may be relied on; the zero
	// value is the process's choice (APICAST_BACKEND_CACHE_HANDLER).
	Caching Caching

	// Extra are more parameters of calls to the backend (3scale_referrer).
	Extra []Parameter

	// Upstream is where the request goes, if a policy has chosen; nil: to the
	// product's own. Host is the Host header, if a policy has chosen that.
	Upstream *Upstream
	Host     string

	// Connect is how the upstream is reached.
	Connect Connect

	// Values are what policies have made known to templates and to each other.
	Values []Value

	// ShowsLimits says that somebody wants to know about the backend's limits
	// (rate_limit_headers).
	ShowsLimits bool

	// Batch gathers what Delegated requests count; nil: nothing does.
	Batch *Batch

	asked    authorization
	form     string // see Form
	formRead bool
}

// A Value is something that a policy has made known under a name.
type Value struct {
	Name string
	Data any // string, number, bool, []any or map[string]any
}

// A Parameter is one of a query string or a form.
type Parameter struct{ Name, Value string }

// Of returns what is known of c's request, which is one to a product.
func Of(c *plugin.Ctx) *Request { return c.Product.(*Request) }

var requests = sync.Pool{New: func() any { return new(Request) }}

// Begin makes c a request to p.
func (p *Product) Begin(c *plugin.Ctx) {
	r := requests.Get().(*Request)
	r.Product, r.Path, r.Query = p, c.Path, c.RawQuery()
	c.Product = r
}

// End gives back what Begin has made.
func End(c *plugin.Ctx) {
	r, ok := c.Product.(*Request)
	if !ok {
		return
	}
	c.Product = nil
	clear(r.Matched)
	clear(r.Extra)
	clear(r.Values)
	*r = Request{Usage: r.Usage[:0], Matched: r.Matched[:0], Extra: r.Extra[:0], Values: r.Values[:0]}
	requests.Put(r)
}

// Set makes a value known under a name.
func (r *Request) Set(name string, data any) {
	for i := range r.Values {
		if r.Values[i].Name == name {
			r.Values[i].Data = data
			return
		}
	}
	r.Values = append(r.Values, Value{name, data})
}

// Get returns what Set has made known; nil: nothing.
func (r *Request) Get(name string) any {
	for i := range r.Values {
		if r.Values[i].Name == name {
			return r.Values[i].Data
		}
	}
	return nil
}

// Caching is how answers of the backend are kept (apicast.md §4.4).
type Caching uint8

// The modes of the caching policy.
const (
	CachingDefault Caching = iota
	CachingStrict
	CachingResilient
	CachingAllow
	CachingNone
)

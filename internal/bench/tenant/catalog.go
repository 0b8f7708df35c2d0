// Package tenant plays a 3scale account for a gateway under test: the portal that
// hands out the configuration of its products, and the backend that authorizes
// and counts what their callers do.
package tenant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// A Config says what the products of an account are like.
type Config struct {
	Products int
	Upstream string // URL that all of them lead to
	Backend  string // URL of the Backend
	Batcher  bool   // 3scale_batcher before apicast in their chains

	Hostname  string // of product 0; empty: see Catalog.Host
	KeyHeader string // request header that holds the caller's key; empty: user_key of the query
}

// A Catalog is the products of an account. Each has a host name and one caller of
// its own, and answers with its version in a response header.
type Catalog struct {
	cfg Config

	mu       sync.Mutex
	revision int
	next     int       // product that changes next
	versions []int     // by product: the revision in which it changed last
	contents [][]byte  // by product: its document
	pages    []page    // by number from 0; without a body: to be made
	chain    [2]string // JSON text of the chain, before and after the version
}

// A page is an answer of the portal.
type page struct {
	body []byte
	tag  string // ETag
}

// NewCatalog makes products, all in version 0.
func NewCatalog(cfg Config) *Catalog {
	c := &Catalog{
		cfg: cfg, chain: chainText(cfg.Batcher),
		versions: make([]int, cfg.Products), contents: make([][]byte, cfg.Products), pages: make([]page, cfg.Products/PerPage+1),
	}
	for i := range c.contents {
		c.contents[i] = c.content(i)
	}
	c.fill()
	return c
}

// PerPage is how many products the portal lists at once, at most.
const PerPage = 500

// VersionHeader is the response header that shows a product's version.
const VersionHeader = "X-Bench-Version"

// firstID is the number of product 0.
const firstID = 100000

// Len is how many products there are.
func (c *Catalog) Len() int { return c.cfg.Products }

// ID is the service id of product i.
func (c *Catalog) ID(i int) string { return strconv.Itoa(firstID + i) }

// Host is the name under which product i is served.
func (c *Catalog) Host(i int) string {
	if i == 0 && c.cfg.Hostname != "" {
		return c.cfg.Hostname
	}
	return fmt.Sprintf("product-%d.bench.test", i)
}

// Key is the user key of the caller of product i.
func (c *Catalog) Key(i int) string { return fmt.Sprintf("bench-key-%d", i) }

// Token is what the gateway shows the backend for product i.
func (c *Catalog) Token(i int) string { return fmt.Sprintf("bench-token-%d", i) }

// Request is a GET of product i that its caller sends.
func (c *Catalog) Request(i int) []byte {
	return fmt.Appendf(nil, "GET /bench/%d?user_key=%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: weir-bench\r\nAccept: */*\r\n\r\n",
		i, c.Key(i), c.Host(i))
}

// Change gives the next n products, in turn, a new version, and makes the lists
// that they are in. It does as little as it can: gateway and load generator may
// share its cores.
func (c *Catalog) Change(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	for range n {
		c.versions[c.next] = c.revision
		c.contents[c.next] = c.content(c.next)
		c.pages[c.next/PerPage] = page{}
		c.next = (c.next + 1) % len(c.versions)
	}
	c.fill()
}

// Versions are the products' present versions.
func (c *Catalog) Versions() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int(nil), c.versions...)
}

// page is the list of products from number n*PerPage on; those after the last are
// empty.
func (c *Catalog) page(n int) page {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 || n >= len(c.pages) {
		return page{[]byte(listHead + listEnd), `W/"none"`}
	}
	return c.pages[n]
}

// fill makes the pages that are missing; c.mu is held.
func (c *Catalog) fill() {
	for n := range c.pages {
		if c.pages[n].body != nil {
			continue
		}
		var b bytes.Buffer
		from, to := n*PerPage, min((n+1)*PerPage, len(c.versions))
		b.WriteString(listHead)
		for i := from; i < to; i++ {
			if i == from {
				b.Grow((len(c.contents[i]) + 200) * (to - from)) // entries are alike
			} else {
				b.WriteByte(',')
			}
			c.entry(&b, i)
		}
		b.WriteString(listEnd)
		c.pages[n] = page{b.Bytes(), fmt.Sprintf(`W/"%d-%d"`, n, c.revision)}
	}
}

const listHead, listEnd = `{"proxy_configs":[`, `]}`

// only is the list of one product; n below 0: of none.
func (c *Catalog) only(n int) page {
	if n < 0 {
		return c.page(-1)
	}
	one := c.one(n)
	return page{[]byte(listHead + string(one.body) + listEnd), one.tag}
}

// Document is all products as one configuration document (apicast.md §2).
func (c *Catalog) Document() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(append([]byte(`{"services":[`), bytes.Join(c.contents, []byte(","))...), `],"oidc":[]}`...)
}

// one is what the portal says of product i alone.
func (c *Catalog) one(i int) page {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b bytes.Buffer
	c.entry(&b, i)
	return page{b.Bytes(), fmt.Sprintf(`W/"%d/%d"`, i, c.versions[i])}
}

// numberOf is the product that a service id or a host name belongs to, -1 if none.
func (c *Catalog) numberOf(id, host string) int {
	if host != "" && host == c.cfg.Hostname {
		return 0
	}
	text, offset := id, firstID
	if host != "" {
		text, offset = strings.TrimSuffix(strings.TrimPrefix(host, "product-"), ".bench.test"), 0
	}
	n, err := strconv.Atoi(text)
	if n -= offset; err != nil || n < 0 || n >= c.Len() || host != "" && host != c.Host(n) {
		return -1
	}
	return n
}

// entry appends what the portal says of product i; c.mu is held.
func (c *Catalog) entry(b *bytes.Buffer, i int) {
	fmt.Fprintf(b, `{"proxy_config":{"id":%d,"version":%d,"environment":"production","content":`, firstID+i, c.versions[i]+1)
	b.Write(c.contents[i])
	b.WriteString("}}")
}

// content is the document of product i in its present version; c.mu is held.
func (c *Catalog) content(i int) []byte {
	location, key := "query", "user_key"
	if c.cfg.KeyHeader != "" {
		location, key = "headers", c.cfg.KeyHeader
	}
	return fmt.Appendf(nil, `{"id":%s,"account_id":2,"name":"Product %d","description":"A product of weir bench","system_name":"product_%d",`+
		`"state":"incomplete","deployment_option":"self_managed","backend_version":"1",`+
		`"backend_authentication_type":"service_token","backend_authentication_value":%q,`+
		`"proxy":{"id":%d,"api_backend":%q,"hosts":[%q],"endpoint":"http://%s:80","backend":{"endpoint":%q,"host":""},`+
		`"authentication_method":"1","credentials_location":%q,"auth_user_key":%q,"auth_app_id":"app_id","auth_app_key":"app_key",`+
		`"error_auth_failed":"Authentication failed","error_status_auth_failed":403,"error_headers_auth_failed":"text/plain; charset=us-ascii",`+
		`"error_auth_missing":"Authentication parameters missing","error_status_auth_missing":403,"error_headers_auth_missing":"text/plain; charset=us-ascii",`+
		`"error_no_match":"No Mapping Rule matched","error_status_no_match":404,"error_headers_no_match":"text/plain; charset=us-ascii",`+
		`"error_limits_exceeded":"Usage limit exceeded","error_status_limits_exceeded":429,"error_headers_limits_exceeded":"text/plain; charset=us-ascii",`+
		`"secret_token":"bench-secret","hostname_rewrite":"","oidc_issuer_endpoint":null,"jwt_claim_with_client_id":null,"jwt_claim_with_client_id_type":null,`+
		`"proxy_rules":[%s],"policy_chain":%s%d%s}}`,
		c.ID(i), i, i, c.Token(i), firstID+i, c.cfg.Upstream, c.Host(i), c.Host(i), c.cfg.Backend, location, key, rules,
		c.chain[0], c.versions[i], c.chain[1])
}

// rules are mapping rules of which the last is the one that requests match.
const rules = `{"id":1,"proxy_id":1,"http_method":"POST","pattern":"/bench/{id}/orders","metric_system_name":"orders","metric_id":1,"delta":1,"parameters":["id"],"querystring_parameters":{},"position":1,"last":false},` +
	`{"id":2,"proxy_id":1,"http_method":"GET","pattern":"/bench/{id}/orders$","metric_system_name":"orders","metric_id":1,"delta":1,"parameters":["id"],"querystring_parameters":{},"position":2,"last":false},` +
	`{"id":3,"proxy_id":1,"http_method":"GET","pattern":"/bench","metric_system_name":"hits","metric_id":2,"delta":1,"parameters":[],"querystring_parameters":{},"position":3,"last":false}`

// chainText is the JSON text of a chain, before and after the version that its
// first policy shows.
func chainText(withBatcher bool) [2]string {
	chain := Chain()
	if withBatcher {
		chain = ChainWithBatcher()
	}
	const mark = "@version@"
	chain[0].Configuration = headers{Response: []headerOp{{"set", VersionHeader, mark, "plain"}}}
	text, err := json.Marshal(chain)
	if err != nil {
		panic(err) // a value of our own that has no JSON
	}
	before, after, _ := strings.Cut(string(text), mark)
	return [2]string{before, after}
}

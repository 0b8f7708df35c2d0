package tenant

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// A Backend authorizes the callers of a Catalog's products and counts their hits
// (apicast.md §4.3). It knows no limits.
type Backend struct {
	catalog *Catalog
	mux     *http.ServeMux
	calls   [3]atomic.Int64 // by use
	denied  atomic.Int64
	hits    atomic.Int64
}

// What a backend is asked for.
const (
	authrep = iota
	authorize
	report
)

// Calls are how often a backend was asked for what, and what it was told.
type Calls struct {
	AuthRep   int64 // authorize and report in one
	Authorize int64
	Report    int64
	Denied    int64 // calls with credentials that are not right
	Hits      int64 // reported of the metric hits
}

// NewBackend makes the backend of a catalog.
func NewBackend(c *Catalog) *Backend {
	b := &Backend{catalog: c, mux: http.NewServeMux()}
	b.mux.HandleFunc("GET /transactions/authrep.xml", b.authorizes(authrep))
	b.mux.HandleFunc("GET /transactions/oauth_authrep.xml", b.authorizes(authrep))
	b.mux.HandleFunc("GET /transactions/authorize.xml", b.authorizes(authorize))
	b.mux.HandleFunc("GET /transactions/oauth_authorize.xml", b.authorizes(authorize))
	b.mux.HandleFunc("POST /transactions.xml", b.reports)
	return b
}

func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

// Calls are those since the start.
func (b *Backend) Calls() Calls {
	return Calls{b.calls[authrep].Load(), b.calls[authorize].Load(), b.calls[report].Load(), b.denied.Load(), b.hits.Load()}
}

// Since is what came after an earlier state.
func (c Calls) Since(before Calls) Calls {
	return Calls{
		c.AuthRep - before.AuthRep, c.Authorize - before.Authorize, c.Report - before.Report,
		c.Denied - before.Denied, c.Hits - before.Hits,
	}
}

const authorized = `<?xml version="1.0" encoding="UTF-8"?><status><authorized>true</authorized><plan>bench</plan></status>`

func (b *Backend) authorizes(use int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b.calls[use].Add(1)
		query := r.URL.Query()
		n, ok := b.product(w, query)
		if !ok {
			return
		}
		if query.Get("user_key") != b.catalog.Key(n) {
			b.deny(w, r, "user_key_invalid", "user key is invalid")
			return
		}
		if use == authrep {
			hits, _ := strconv.ParseInt(query.Get("usage[hits]"), 10, 64) // nothing counts as 0
			b.hits.Add(hits)
		}
		answer(w, r, http.StatusOK, authorized)
	}
}

// product is the one that a call is about; a call with a token that is not that
// product's is refused.
func (b *Backend) product(w http.ResponseWriter, query url.Values) (n int, ok bool) {
	n = b.catalog.numberOf(query.Get("service_id"), "")
	if n >= 0 && query.Get("service_token") == b.catalog.Token(n) {
		return n, true
	}
	b.denied.Add(1)
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprintf(w, `<error code="service_token_invalid">service token or service id %q is invalid</error>`, query.Get("service_id"))
	return 0, false
}

func (b *Backend) deny(w http.ResponseWriter, r *http.Request, code, text string) {
	b.denied.Add(1)
	if option(r, "rejection_reason_header") {
		w.Header().Set("3scale-rejection-reason", code)
	}
	answer(w, r, http.StatusForbidden, fmt.Sprintf(`<error code=%q>%s</error>`, code, text))
}

// reports takes a batch of transactions.
func (b *Backend) reports(w http.ResponseWriter, r *http.Request) {
	b.calls[report].Add(1)
	if _, ok := b.product(w, r.URL.Query()); !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for name, values := range r.PostForm {
		if !strings.HasPrefix(name, "transactions[") || !strings.HasSuffix(name, "][usage][hits]") {
			continue
		}
		for _, v := range values {
			hits, _ := strconv.ParseInt(v, 10, 64) // nothing counts as 0
			b.hits.Add(hits)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func answer(w http.ResponseWriter, r *http.Request, status int, body string) {
	if option(r, "no_body") {
		body = ""
	} else {
		w.Header().Set("Content-Type", "application/vnd.3scale-v2.0+xml")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // an error means that the gateway is gone
}

// option says that the header 3scale-options asks for something.
func option(r *http.Request, name string) bool {
	for part := range strings.SplitSeq(r.Header.Get("3scale-options"), "&") {
		if part == name+"=1" {
			return true
		}
	}
	return false
}

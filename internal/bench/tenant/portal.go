package tenant

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// PortalToken is what a gateway shows the portal: the user of the URL that
// THREESCALE_PORTAL_ENDPOINT holds.
const PortalToken = "bench"

// A Refresh is what a gateway read in one go: all pages of the list, or one of
// the other documents.
type Refresh struct {
	Began, Ended time.Time
	Requests     int
	NotModified  int   // of those answered with 304
	Bytes        int64 // of bodies
	Complete     bool  // the last page was asked for
	versions     []int // of the products, when it began
}

// A Portal answers a gateway's questions about a Catalog (apicast.md §3.2).
type Portal struct {
	catalog *Catalog
	mux     *http.ServeMux

	mu        sync.Mutex
	refused   bool
	refreshes []Refresh
	refusals  int
	listened  func(Refresh)
}

// NewPortal makes the portal of a catalog.
func NewPortal(c *Catalog) *Portal {
	p := &Portal{catalog: c, mux: http.NewServeMux()}
	p.mux.HandleFunc("GET /admin/api/account/proxy_configs/{file}", p.list)
	p.mux.HandleFunc("GET /admin/api/services.json", p.services)
	p.mux.HandleFunc("GET /admin/api/services/{id}/proxy/configs/{env}/{file}", p.config)
	return p
}

// Refuse makes the portal answer everything with 503, or no longer.
func (p *Portal) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = yes
}

// OnRefresh has f told of every refresh when the answer to its last request is
// about to be sent. f must not block.
func (p *Portal) OnRefresh(f func(Refresh)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listened = f
}

// Refreshes are all so far; refusals is how many requests were answered with 503.
func (p *Portal) Refreshes() (all []Refresh, refusals int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Refresh(nil), p.refreshes...), p.refusals
}

// Shown are the products' versions at the last complete refresh; nil: none yet.
func (p *Portal) Shown() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.refreshes) - 1; i >= 0; i-- {
		if p.refreshes[i].Complete {
			return p.refreshes[i].versions
		}
	}
	return nil
}

func (p *Portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, _, _ := r.BasicAuth(); user != PortalToken {
		http.Error(w, `{"error":"Your access token does not have the correct permissions"}`, http.StatusForbidden)
		return
	}
	p.mu.Lock()
	refused := p.refused
	if refused {
		p.refusals++
	}
	p.mu.Unlock()
	if refused {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// list is the products of an environment, in pages or those of a host.
func (p *Portal) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	env, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	if !ok || !environment(env) || query.Get("version") != "latest" {
		http.NotFound(w, r)
		return
	}
	if host := query.Get("host"); host != "" {
		p.send(w, r, p.catalog.only(p.catalog.numberOf("", host)), true, true)
		return
	}
	number, size := positive(query.Get("page"), 1), positive(query.Get("per_page"), PerPage)
	if size != PerPage {
		http.Error(w, fmt.Sprintf(`{"error":"per_page: this portal has pages of %d"}`, PerPage), http.StatusUnprocessableEntity)
		return
	}
	p.send(w, r, p.catalog.page(number-1), number == 1, number > p.catalog.Len()/PerPage)
}

func environment(name string) bool {
	return name == "production" || name == "staging" || name == "sandbox"
}

func positive(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// services is the list of ids.
func (p *Portal) services(w http.ResponseWriter, r *http.Request) {
	number, size := positive(r.URL.Query().Get("page"), 1), min(positive(r.URL.Query().Get("per_page"), PerPage), PerPage)
	var entries []string
	for i := (number - 1) * size; i < min(number*size, p.catalog.Len()); i++ {
		entries = append(entries, fmt.Sprintf(`{"service":{"id":%s,"system_name":"product_%d"}}`, p.catalog.ID(i), i))
	}
	p.send(w, r, page{[]byte(`{"services":[` + strings.Join(entries, ",") + `]}`), fmt.Sprintf(`W/"services-%d-%d"`, number, size)}, number == 1, number > p.catalog.Len()/size)
}

// config is the document of one product, latest or of its version's number.
func (p *Portal) config(w http.ResponseWriter, r *http.Request) {
	version, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	n := p.catalog.numberOf(r.PathValue("id"), "")
	if !ok || n < 0 || !environment(r.PathValue("env")) ||
		version != "latest" && version != strconv.Itoa(p.catalog.Versions()[n]+1) {
		http.NotFound(w, r)
		return
	}
	p.send(w, r, p.catalog.one(n), false, false)
}

// send answers with a document, or with 304 if the gateway has it, and keeps the
// records.
func (p *Portal) send(w http.ResponseWriter, r *http.Request, a page, first, last bool) {
	same := r.Header.Get("If-None-Match") == a.tag
	p.record(int64(len(a.body)), first, last, same)
	w.Header().Set("ETag", a.tag)
	if same {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body) // an error means that the gateway is gone
}

func (p *Portal) record(size int64, first, last, same bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if first || len(p.refreshes) == 0 {
		p.refreshes = append(p.refreshes, Refresh{Began: now, versions: p.catalog.Versions()})
	}
	refresh := &p.refreshes[len(p.refreshes)-1]
	refresh.Ended = now
	refresh.Requests++
	if same {
		refresh.NotModified++
	} else {
		refresh.Bytes += size
	}
	if last && !refresh.Complete {
		refresh.Complete = true
		if p.listened != nil {
			p.listened(*refresh)
		}
	}
}

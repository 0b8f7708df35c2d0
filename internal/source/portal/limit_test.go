package portal

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Whatever a portal answers, a load reads no more than the limit, and what was
// good last stays.
func TestLimit(t *testing.T) {
	page := func(n int) string {
		docs := make([]string, perPage)
		for i := range docs {
			docs[i] = svc(n*perPage+i, fmt.Sprintf("h%d-%d", n, i), "")
		}
		return configs(docs...)
	}
	for name, answer := range map[string]func(w io.Writer, n int){
		"endless text": func(w io.Writer, _ int) {
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"x":"`), &endless{"y", 0}))
		},
		"endless list": func(w io.Writer, _ int) {
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"proxy_configs":[`), &endless{`{"proxy_config":{"content":` + svc(1, "a", "") + `}},`, 0}))
		},
		"endless pages": func(w io.Writer, n int) { fmt.Fprint(w, page(n)) },
		"endless document": func(w io.Writer, _ int) {
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"services":[`), &endless{svc(1, "a", "") + `,`, 0}))
		},
		"a long head": func(w io.Writer, _ int) {
			w.(http.ResponseWriter).Header().Set("Content-Length", "1000000000000")
			_, _ = io.Copy(w, &endless{" ", 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPorta(t, svc(1, "a", ""))
			asked := 0
			evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if (name == "endless document") == strings.HasSuffix(r.URL.Path, "production.json") {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				asked++
				answer(w, asked)
			}))
			t.Cleanup(evil.Close)
			cfg := boot(p)
			cfg.Limit = 1 << 20
			b := start(t, cfg).started()
			b.origin.v2.Endpoint, b.origin.Endpoint = evil.URL, evil.URL
			before := b.Status().Traffic.Bytes
			err := b.Reload(context.Background())
			if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes are answered (WEIR_PRODUCTS_LIMIT)") {
				t.Error(err)
			}
			if n := b.Status().Traffic.Bytes - before; n > cfg.Limit+4<<20 { // the buffer is read into once more
				t.Errorf("%d bytes read", n)
			}
			if b.ids() != "1" || b.steps() != 1 {
				t.Errorf("products %s, %d steps", b.ids(), b.steps())
			}
			if n := b.origin.room.taken.Load(); n != 0 {
				t.Errorf("%d bytes are still taken", n)
			}
		})
	}
}

// A portal may know no pages: the list ends where nothing new comes.
func TestNoPages(t *testing.T) {
	var docs []string
	for i := range perPage {
		docs = append(docs, svc(i+1, fmt.Sprintf("h%d", i+1), ""))
	}
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if strings.HasSuffix(r.URL.Path, "services.json") {
			var ids []string
			for i := range perPage {
				ids = append(ids, fmt.Sprintf(`{"service":{"id":%d}}`, i+1))
			}
			fmt.Fprint(w, `{"services":[`+strings.Join(ids, ",")+`]}`)
			return
		}
		if strings.Contains(r.URL.Path, "/services/") {
			fmt.Fprintf(w, `{"proxy_config":{"content":%s}}`, docs[0])
			return
		}
		fmt.Fprint(w, configs(docs...))
	}))
	t.Cleanup(s.Close)
	b := start(t, Config{Endpoint: s.URL, TTL: time.Hour}).started()
	if b.Len() != perPage || asked != 2 {
		t.Errorf("%d products, %d requests", b.Len(), asked)
	}
	ids, err := b.origin.v2.list(t.Context(), b.origin.room.enter())
	if err != nil || len(ids) != perPage {
		t.Errorf("%d ids, %v", len(ids), err)
	}
}

// An issuer's answers have a limit of their own.
func TestIssuerLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"issuer":"`), &endless{"x", 0}))
	}))
	t.Cleanup(s.Close)
	p := newPorta(t, svc(1, "a", ""))
	b := start(t, boot(p)).started()
	if _, err := b.Discover(t.Context(), s.URL); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Error(err)
	}
}

package discovery

import (
	"encoding/json"
	"net/http"
	"os"
)

// Handlers are the registry's part of the Control API by pattern of
// http.ServeMux, as APISIX has it:
//
//	GET /v1/discovery/{kind}/dump             configuration and services in use
//	GET /v1/discovery/{kind}/show_dump_file   the dump file, if there can be one
func (r *Registry) Handlers() map[string]http.Handler {
	at := "GET /v1/discovery/" + r.kind
	handlers := map[string]http.Handler{at + "/dump": http.HandlerFunc(r.serveDump)}
	if r.kind == "consul" || r.kind == "consul_kv" {
		handlers[at+"/show_dump_file"] = http.HandlerFunc(r.serveFile)
	}
	return handlers
}

// shownServices is what most kinds show.
type shownServices struct {
	Config   json.RawMessage   `json:"config,omitempty"`
	Services map[string][]Node `json:"services"`
}

func (r *Registry) serveDump(w http.ResponseWriter, _ *http.Request) {
	services := r.Services()
	var shown any = shownServices{r.shown, services}
	if r.show != nil {
		shown = r.show(r.shown, services)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shown) // an error means that the client is gone
}

func (r *Registry) serveFile(w http.ResponseWriter, _ *http.Request) {
	if r.dump == nil {
		http.Error(w, "dump params is nil", http.StatusServiceUnavailable)
		return
	}
	b, err := os.ReadFile(r.dump.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // an error means that the client is gone
}

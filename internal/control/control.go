// Package control serves what an operator asks of one running gateway: the
// Control API and the status server.
package control

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"sync"
	"time"

	"weir/internal/dialect/apisix"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/snapshot"
)

// A Revision says how far this process is with the configuration.
type Revision struct {
	Applied int64 `json:"applied"` // revision that requests see
	Store   int64 `json:"store"`   // highest revision the store has shown
	Lag     int64 `json:"lag"`     // revisions between the two; 0: up to date

	Connected bool `json:"connected"` // to the store

	// StaleSince is set while the gateway serves a saved copy, because the store
	// has not answered since the start: when that copy was known to be current.
	StaleSince *time.Time `json:"stale_since,omitempty"`
	LastError  string     `json:"last_error,omitempty"`

	// Objects are those of the applied state, Compiled those compiled since the
	// start, both by directory of their kind.
	Objects  map[string]int   `json:"objects"`
	Compiled map[string]int64 `json:"compiled"`
	Deltas   int64            `json:"deltas"`        // steps applied since the start
	Applying float64          `json:"apply_seconds"` // that this took

	Resyncs map[string]int64 `json:"resyncs,omitempty"` // full reads of the store by reason

	// Checked says how the running state was compared with the store; nil: it is not.
	Checked *Checked `json:"checked,omitempty"`
}

// Checked is what comparing the running state with the store has found.
type Checked struct {
	Keys         int64            `json:"keys"`                    // of the store that were compared
	Cycles       int64            `json:"cycles"`                  // times that all of it was
	CycleSeconds float64          `json:"cycle_seconds,omitempty"` // how long the last took
	Drift        map[string]int64 `json:"drift"`                   // differences that were healed, by kind
}

// Config is what the handlers ask. The functions may be called at any time.
type Config struct {
	Revision func() Revision

	// Ready returns nil once requests are served, and before that the reason why
	// not.
	Ready func() error

	// Snapshot returns the state that requests see. KeyPrefix stands before the
	// keys of objects, for instance "/apisix".
	Snapshot  func() *snapshot.Snapshot
	KeyPrefix string

	Documents *apisix.Checker // knows the schemas of objects

	// Reload reads anew from config.yaml which plugins are enabled and how they are
	// set up; nil: it cannot.
	Reload func(context.Context) error

	Source func() Source // what the configuration comes from
	Server func(context.Context) Server

	// More are further parts of the Control API by pattern of http.ServeMux.
	More map[string]http.Handler
}

// API is the Control API. It answers requests for unknown paths with 404.
//
//	GET /v1/revision                   the Revision
//	GET /v1/status                     the Report: what does not run as configured
//	GET /v1/healthcheck                what health checks have found
//	GET /v1/healthcheck/{kind}/{id}    the same of one object
//	GET /v1/routes, services, upstreams
//	GET /v1/route/{id}, service/{id}, upstream/{id}
//	GET /v1/plugin_metadatas, plugin_metadata/{plugin}
//	GET /v1/schema                     of objects and plugins
//	GET /v1/server_info                about the process
//	PUT /v1/plugins/reload
//	POST /v1/gc                        collects garbage
//	GET /v1/process                    the Process: goroutines and memory
//	GET, POST /v1/explain              what a request would meet (package app)
//	/v1/plugin/...                     of plugins
//
// All but the first two and /v1/process are APISIX's (apisix-config.md section 4).
func API(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/revision", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, c.Revision())
	})
	mux.HandleFunc("GET /v1/status", c.report)
	mux.HandleFunc("GET /v1/healthcheck", c.allHealth)
	mux.HandleFunc("GET /v1/healthcheck/{rest...}", c.oneHealth)
	turn := new(sync.Mutex)
	for _, k := range []model.Kind{model.KindRoute, model.KindService, model.KindUpstream} {
		mux.HandleFunc("GET /v1/"+k.Dir(), c.all(k, turn))
		mux.HandleFunc("GET /v1/"+k.String()+"/{id...}", c.one(k))
	}
	mux.HandleFunc("GET /v1/plugin_metadatas", c.allMetadata)
	mux.HandleFunc("GET /v1/plugin_metadata/{plugin}", c.oneMetadata)
	mux.HandleFunc("GET /v1/schema", c.schema)
	mux.HandleFunc("GET /v1/server_info", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, c.Server(r.Context()))
	})
	mux.HandleFunc("PUT /v1/plugins/reload", c.reload)
	mux.HandleFunc("GET /v1/process", process)
	mux.HandleFunc("POST /v1/gc", func(http.ResponseWriter, *http.Request) { runtime.GC() })
	for pattern, h := range c.More {
		mux.Handle(pattern, h)
	}
	mux.HandleFunc("/", c.ofPlugins)
	return mux
}

// ofPlugins answers what a plugin has added, as long as it is enabled.
func (c *Config) ofPlugins(w http.ResponseWriter, r *http.Request) {
	if c.Snapshot != nil {
		for _, spec := range c.Snapshot().Plugins() {
			for _, own := range spec.Controls() {
				if own.Method == r.Method && own.Path == r.URL.Path {
					reply(w, own.Answer(r.URL.RawQuery))
					return
				}
			}
		}
	}
	answer(w, http.StatusNotFound, failure{"404 Not Found"}) // the text that nginx has there
}

func reply(w http.ResponseWriter, p *plugin.Reply) {
	for _, h := range p.Header {
		w.Header().Add(h[0], h[1])
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.Body) // an error means that the client is gone
}

type failure struct {
	Message string `json:"error_msg"`
}

type status struct {
	Status string `json:"status"` // ok, error
	Error  string `json:"error,omitempty"`
}

// Status is APISIX's status server: GET /status answers 200 while the process
// lives, GET /status/ready 200 once it serves and 503 before.
func Status(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, status{Status: "ok"})
	})
	mux.HandleFunc("GET /status/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, status{"error", err.Error()})
			return
		}
		answer(w, http.StatusOK, status{Status: "ok"})
	})
	return mux
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}

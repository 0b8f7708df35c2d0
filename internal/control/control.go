// Package control serves what an operator asks of one running gateway: the
// Control API and the status server.
package control

import (
	"encoding/json"
	"net/http"

	"weir/internal/snapshot"
)

// A Revision says how far this process is with the configuration.
type Revision struct {
	Applied int64 `json:"applied"` // revision that requests see
	Store   int64 `json:"store"`   // highest revision the store has shown
	Lag     int64 `json:"lag"`     // revisions between the two; 0: up to date

	Connected bool   `json:"connected"` // to the store
	LastError string `json:"last_error,omitempty"`

	// Objects are those of the applied state, Compiled those compiled since the
	// start, both by directory of their kind.
	Objects  map[string]int   `json:"objects"`
	Compiled map[string]int64 `json:"compiled"`
	Deltas   int64            `json:"deltas"` // steps applied since the start

	Resyncs map[string]int64 `json:"resyncs,omitempty"` // full reads of the store by reason
}

// Config is what the handlers ask. The functions may be called at any time.
type Config struct {
	Revision func() Revision

	// Ready returns nil once requests are served, and before that the reason why
	// not.
	Ready func() error

	// Snapshot returns the state that requests see; nil: nothing is told of its
	// objects. KeyPrefix stands before their keys, for instance "/apisix".
	Snapshot  func() *snapshot.Snapshot
	KeyPrefix string

	// More are further parts of the Control API by pattern of http.ServeMux.
	More map[string]http.Handler
}

// API is the Control API. It answers requests for unknown paths with 404.
//
//	GET /v1/revision                   the Revision
//	GET /v1/healthcheck                what health checks have found
//	GET /v1/healthcheck/{kind}/{id}    the same of one object
func API(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/revision", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, c.Revision())
	})
	if c.Snapshot != nil {
		mux.HandleFunc("GET /v1/healthcheck", c.allHealth)
		mux.HandleFunc("GET /v1/healthcheck/{rest...}", c.oneHealth)
	}
	for pattern, h := range c.More {
		mux.Handle(pattern, h)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, failure{"not found"})
	})
	return mux
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

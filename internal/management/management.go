// Package management answers APIcast's management API (apicast.md §7): whether the
// gateway is ready, which policies there are, and, where that is allowed, the
// configuration itself.
package management

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/internal/dialect/apicast"
	"weir/internal/document"
	"weir/internal/source/portal"
)

// The modes: what may be asked.
const (
	Disabled = "disabled"
	Status   = "status"
	Policies = "policies"
	Debug    = "debug"
)

// Config is what the API tells of and changes.
type Config struct {
	Mode      string // of the server
	Source    *portal.Source
	Manifests func() json.RawMessage // the object of all policies' manifests, by name
	Names     func() json.RawMessage // what is known of names (DNS), a JSON object

	// Faults are the products that do not run as configured, by id, and why.
	Faults func() map[string]string
}

// An API answers. Make it with New.
type API struct {
	cfg    Config
	routes map[string]map[string]answer // by mode, then method and path
}

// An Answer is a status, a Content-Type and a body.
type Answer struct {
	Status int
	Type   string
	Body   []byte
}

type answer func(ctx context.Context, body []byte) Answer

// New makes an API.
func New(cfg Config) *API {
	a := &API{cfg: cfg}
	policies := map[string]answer{"GET /policies": a.policies}
	products := func(why bool) answer {
		return func(context.Context, []byte) Answer { return a.products(why) }
	}
	status := map[string]answer{
		"GET /status/info": a.info, "GET /status/ready": a.ready, "GET /status/live": a.live, "GET /policies": a.policies,
		"GET /status/products": products(false),
	}
	debug := map[string]answer{
		"GET /config": a.config, "PUT /config": a.replace, "POST /config": a.replace, "DELETE /config": a.clear,
		"POST /boot": a.boot, "GET /dns/cache": a.names,
	}
	for k, f := range status {
		debug[k] = f
	}
	debug["GET /status/products"] = products(true)
	a.routes = map[string]map[string]answer{
		Disabled: {"GET /": a.disabled}, Status: status, Policies: policies, Debug: debug,
	}
	return a
}

// Known says whether there is a mode of this name.
func Known(mode string) bool {
	return mode == Disabled || mode == Status || mode == Policies || mode == Debug
}

// Answer answers one request in a mode; an empty one is the configured mode.
func (a *API) Answer(ctx context.Context, mode, method, path string, body []byte) Answer {
	if mode == "" {
		mode = a.cfg.Mode
	}
	// Slashes count only between names.
	clean := "/" + strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/")
	if f := a.routes[mode][method+" "+clean]; f != nil {
		return f(ctx, body)
	}
	return Answer{http.StatusNotFound, "text/plain", fmt.Appendf(nil, "Could not resolve %s %s - nil\n", method, path)}
}

// maxConfig bounds a configuration that is sent.
const maxConfig = 256 << 20

// ServeHTTP implements http.Handler in the configured mode.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxConfig))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := a.Answer(r.Context(), "", r.Method, r.URL.Path, body)
	if out.Type != "" {
		w.Header().Set("Content-Type", out.Type)
	}
	w.WriteHeader(out.Status)
	_, _ = w.Write(out.Body) // a client that has left does not want to know
}

func (a *API) disabled(context.Context, []byte) Answer {
	return Answer{http.StatusForbidden, "text/plain", []byte("Forbidden\n")}
}

// reply is a JSON text with a line break behind.
func reply(status int, body any) Answer {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return reply(http.StatusInternalServerError, failure{Status: "error", Error: err.Error()})
	}
	return Answer{status, "application/json; charset=utf-8", b.Bytes()}
}

// raw is reply for a text that is JSON.
func raw(body json.RawMessage) Answer {
	return Answer{http.StatusOK, "application/json; charset=utf-8", append(bytes.Clone(body), '\n')}
}

type failure struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

func (a *API) info(context.Context, []byte) Answer {
	type timers struct {
		Pending int `json:"pending"`
		Running int `json:"running"`
	}
	type worker struct {
		Exiting bool `json:"exiting"`
		Count   int  `json:"count"`
		ID      int  `json:"id"`
	}
	return reply(http.StatusOK, struct {
		Timers timers `json:"timers"`
		Worker worker `json:"worker"`
	}{Worker: worker{Count: runtime.GOMAXPROCS(0)}})
}

// A readiness is what /status/ready says.
type readiness struct {
	Status  string `json:"status"`
	Warning string `json:"warning,omitempty"`
	Error   string `json:"error,omitempty"`
	Success bool   `json:"success"`
}

func (a *API) ready(context.Context, []byte) Answer {
	switch {
	case !a.cfg.Source.Status().Configured:
		return reply(http.StatusPreconditionFailed, readiness{Status: "error", Error: "not configured"})
	case a.cfg.Source.Len() == 0:
		return reply(http.StatusOK, readiness{Status: "warning", Warning: "no services", Success: true})
	}
	return reply(http.StatusOK, readiness{Status: "ready", Success: true})
}

func (a *API) live(context.Context, []byte) Answer {
	return reply(http.StatusOK, readiness{Status: "live", Success: true})
}

// products tells, beside what APIcast has, which products do not run as they are
// configured and whether the last load went well. Why is for who may see the
// configuration.
func (a *API) products(why bool) Answer {
	type loading struct {
		Loaded   time.Time       `json:"loaded,omitzero"`
		Loads    int64           `json:"loads"`
		Failing  bool            `json:"failing"`
		Problem  string          `json:"problem,omitempty"`
		Revision int64           `json:"revision"`
		Traffic  *portal.Traffic `json:"traffic,omitempty"`
	}
	st, faults := a.cfg.Source.Status(), a.cfg.Faults()
	out := struct {
		Products int               `json:"products"`
		Broken   []string          `json:"broken"`
		Faults   map[string]string `json:"faults,omitempty"`
		Source   loading           `json:"source"`
	}{Products: a.cfg.Source.Len(), Broken: slices.Sorted(maps.Keys(faults))}
	if out.Broken == nil {
		out.Broken = []string{}
	}
	out.Source = loading{Loaded: st.Loaded, Loads: st.Loads, Failing: st.Problem != "", Revision: st.Revision}
	if why {
		out.Faults, out.Source.Problem, out.Source.Traffic = faults, st.Problem, &st.Traffic
	}
	return reply(http.StatusOK, out)
}

func (a *API) policies(context.Context, []byte) Answer {
	return reply(http.StatusOK, struct {
		Policies json.RawMessage `json:"policies"`
	}{a.cfg.Manifests()})
}

func (a *API) config(context.Context, []byte) Answer {
	return raw(orNull(a.cfg.Source.Document(false)))
}

func orNull(doc json.RawMessage) json.RawMessage {
	if doc == nil {
		return json.RawMessage("null")
	}
	return doc
}

// An outcome is what a change of the configuration led to.
type outcome struct {
	Status   string          `json:"status"`
	Config   json.RawMessage `json:"config"`
	Services *int            `json:"services,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func (a *API) replace(ctx context.Context, body []byte) Answer {
	doc, err := document.Parse(body)
	if err != nil {
		return reply(http.StatusBadRequest, outcome{Status: "error", Config: json.RawMessage("null"), Error: err.Error()})
	}
	d, err := apicast.Read(body)
	if errors.Is(err, apicast.ErrNoConfiguration) {
		return reply(http.StatusBadRequest, outcome{Status: "error", Config: json.RawMessage("null")})
	}
	out := outcome{Status: "not_configured", Config: doc.Append(nil), Services: new(int)}
	if err == nil && len(d.Services) > 0 {
		*out.Services, err = a.cfg.Source.Replace(ctx, d)
	}
	switch {
	case err != nil:
		*out.Services, out.Error = 0, err.Error()
		return reply(http.StatusNotAcceptable, out)
	case *out.Services == 0:
		return reply(http.StatusNotAcceptable, out)
	}
	out.Status = "ok"
	return reply(http.StatusOK, out)
}

func (a *API) clear(ctx context.Context, _ []byte) Answer {
	if err := a.cfg.Source.Clear(ctx); err != nil {
		return reply(http.StatusInternalServerError, failure{"error", err.Error()})
	}
	return reply(http.StatusOK, outcome{Status: "ok", Config: json.RawMessage("null")})
}

func (a *API) boot(ctx context.Context, _ []byte) Answer {
	if err := a.cfg.Source.Reload(ctx); err != nil {
		return reply(http.StatusInternalServerError, failure{"error", err.Error()})
	}
	return reply(http.StatusOK, outcome{Status: "ok", Config: orNull(a.cfg.Source.Document(true))})
}

func (a *API) names(context.Context, []byte) Answer { return raw(a.cfg.Names()) }

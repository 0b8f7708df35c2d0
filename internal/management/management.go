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
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/internal/dialect/apicast"
	"weir/internal/document"
	"weir/internal/plugin"
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
	Limit     int64  // bytes of a configuration that is sent
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

type answer func(context.Context, Body) Answer

// A Body reads the body of a request, if it has no more bytes than limit; else the
// error is plugin.ErrBodyTooLarge.
type Body = func(limit int64) ([]byte, error)

// New makes an API.
func New(cfg Config) *API {
	a := &API{cfg: cfg}
	policies := map[string]answer{"GET /policies": a.policies}
	products := func(why bool) answer {
		return func(context.Context, Body) Answer { return a.products(why) }
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
func (a *API) Answer(ctx context.Context, mode, method, path string, body Body) Answer {
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

// ServeHTTP implements http.Handler in the configured mode.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := a.Answer(r.Context(), "", r.Method, r.URL.Path, func(limit int64) ([]byte, error) {
		if r.ContentLength > limit {
			return nil, plugin.ErrBodyTooLarge
		}
		body, err := document.ReadText(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			err = plugin.ErrBodyTooLarge
		}
		return body, err
	})
	if out.Type != "" {
		w.Header().Set("Content-Type", out.Type)
	}
	w.WriteHeader(out.Status)
	_, _ = w.Write(out.Body) // a client that has left does not want to know
}

func (a *API) disabled(context.Context, Body) Answer {
	return Answer{http.StatusForbidden, "text/plain", []byte("Forbidden\n")}
}

const jsonType = "application/json; charset=utf-8"

// reply is a JSON text with a line break behind.
func reply(status int, body any) Answer {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		return reply(http.StatusInternalServerError, failure{Status: "error", Error: err.Error()})
	}
	return Answer{status, jsonType, b.Bytes()}
}

// raw is reply for a text that is JSON.
func raw(body json.RawMessage) Answer {
	return Answer{http.StatusOK, jsonType, append(bytes.Clone(body), '\n')}
}

type failure struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

func (a *API) info(context.Context, Body) Answer {
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

func (a *API) ready(context.Context, Body) Answer {
	switch {
	case !a.cfg.Source.Status().Configured:
		return reply(http.StatusPreconditionFailed, readiness{Status: "error", Error: "not configured"})
	case a.cfg.Source.Len() == 0:
		return reply(http.StatusOK, readiness{Status: "warning", Warning: "no services", Success: true})
	}
	return reply(http.StatusOK, readiness{Status: "ready", Success: true})
}

func (a *API) live(context.Context, Body) Answer {
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

func (a *API) policies(context.Context, Body) Answer {
	return reply(http.StatusOK, struct {
		Policies json.RawMessage `json:"policies"`
	}{a.cfg.Manifests()})
}

func (a *API) config(context.Context, Body) Answer {
	return Answer{http.StatusOK, jsonType, append(orNull(a.cfg.Source.Document(false)), '\n')}
}

func orNull(doc json.RawMessage) json.RawMessage {
	if doc == nil {
		return json.RawMessage("null")
	}
	return doc
}

// An outcome is what a change of the configuration led to, but for its first
// member, the status, and its second, the configuration.
type outcome struct {
	Services *int   `json:"services,omitempty"`
	Error    string `json:"error,omitempty"`
}

// changed is the answer to a change. The configuration, which may be large, is
// copied once.
func changed(code int, status string, config json.RawMessage, out outcome) Answer {
	rest := reply(code, out)
	body := bytes.NewBuffer(make([]byte, 0, len(config)+len(rest.Body)+64))
	fmt.Fprintf(body, `{"status":%q,"config":`, status)
	if err := json.Compact(body, config); err != nil {
		return reply(http.StatusInternalServerError, failure{"error", err.Error()})
	}
	if rest.Body[1] != '}' {
		body.WriteByte(',')
	}
	body.Write(rest.Body[1:])
	return Answer{code, rest.Type, body.Bytes()}
}

func (a *API) replace(ctx context.Context, read Body) Answer {
	body, err := read(a.cfg.Limit)
	switch {
	case errors.Is(err, plugin.ErrBodyTooLarge):
		return reply(http.StatusRequestEntityTooLarge, failure{"error", fmt.Sprintf("a configuration may have %d bytes (WEIR_PRODUCTS_LIMIT)", a.cfg.Limit)})
	case err != nil:
		return reply(http.StatusBadRequest, failure{"error", err.Error()})
	}
	if body, err = document.Strict(body); err != nil {
		return changed(http.StatusBadRequest, "error", orNull(nil), outcome{Error: err.Error()})
	}
	d, err := apicast.Read(body)
	if errors.Is(err, apicast.ErrNoConfiguration) {
		return changed(http.StatusBadRequest, "error", orNull(nil), outcome{})
	}
	n := 0
	if err == nil && len(d.Services) > 0 {
		n, err = a.cfg.Source.Replace(ctx, d)
	}
	switch {
	case err != nil:
		return changed(http.StatusNotAcceptable, "not_configured", body, outcome{new(int), err.Error()})
	case n == 0:
		return changed(http.StatusNotAcceptable, "not_configured", body, outcome{Services: new(int)})
	}
	return changed(http.StatusOK, "ok", body, outcome{Services: &n})
}

func (a *API) clear(ctx context.Context, _ Body) Answer {
	if err := a.cfg.Source.Clear(ctx); err != nil {
		return reply(http.StatusInternalServerError, failure{"error", err.Error()})
	}
	return changed(http.StatusOK, "ok", orNull(nil), outcome{})
}

func (a *API) boot(ctx context.Context, _ Body) Answer {
	if err := a.cfg.Source.Reload(ctx); err != nil {
		return reply(http.StatusInternalServerError, failure{"error", err.Error()})
	}
	return changed(http.StatusOK, "ok", orNull(a.cfg.Source.Document(true)), outcome{})
}

func (a *API) names(context.Context, Body) Answer { return raw(a.cfg.Names()) }

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/engine"
	"weir/internal/source/declared"
	"weir/internal/source/file"
)

// A Question is a request that is to be explained, an Explanation what it would
// meet, a Candidate a route in that.
type (
	Question    = engine.Question
	Explanation = engine.Explanation
	Candidate   = engine.Candidate
)

// controlHandlers are the parts of the Control API that belong to the process.
func (g *Gateway) controlHandlers() map[string]http.Handler {
	handlers := g.discovered()
	handlers["GET /v1/explain"] = http.HandlerFunc(g.explainQuery)
	handlers["POST /v1/explain"] = http.HandlerFunc(g.explainBody)
	handlers["GET /v1/calls"] = http.HandlerFunc(g.measureCalls)
	handlers["POST /v1/profile"] = http.HandlerFunc(g.captureProfile)
	return handlers
}

// explainQuery answers a question in the query string: url, method, client,
// consumer, key, and header as "Name: value", any number of times.
func (g *Gateway) explainQuery(w http.ResponseWriter, r *http.Request) {
	q, err := QuestionOf(r.URL.Query())
	if err != nil {
		refuseExplain(w, http.StatusBadRequest, err)
		return
	}
	g.explain(w, r, q)
}

// maxQuestion bounds the text of a question.
const maxQuestion = 1 << 20

// explainBody answers a question that is a JSON document.
func (g *Gateway) explainBody(w http.ResponseWriter, r *http.Request) {
	var q Question
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		refuseExplain(w, http.StatusBadRequest, fmt.Errorf("the question is not as it should be: %w", err))
		return
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		refuseExplain(w, http.StatusBadRequest, errors.New("something follows the question"))
		return
	}
	g.explain(w, r, q)
}

// explainPatience bounds an explanation, with the wait for those before it. How long
// one takes depends on how many routes there are.
const explainPatience = 5 * time.Second

var errNotExplained = fmt.Errorf("not explained within %s: too many routes suit the request, or others are being explained", explainPatience)

func (g *Gateway) explain(w http.ResponseWriter, r *http.Request, q Question) {
	e, err := g.engineFor(q.Product)
	if err != nil {
		refuseExplain(w, http.StatusServiceUnavailable, err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), explainPatience, errNotExplained)
	defer cancel()
	said, err := g.inTurn(ctx, func() (*Explanation, error) { return e.Explain(ctx, q) })
	switch {
	case ctx.Err() != nil:
		refuseExplain(w, http.StatusServiceUnavailable, context.Cause(ctx))
	case err != nil:
		refuseExplain(w, http.StatusBadRequest, err)
	default:
		writeJSON(w, http.StatusOK, said)
	}
}

// inTurn explains one question at a time, so that requests keep the other processors.
func (g *Gateway) inTurn(ctx context.Context, explain func() (*Explanation, error)) (*Explanation, error) {
	select {
	case g.explaining <- struct{}{}:
		defer func() { <-g.explaining }()
		return explain()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// engineFor is the data plane of 3scale products, or of routes, or the only one
// there is.
func (g *Gateway) engineFor(products bool) (*engine.Engine, error) {
	if !g.ready.Load() {
		return nil, errors.New("this process serves no requests yet")
	}
	if a := g.account; a != nil && a.engine != nil && (products || g.engine == nil) {
		return a.engine, nil
	}
	switch {
	case g.engine == nil:
		return nil, errors.New("this process serves no requests")
	case products:
		return nil, errors.New("this process serves no products")
	}
	return g.engine, nil
}

func refuseExplain(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error_msg": err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}

// QuestionOf reads a question from parameters: url (a whole one, or a path and a
// host in header Host), method, client, consumer, key, body, product (true) and
// header.
func QuestionOf(v url.Values) (q Question, err error) {
	q = Question{Product: v.Get("product") == "true", Method: v.Get("method"), Client: v.Get("client"), Consumer: v.Get("consumer"), Key: v.Get("key"), Body: v.Get("body")}
	for _, h := range v["header"] {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return q, fmt.Errorf("header %q is not of the form \"Name: value\"", h)
		}
		value = strings.TrimSpace(value)
		if strings.EqualFold(name, "Host") {
			q.Host = value
			continue
		}
		q.Header = append(q.Header, [2]string{name, value})
	}
	raw := v.Get("url")
	if strings.HasPrefix(raw, "/") {
		q.Target = raw
		return q, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return q, fmt.Errorf("url %q is neither a path nor an http or https URL", raw)
	}
	q.Scheme = u.Scheme
	if q.Host == "" {
		q.Host = u.Host
	}
	q.Target = u.RequestURI()
	return q, nil
}

// ExplainObjects explains a request to the objects of the file that a gateway
// with this configuration would follow. No address is opened.
func ExplainObjects(ctx context.Context, c *config.Config, q Question) (said *Explanation, err error) {
	if !fromFile(c) {
		return nil, errors.New("the configuration's objects are not in a file (deployment.role_data_plane.config_provider yaml or json): ask the running gateway")
	}
	g := &Gateway{Options: Options{Config: c}, log: slog.New(slog.DiscardHandler)}
	defer func() { err = errors.Join(err, g.Stop(ctx)) }()
	if err := g.openState(ctx); err != nil {
		return nil, err
	}
	items, _, err := file.Load(g.fileConfig(c.Deployment.Provider()))
	if err != nil {
		return nil, err
	}
	g.state.Apply(new(declared.State).Next(items).Since(nil))
	return g.explainOffline(ctx, q)
}

// ExplainProducts explains a request to the 3scale products that a gateway with
// these settings would load. No address is opened.
func ExplainProducts(ctx context.Context, c *config.Config, products *config.APIcast, q Question) (said *Explanation, err error) {
	g := &Gateway{Options: Options{Config: c, APIcast: products, Out: io.Discard}, log: slog.New(slog.DiscardHandler)}
	defer func() { err = errors.Join(err, g.Stop(ctx)) }()
	for _, step := range []func(context.Context) error{g.openAccount, g.openState, g.loadProducts} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if products.Portal.Loader == "lazy" {
		g.wantHost(q.Host)
	}
	return explainWith(ctx, engine.Config{Products: true, State: g.state, Log: g.log}, q)
}

// explainOffline explains with an engine that serves nobody.
func (g *Gateway) explainOffline(ctx context.Context, q Question) (*Explanation, error) {
	cfg, err := g.engineConfig()
	if err != nil {
		return nil, err
	}
	return explainWith(ctx, cfg, q)
}

func explainWith(ctx context.Context, cfg engine.Config, q Question) (*Explanation, error) {
	e := engine.New(cfg)
	defer e.Shutdown(context.Background())
	said, err := e.Explain(ctx, q)
	if err != nil && ctx.Err() == nil {
		err = BadQuestion{err}
	}
	return said, err
}

// A BadQuestion is an error that says what is wrong with a Question.
type BadQuestion struct{ error }

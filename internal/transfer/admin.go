package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/etcd"
)

// AdminConfig says where an Admin API is and what opens it.
type AdminConfig struct {
	URL string // its root, "http://127.0.0.1:9180"
	Key string // empty: none is sent
	TLS *tls.Config

	// Schemas open secrets before they are sent: the Admin API takes plain ones.
	Schemas *Schemas

	// Progress is told how many objects were read; it may be nil.
	Progress func(done int)
}

// An Admin is the Admin API of a running gateway, Weir or APISIX.
type Admin struct {
	cfg    AdminConfig
	client *http.Client
	pushed bool
}

// NewAdmin makes a client. It does not connect.
func NewAdmin(cfg AdminConfig) (*Admin, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of an Admin API, like http://127.0.0.1:9180", cfg.URL)
	}
	cfg.URL = strings.TrimSuffix(strings.TrimRight(cfg.URL, "/"), adminRoot)
	if cfg.Progress == nil {
		cfg.Progress = func(int) {}
	}
	const patience = time.Minute // a write waits until it is live
	return &Admin{cfg: cfg, client: &http.Client{
		Timeout: patience,
		// The key is for this server alone; net/http would take it elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS, MaxIdleConnsPerHost: workers,
		},
	}}, nil
}

const adminRoot = "/apisix/admin"

// Close ends idle connections.
func (a *Admin) Close() error {
	a.client.CloseIdleConnections()
	return nil
}

// String names the place in messages.
func (a *Admin) String() string { return a.cfg.URL }

// Unreachable says that a place did not answer.
type Unreachable struct {
	Place string
	Err   error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v", u.Place, u.Err)
}

func (u *Unreachable) Unwrap() error { return u.Err }

// A Refusal is a place's answer that it does not do what was asked for one
// object; others may be accepted.
type Refusal struct {
	Status int // of HTTP; 0: it was not asked by HTTP
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// Get reads a path below the Admin API's root, "/routes/1". An answer from 400
// on is a *Refusal.
func (a *Admin) Get(ctx context.Context, path string) (*document.Value, error) {
	return a.call(ctx, http.MethodGet, path, nil)
}

func (a *Admin) call(ctx context.Context, method, path string, body []byte) (*document.Value, error) {
	status, text, err := a.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	v, err := document.Parse(text)
	if status >= http.StatusBadRequest {
		return nil, refusal(status, v, text)
	}
	if err != nil && len(text) > 0 {
		return nil, fmt.Errorf("%s: %s %s: the answer is not JSON: %w", a, method, path, err)
	}
	return v, nil
}

// send makes a request with headers that are given as names and values.
func (a *Admin) send(ctx context.Context, method, path string, body []byte, headers ...string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.cfg.URL+adminRoot+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.cfg.Key != "" {
		req.Header.Set("X-API-KEY", a.cfg.Key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := a.client.Do(req)
	if err == nil {
		defer res.Body.Close()
		answer, err = io.ReadAll(res.Body)
	}
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return 0, nil, &Unreachable{a.cfg.URL, err}
	}
	return res.StatusCode, answer, nil
}

// refusal takes the message out of an answer.
func refusal(status int, v *document.Value, text []byte) *Refusal {
	const most = 300
	said := strings.TrimSpace(string(text[:min(len(text), most)]))
	for _, name := range []string{"error_msg", "message"} {
		if m := v.Get(name); m.Is(document.String) {
			said = m.Text
		}
	}
	if d := v.Get("description"); d.Is(document.String) {
		said += ": " + d.Text
	}
	if said == "" {
		said = http.StatusText(status)
	}
	return &Refusal{status, said}
}

// Read reads everything that the Admin API gives out. That is not one state of
// the gateway if somebody writes meanwhile.
func (a *Admin) Read(ctx context.Context) (*State, error) {
	s := newState()
	for _, kind := range sections() {
		list, err := a.List(ctx, kind, "")
		var no *Refusal
		switch {
		case errors.As(err, &no) && kind == model.KindRoute && no.Status == http.StatusNotFound:
			return a.readPushed(ctx)
		case errors.As(err, &no) && absent(no):
			s.Absent[kind] = no.Text
			continue
		case err != nil:
			return nil, a.failed("GET", "/"+kind.Dir(), err)
		}
		s.listed(list)
		a.cfg.Progress(len(s.Objects))
	}
	for _, kind := range []model.Kind{model.KindCredential, model.KindCostDecoration} {
		if err := a.readInner(ctx, s, kind); err != nil {
			return nil, err
		}
	}
	if n := s.Counts()[model.KindSSL]; n > 0 {
		s.note("the Admin API does not give out the private keys of certificates: %d ssls are without; an etcd holds them", n)
	}
	return s, nil
}

// absent says that the gateway does not have the resource at all.
func absent(r *Refusal) bool {
	return r.Status == http.StatusNotFound || r.Status == http.StatusBadRequest && strings.HasPrefix(r.Text, "stream mode is disabled")
}

// failed says what was asked when a place refused.
func (a *Admin) failed(method, path string, err error) error {
	if no, ok := errors.AsType[*Refusal](err); ok {
		return fmt.Errorf("%s: %s %s: status %d: %w", a, method, path, no.Status, err)
	}
	return err
}

// readPushed reads a gateway whose configuration is pushed as a whole
// (apisix-admin.md §11).
func (a *Admin) readPushed(ctx context.Context) (*State, error) {
	doc, err := a.Get(ctx, "/configs")
	var no *Refusal
	if errors.As(err, &no) && no.Status == http.StatusNotFound {
		return nil, fmt.Errorf("%s is not an Admin API: it knows neither %s/routes nor %[2]s/configs", a, adminRoot)
	}
	if err != nil {
		return nil, a.failed("GET", "/configs", err)
	}
	s, err := standalone(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: GET /configs: %w", a, err)
	}
	a.pushed = true
	return s, nil
}

// Pushed says, after Read, that the gateway takes its configuration as a whole:
// by Push, not object by object.
func (a *Admin) Pushed() bool { return a.pushed }

// Push gives the gateway a whole configuration. What is the same in it as
// before stays as it is in the gateway. It decides on the list of plugins, too.
func (a *Admin) Push(ctx context.Context, s *State) error {
	plain := newState()
	for key, v := range s.Objects {
		if key.Kind != model.KindPlugins {
			v = clone(v)
			a.cfg.Schemas.Open(key, v)
			plain.Objects[key] = v
		}
	}
	doc := plain.Document()
	if list := s.Objects[model.Key{Kind: model.KindPlugins}]; list != nil {
		doc.Set(model.KindPlugins.Dir(), list)
	}
	body := doc.Append(nil)
	const path = "/configs"
	status, text, err := a.send(ctx, http.MethodPut, path, body, "X-Digest", fmt.Sprintf("%x", sha256.Sum256(body)))
	if err == nil && status >= http.StatusBadRequest {
		v, _ := document.Parse(text)
		err = a.failed(http.MethodPut, path, refusal(status, v, text))
	}
	return err
}

var errNoList = errors.New("the answer has no list; admin_api_version v2 is not understood")

// nodes are the objects in the answer to a list. owner is the id of that below
// which they lie; empty: none.
func nodes(answer *document.Value, kind model.Kind, owner string) ([]Listed, error) {
	list := answer.Get("list")
	if list == nil {
		return nil, errNoList
	}
	var out []Listed
	for _, node := range list.Items {
		text, _ := node.Get("key").Scalar()
		segments := strings.Split(text, "/")
		id := segments[len(segments)-1]
		switch {
		case owner != "":
			id = owner + "/" + kind.Dir() + "/" + id
		case kind == model.KindSecret && len(segments) > 1:
			id = segments[len(segments)-2] + "/" + id
		}
		key := model.Key{Kind: kind, ID: id}
		if known, ok := etcd.ObjectKey(key.String()); !ok || known != key {
			return nil, fmt.Errorf("the key %q names no %s", text, kind)
		}
		out = append(out, Listed{key, node.Get("value")})
	}
	return out, nil
}

func (s *State) listed(list []Listed) {
	for _, l := range list {
		if l.Value.Is(document.Object) {
			s.put(l.Key, l.Value)
		} else {
			s.Broken[l.Key] = "it is not a JSON object"
		}
	}
}

// readInner asks every object of one kind for what lies below it.
func (a *Admin) readInner(ctx context.Context, s *State, kind model.Kind) error {
	var owners []string
	for key := range s.Objects {
		if key.Kind == section(kind) {
			owners = append(owners, key.ID)
		}
	}
	lists := make([][]Listed, len(owners))
	var unknown atomic.Bool // to this gateway
	err := each(ctx, len(owners), func(ctx context.Context, i int) (err error) {
		if unknown.Load() {
			return nil
		}
		lists[i], err = a.List(ctx, kind, owners[i])
		if no, ok := errors.AsType[*Refusal](err); ok && no.Status == http.StatusNotFound {
			unknown.Store(true)
			return nil
		}
		return a.failed("GET", below(kind, owners[i]), err)
	}, func(done int) { a.cfg.Progress(len(s.Objects) + done) })
	for _, list := range lists {
		s.listed(list)
	}
	return err
}

// below is the path of what lies below an object.
func below(kind model.Kind, owner string) string {
	if owner == "" {
		return "/" + kind.Dir()
	}
	return "/" + section(kind).Dir() + "/" + url.PathEscape(owner) + "/" + kind.Dir()
}

// Put writes an object, whose secrets may be sealed.
func (a *Admin) Put(ctx context.Context, key model.Key, v *document.Value) error {
	v = clone(v)
	a.cfg.Schemas.Open(key, v)
	_, err := a.call(ctx, http.MethodPut, path(key), v.Append(nil))
	return err
}

// Delete removes an object. One that is not there is removed.
func (a *Admin) Delete(ctx context.Context, key model.Key) error {
	// A gateway of APISIX learns of the deletion of what uses the object a moment
	// after it was answered.
	const tries, pause = 3, 100 * time.Millisecond
	for try := 1; ; try++ {
		_, err := a.call(ctx, http.MethodDelete, path(key), nil)
		var no *Refusal
		switch {
		case !errors.As(err, &no):
			return err
		case no.Status == http.StatusNotFound:
			return nil
		case try == tries || !strings.Contains(no.Text, "still using"):
			return err
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// path is where the Admin API has an object.
func path(key model.Key) string {
	segments := strings.Split(key.String(), "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "/" + strings.Join(segments, "/")
}

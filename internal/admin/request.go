package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
)

// maxBody is how many bytes of a body are read: 1.5 MiB.
const maxBody = 3 << 19

// A request is a call on a resource.
type request struct {
	*http.Request
	who   string // name of the key that was used
	res   *resource
	owner string // consumer of a credential, service of a cost decoration, manager of a secret
	id    string // empty: none was given
	sub   string // path inside the object, for PATCH
	args  url.Values
	body  *document.Value // nil: none was sent
	ttl   int64           // seconds; 0: for ever
}

// key is the key in the store of the object that the request is about.
func (r *request) key(id string) string { return "/" + r.object(id).String() }

// object names the object in the model.
func (r *request) object(id string) model.Key {
	switch r.res.kind {
	case model.KindCredential:
		id = r.owner + "/credentials/" + id
	case model.KindCostDecoration:
		id = r.owner + "/graphql_cost_decorations/" + id
	case model.KindSecret:
		id = r.owner + "/" + id
	}
	return model.Key{Kind: r.res.kind, ID: id}
}

// parent names the object below which the request's one lies; ok is false if its
// kind lies below nothing.
func (r *request) parent() (parent model.Key, ok bool) {
	switch r.res.kind {
	case model.KindCredential:
		return model.Key{Kind: model.KindConsumer, ID: r.owner}, true
	case model.KindCostDecoration:
		return model.Key{Kind: model.KindService, ID: r.owner}, true
	}
	return model.Key{}, false
}

// dir is the directory in the store of all objects of the request's kind and
// owner.
func (r *request) dir() string {
	dir := "/" + r.res.kind.Dir()
	switch r.res.kind {
	case model.KindCredential:
		return "/consumers/" + r.owner + dir
	case model.KindCostDecoration:
		return "/services/" + r.owner + dir
	}
	return dir
}

// cleanPath merges slashes and resolves dots, as APISIX's web server does; a
// slash at the end stays.
func cleanPath(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// dispatch answers a call on a resource or one of the documents about them.
func (a *API) dispatch(r *http.Request, who string, segments []string) answer {
	at := func(i int) string {
		if i < len(segments) {
			return segments[i]
		}
		return ""
	}
	if segments[0] == "schema" && at(1) == "plugins" {
		segments = segments[1:]
	}
	if segments[0] == "stream_routes" && !a.cfg.Stream {
		return bad("stream mode is disabled, can not add stream routes")
	}
	req := &request{Request: r, who: who, args: r.URL.Query()}
	name := segments[0]
	req.id, req.sub = at(1), strings.Join(segments[min(2, len(segments)):], "/")
	if inner := at(2); name == "consumers" && inner == "credentials" || name == "services" && inner == "graphql_cost_decorations" {
		name, req.owner, req.id, req.sub = inner, at(1), at(3), ""
	}
	if name == "secrets" {
		req.owner, req.id, req.sub = at(1), at(2), strings.Join(segments[min(3, len(segments)):], "/")
	}
	if name == "schema" || name == "plugins" {
		if r.Method != http.MethodGet {
			return refuse(http.StatusNotFound, "not found")
		}
		return a.versioned(a.describe(name, req))
	}
	if req.res = a.resources[name]; req.res == nil {
		return refuse(http.StatusNotFound, "Unsupported resource type: %s", name)
	}
	if refusal := req.read(); refusal != nil {
		return *refusal
	}
	ans := a.call(req)
	if ans.status >= http.StatusInternalServerError {
		a.deps.Log.Error("admin: failed", "method", r.Method, "object", req.object(req.id).String(), "answer", string(bytes.TrimSpace(ans.body)))
	}
	return a.versioned(ans)
}

func (a *API) versioned(ans answer) answer {
	ans.version = "v2"
	if a.v3() {
		ans.version = "v3"
	}
	return ans
}

func (a *API) v3() bool { return a.cfg.Version == "v3" }

func (a *API) call(r *request) answer {
	if r.res.refuses(r.Method) {
		return refuse(http.StatusMethodNotAllowed, "not supported `%s` method for %s", r.Method, r.res.kind)
	}
	if refusal := a.bind(r); refusal != nil {
		return *refusal
	}
	switch r.Method {
	case http.MethodPut:
		return a.put(r)
	case http.MethodPost:
		return a.post(r)
	case http.MethodPatch:
		return a.patch(r)
	case http.MethodDelete:
		return a.remove(r)
	}
	return a.get(r)
}

// read reads the body and the arguments that every method has.
func (r *request) read() *answer {
	body, refusal := readBody(r.Request)
	if refusal != nil {
		return refusal
	}
	r.body = body
	if !r.args.Has("ttl") {
		return nil
	}
	ttl, err := strconv.ParseFloat(r.args.Get("ttl"), 64)
	if err != nil {
		ans := bad("invalid argument ttl: should be a number")
		return &ans
	}
	const most = 9_000_000_000 // of an etcd lease
	if !(ttl > 0 && ttl <= most) {
		ans := bad("invalid argument ttl: should be greater than 0 and at most %d", int64(most))
		return &ans
	}
	r.ttl = int64(math.Ceil(ttl))
	return nil
}

// readBody returns the body as JSON, whatever its type is said to be; nil if
// there is none.
func readBody(r *http.Request) (*document.Value, *answer) {
	fail := func(ans answer) (*document.Value, *answer) { return nil, &ans }
	raw, err := readAll(r, maxBody)
	if err != nil {
		return fail(bad("invalid request body: %v", err))
	}
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := document.Parse(raw)
	if err != nil {
		return fail(answer{status: http.StatusBadRequest, body: object("error_msg", "invalid request body: "+err.Error(), "req_body", string(raw))})
	}
	return v, nil
}

func readAll(r *http.Request, most int64) ([]byte, error) {
	tooLarge := func(n int64) error {
		return fmt.Errorf("request size %d is greater than the maximum size %d allowed", n, most)
	}
	if r.ContentLength > most {
		return nil, tooLarge(r.ContentLength)
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return nil, errors.New("it did not arrive completely")
	case int64(len(raw)) > most:
		return nil, tooLarge(int64(len(raw)))
	}
	return raw, nil
}

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"weir/internal/document"
	"weir/internal/source/declared"
	"weir/internal/source/standalone"
)

// maxDocument is how many bytes of a pushed configuration are read: 64 MiB.
const maxDocument = 64 << 20

const yamlType = "application/yaml"

// standalone answers where clients push the whole configuration as one
// document (apisix-admin.md section 11).
func (a *API) standalone(r *http.Request, rest string) answer {
	var handle func(*http.Request, string) answer
	switch r.Method + " " + rest {
	case "GET configs", "HEAD configs":
		handle = a.getConfigs
	case "PUT configs":
		handle = a.pushConfigs
	case "POST configs/validate":
		handle = func(r *http.Request, _ string) answer { return a.validateConfigs(r) }
	case "POST configs":
		return refuse(http.StatusNotFound, "Not found")
	default:
		return answer{status: http.StatusNotFound}
	}
	who, refused := a.admitted(r)
	if refused != nil {
		return *refused
	}
	return handle(r, who)
}

func (a *API) getConfigs(r *http.Request, _ string) answer {
	doc := a.deps.Configs.Current()
	ans := answer{status: http.StatusOK, headers: versionOf(doc)}
	switch {
	case r.Method == http.MethodHead:
		return ans
	case !strings.HasPrefix(r.Header.Get("Accept"), yamlType):
		ans.body = append(doc.Value.Append(nil), '\n')
		return ans
	}
	var err error
	if ans.body, err = declared.YAML(doc.Value); err != nil {
		return refuse(http.StatusInternalServerError, "failed to encode yaml: %v", err)
	}
	ans.headers = append(ans.headers, [2]string{"Content-Type", yamlType})
	return ans
}

// versionOf are the headers that tell which version a document is.
func versionOf(doc *standalone.Document) [][2]string {
	if doc.LastModified == "" {
		return nil
	}
	return [][2]string{{standalone.LastModified, doc.LastModified}, {standalone.DigestName, doc.Digest}}
}

// pushConfigs replaces the configuration and answers when it is live.
func (a *API) pushConfigs(r *http.Request, who string) answer {
	digest := r.Header.Get(standalone.DigestName)
	if digest == "" {
		return bad("missing digest header")
	}
	doc, err := readDocument(r, maxDocument)
	if err != nil {
		return bad("invalid request body: %v", err)
	}
	now, err := a.deps.Configs.Push(digest, doc)
	var refused *standalone.Refused
	switch {
	case errors.Is(err, standalone.ErrSame):
		return answer{status: http.StatusNoContent}
	case errors.As(err, &refused):
		return bad("%v", refused)
	case err != nil:
		a.deps.Log.Error("admin: the configuration is not stored", "err", err)
		return storageFailed(err)
	}
	ans := answer{status: http.StatusAccepted, headers: versionOf(now)}
	a.settleChange(r.Context(), Change{Who: who, Peer: r.RemoteAddr, Action: "push", Revision: now.Revision}, &ans)
	return ans
}

// readDocument reads a whole configuration, as JSON or, if it is said to be
// that, as YAML.
func readDocument(r *http.Request, most int64) (*document.Value, error) {
	raw, err := readAll(r, most)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, errors.New("empty request body")
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), yamlType) {
		doc, err := declared.ParseYAML(raw)
		if err != nil || !doc.Is(document.Object) {
			return nil, errors.New("invalid yaml request body")
		}
		return doc, nil
	}
	doc, err := document.Parse(raw)
	if err == nil && !doc.Is(document.Object) {
		err = fmt.Errorf("wrong type: expected object, got %s", doc.Kind)
	}
	return doc, err
}

// validateConfigs says everything that is wrong with a whole configuration.
func (a *API) validateConfigs(r *http.Request) answer {
	doc, err := readDocument(r, maxBody)
	if err != nil {
		return bad("invalid request body: %v", err)
	}
	problems := a.checker.Validate(doc, true, nil)
	if len(problems) == 0 {
		return answer{status: http.StatusOK, body: []byte("{}\n")}
	}
	list := &document.Value{Kind: document.Array}
	for _, p := range problems {
		list.Items = append(list.Items, problem(p))
	}
	body := document.NewObject()
	body.Set("error_msg", document.NewString("Configuration validation failed"))
	body.Set("errors", list)
	return answer{status: http.StatusBadRequest, body: append(body.Append(nil), '\n')}
}

func problem(p declared.Problem) *document.Value {
	v := document.NewObject()
	v.Set("resource_type", document.NewString(p.Section.Dir()))
	if p.Index >= 0 {
		id := p.ID
		if id == nil {
			id = document.NewString("")
		}
		v.Set("resource_id", id)
		v.Set("index", document.NewInt(int64(p.Index)))
	}
	v.Set("error", document.NewString(p.Err.Error()))
	return v
}

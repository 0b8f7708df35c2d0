package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"weir/internal/document"
	"weir/internal/plugin"
)

// describe answers with schemas: of a resource, of a plugin, of all plugins.
func (a *API) describe(what string, r *request) answer {
	if what == "schema" {
		doc, ok := a.deps.Checker.Schema(r.id)
		if !ok {
			return bad("not found schema: %s", r.id)
		}
		return asJSON(doc)
	}
	subsystem := "http"
	if r.args.Has("subsystem") {
		subsystem = r.args.Get("subsystem")
	}
	if subsystem != "http" && subsystem != "stream" {
		return bad("unsupported subsystem: %s", subsystem)
	}
	if r.args.Get("all") == "true" {
		return a.allPlugins(subsystem)
	}
	stream, ok := a.streams[r.id]
	if subsystem == "stream" && ok && a.enabledFor(r.id, true) {
		return asJSON(stream.ConfigSchema())
	}
	spec, ok := a.plugins[r.id]
	if !ok || subsystem == "stream" || !a.enabled(r.id) {
		return refuse(http.StatusNotFound, "plugin not found in subsystem %s", subsystem)
	}
	s := spec.ConfigSchema()
	if r.args.Get("schema_type") == "consumer" {
		s = spec.CredentialSchema()
	}
	if s == nil {
		return bad("not found schema")
	}
	return asJSON(s)
}

func asJSON(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return refuse(http.StatusInternalServerError, "%v", err)
	}
	return answer{status: http.StatusOK, body: append(body, '\n')}
}

func (a *API) allPlugins(subsystem string) answer {
	all := map[string]plugin.Description{}
	if subsystem == "http" {
		for name, p := range a.plugins {
			if a.enabled(name) {
				all[name] = p.Describe()
			}
		}
		return asJSON(all)
	}
	for name, p := range a.streams {
		if a.enabledFor(name, true) {
			all[name] = p.Describe()
		}
	}
	return asJSON(all)
}

func (a *API) enabled(plugin string) bool { return a.enabledFor(plugin, false) }

// enabledFor says that a plugin may be configured, in a stream route if stream.
func (a *API) enabledFor(plugin string, stream bool) bool {
	return a.deps.Enabled == nil || a.deps.Enabled(plugin, stream)
}

// pluginNames answers with the plugins of a subsystem, the first to run first.
func (a *API) pluginNames(args url.Values) answer {
	var list []plugin.Meta
	stream := args.Get("subsystem") == "stream"
	switch {
	case stream:
		for _, p := range a.deps.StreamPlugins {
			list = append(list, p.Meta)
		}
	case !args.Has("subsystem"), args.Get("subsystem") == "http":
		for _, p := range a.deps.Plugins {
			list = append(list, p.Meta)
		}
	default:
		return answer{status: http.StatusBadRequest, body: []byte("invalid subsystem passed")}
	}
	list = slices.DeleteFunc(list, func(p plugin.Meta) bool { return !a.enabledFor(p.Name, stream) })
	slices.SortStableFunc(list, func(x, y plugin.Meta) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.Name, y.Name))
	})
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	return asJSON(names)
}

// validate checks a document by its schema alone and stores nothing.
func (a *API) validate(r *http.Request, resource string) answer {
	res := a.resources[resource]
	if res == nil {
		return refuse(http.StatusNotFound, "Unsupported resource type: %s", resource)
	}
	body, refusal := readBody(r)
	if refusal != nil {
		return *refusal
	}
	if body == nil {
		return bad("wrong type: expected object, got nil")
	}
	if err := a.checkValidity(res, body); err != nil {
		return bad("%v", err)
	}
	return answer{status: http.StatusOK}
}

func (a *API) checkValidity(res *resource, body *document.Value) error {
	if !body.Is(document.Object) {
		return fmt.Errorf("wrong type: expected object, got %v", body.Kind)
	}
	return a.deps.Checker.CheckSchema(res.kind, body.Append(nil))
}

package control

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"weir/internal/plugin"
)

// A Source is what the configuration comes from.
type Source struct {
	Kind    string // etcd, file, configs
	Problem string // why it is not in force as it is now; empty: it is

	// Skipped are parts of a file that are no objects, by path, with the reasons.
	Skipped map[string]error
}

// Server is what APISIX's plugin server-info tells of the process.
type Server struct {
	Etcd     string `json:"etcd_version"` // of the store; "unknown" where that is not known
	ID       string `json:"id"`           // of the instance
	Hostname string `json:"hostname"`
	Version  string `json:"version"`
	Boot     int64  `json:"boot_time"` // seconds since 1970
}

// A Report is what an operator looks at first: whether all that is configured
// runs.
type Report struct {
	Ready   bool    `json:"ready"`
	Waiting string  `json:"waiting,omitempty"` // why it is not ready
	Applied int64   `json:"applied"`           // revision that requests see
	Source  string  `json:"source"`            // etcd, file, configs
	Problem string  `json:"problem,omitempty"` // of the source
	Faults  []fault `json:"faults"`            // objects that do not run as they are, or refer to what is not there
	Skipped []fault `json:"skipped,omitempty"` // parts of a file that are no objects
}

type fault struct {
	Object string `json:"object"`
	Error  string `json:"error"`
}

func listed(errs map[string]error) []fault {
	list := []fault{}
	for _, path := range slices.Sorted(maps.Keys(errs)) {
		list = append(list, fault{path, errs[path].Error()})
	}
	return list
}

// report is GET /v1/status.
func (c *Config) report(w http.ResponseWriter, _ *http.Request) {
	s, from := c.Snapshot(), c.Source()
	wrong := faults(s)
	for path, err := range s.Missing {
		wrong[path] = cmp.Or(wrong[path], err)
	}
	r := Report{
		Ready: true, Applied: s.Revision, Source: from.Kind, Problem: from.Problem,
		Faults: listed(wrong), Skipped: listed(from.Skipped),
	}
	if err := c.Ready(); err != nil {
		r.Ready, r.Waiting = false, err.Error()
	}
	answer(w, http.StatusOK, r)
}

// mainSchemas are the schemas that GET /v1/schema tells of besides those of
// plugins. It is immutable.
var mainSchemas = []string{
	"consumer", "consumer_group", "global_rule", "graphql_cost_decoration", "plugin_config", "plugins", "proto",
	"route", "service", "ssl", "stream_route", "upstream", "upstream_hash_header_schema", "upstream_hash_vars_schema",
}

// schema is GET /v1/schema.
func (c *Config) schema(w http.ResponseWriter, _ *http.Request) {
	told := struct {
		Main    map[string]json.RawMessage    `json:"main"`
		Plugins map[string]plugin.Description `json:"plugins"`
		Stream  map[string]plugin.Description `json:"stream_plugins"`
	}{map[string]json.RawMessage{}, map[string]plugin.Description{}, map[string]plugin.Description{}}
	for _, name := range mainSchemas {
		if doc, ok := c.Documents.Schema(name); ok {
			told.Main[name] = doc
		}
	}
	for _, s := range c.Snapshot().Plugins() {
		told.Plugins[s.Name] = s.Describe()
	}
	for _, s := range c.Snapshot().StreamPlugins() {
		told.Stream[s.Name] = s.Describe()
	}
	answer(w, http.StatusOK, told)
}

// reload is PUT /v1/plugins/reload.
func (c *Config) reload(w http.ResponseWriter, r *http.Request) {
	if c.Reload != nil {
		if err := c.Reload(r.Context()); err != nil {
			answer(w, http.StatusServiceUnavailable, failure{err.Error()})
			return
		}
	}
	_, _ = w.Write([]byte("done")) // an error means that the client is gone
}

package control

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/snapshot"
)

// An object is a part of the configuration as APISIX tells of it.
type object struct {
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value"` // with its defaults
	Created  int64           `json:"createdIndex"`
	Modified int64           `json:"modifiedIndex"`
	Domain   bool            `json:"has_domain"`
	Handlers struct{}        `json:"clean_handlers"` // of APISIX's memory; clients expect the member

	// Fault is why the object does not run as it is; empty: it does.
	Fault string `json:"fault,omitempty"`
}

// object tells of an object. Secrets come as the store has them, private keys
// not at all.
func (c *Config) object(o model.Object, faults map[string]error, specs map[string]plugin.Spec) object {
	v := c.Documents.Fill(o.Kind, o.Raw)
	if v.Is(document.Object) {
		v.Set("id", document.NewString(o.ID))
	}
	for _, up := range []*document.Value{v, v.Get("upstream")} {
		if tls := up.Get("tls"); tls.Is(document.Object) {
			tls.Delete("client_key")
		}
	}
	fillPlugins(v.Get("plugins"), specs)
	told := object{
		Key: c.KeyPrefix + "/" + o.Key.String(), Value: v.Append(nil),
		Created: o.Created, Modified: o.Modified, Domain: hasDomain(v) || hasDomain(v.Get("upstream")),
	}
	if err := faults[o.Key.String()]; err != nil {
		told.Fault = err.Error()
	}
	return told
}

// fillPlugins gives the configurations of plugins their defaults, where they
// satisfy their schemas.
func fillPlugins(confs *document.Value, specs map[string]plugin.Spec) {
	if !confs.Is(document.Object) {
		return
	}
	for i, m := range confs.Members {
		spec, here := specs[m.Name]
		if !here {
			continue
		}
		filled, err := spec.ConfigSchema().Fill(m.Value.Append(nil))
		if err != nil {
			continue
		}
		if v, err := document.Parse(filled); err == nil {
			if v.Get("_meta") == nil {
				v.Set("_meta", document.NewObject())
			}
			confs.Members[i].Value = v
		}
	}
}

// hasDomain says that a node of an upstream is given by name.
func hasDomain(up *document.Value) bool {
	nodes := up.Get("nodes")
	return nodes != nil && slices.ContainsFunc(nodes.Items, func(n *document.Value) bool {
		host, _ := n.Get("host").Scalar()
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return host != "" && err != nil
	})
}

// enabled are the plugins of a state by name.
func enabled(s *snapshot.Snapshot) map[string]plugin.Spec {
	specs := map[string]plugin.Spec{}
	for _, spec := range s.Plugins() {
		specs[spec.Name] = spec
	}
	return specs
}

// faults are the reasons why objects do not run as they are, by path.
func faults(s *snapshot.Snapshot) map[string]error {
	found := map[string]error{}
	for path, err := range s.Faults {
		if found[path] == nil {
			found[path] = err
		}
	}
	return found
}

// all lists the objects of a kind by id. To fill in their defaults takes time: the
// lists take turns with it, object by object, and end when their clients are gone.
func (c *Config) all(k model.Kind, turn *sync.Mutex) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.Snapshot()
		wrong, specs := faults(s), enabled(s)
		w.Header().Set("Content-Type", "application/json")
		out := bufio.NewWriter(w)
		defer out.Flush() // an error means that the client is gone
		separator := "["
		for _, o := range sorted(s, k) {
			if r.Context().Err() != nil {
				return
			}
			turn.Lock()
			text, err := json.Marshal(c.object(o, wrong, specs))
			turn.Unlock()
			if err != nil { // of a document that is none
				continue
			}
			_, _ = out.WriteString(separator)
			_, _ = out.Write(text)
			separator = ","
		}
		if separator == "[" {
			_, _ = out.WriteString(separator)
		}
		_, _ = out.WriteString("]\n")
	}
}

func sorted(s *snapshot.Snapshot, k model.Kind) []model.Object {
	return slices.SortedFunc(s.Objects(k), func(x, y model.Object) int { return cmp.Compare(x.ID, y.ID) })
}

func (c *Config) one(k model.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, id := c.Snapshot(), r.PathValue("id")
		o, ok := s.Object(model.Key{Kind: k, ID: id})
		if !ok {
			answer(w, http.StatusNotFound, failure{fmt.Sprintf("%s[%s] not found", k, id)})
			return
		}
		answer(w, http.StatusOK, c.object(o, faults(s), enabled(s)))
	}
}

// metadata is a plugin's metadata, with the plugin's name as its id; null if it is no
// document.
func metadata(o model.Object) json.RawMessage {
	v, err := document.Parse(o.Raw)
	switch {
	case err != nil:
		return json.RawMessage("null")
	case !v.Is(document.Object):
		return o.Raw
	}
	v.Set("id", document.NewString(o.ID))
	return v.Append(nil)
}

// byPriority is the metadata in the order of the plugins, as APISIX lists it; what
// belongs to none that is enabled comes last.
func byPriority(s *snapshot.Snapshot) []model.Object {
	priority := map[string]int{}
	for _, p := range s.Plugins() {
		priority[p.Name] = p.Priority
	}
	rank := func(plugin string) int {
		if p, enabled := priority[plugin]; enabled {
			return p
		}
		return math.MinInt
	}
	list := sorted(s, model.KindPluginMetadata)
	slices.SortStableFunc(list, func(x, y model.Object) int {
		return cmp.Compare(rank(y.ID), rank(x.ID))
	})
	return list
}

func (c *Config) allMetadata(w http.ResponseWriter, _ *http.Request) {
	list := []json.RawMessage{}
	for _, o := range byPriority(c.Snapshot()) {
		list = append(list, metadata(o))
	}
	answer(w, http.StatusOK, list)
}

func (c *Config) oneMetadata(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("plugin")
	o, ok := c.Snapshot().Object(model.Key{Kind: model.KindPluginMetadata, ID: name})
	if !ok {
		answer(w, http.StatusNotFound, failure{fmt.Sprintf("plugin metadata[%s] not found", name)})
		return
	}
	answer(w, http.StatusOK, metadata(o))
}

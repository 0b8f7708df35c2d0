package apisix

import (
	"encoding/json"

	"weir/internal/model"
)

// NamedPlugins are the plugins that a document configures, as far as it can be
// read. ok is false if it has plugins and they cannot be read.
func NamedPlugins(raw []byte) (names []string, ok bool) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(raw, &doc) != nil {
		return nil, true
	}
	text, has := doc["plugins"]
	if !has {
		return nil, true
	}
	var confs map[string]json.RawMessage
	if json.Unmarshal(text, &confs) != nil || confs == nil {
		return nil, string(text) == "[]"
	}
	for name := range confs {
		names = append(names, name)
	}
	return names, true
}

// RouteOutline is what can be read of a route that Route refuses: where it
// stands and what it names, so that it can refuse in its place; nil if it is not
// known where that is.
func RouteOutline(id string, raw []byte) *model.Route {
	var doc map[string]json.RawMessage
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	r := &model.Route{ID: id, Plugins: model.Plugins{}}
	r.Paths = texts(doc["uri"], doc["uris"])
	if len(r.Paths) == 0 {
		return nil
	}
	r.Hosts = texts(doc["host"], doc["hosts"])
	r.Methods = texts(nil, doc["methods"])
	_ = json.Unmarshal(doc["priority"], &r.Priority)
	r.ServiceID, r.PluginConfigID = reference(doc["service_id"]), reference(doc["plugin_config_id"])
	names, ok := NamedPlugins(raw)
	if !ok {
		names = append(names, "") // no plugin of that name: it counts as unknown
	}
	for _, name := range names {
		r.Plugins[name] = json.RawMessage("{}")
	}
	return r
}

// texts are the strings among a single value and a list.
func texts(single, list json.RawMessage) []string {
	var out []string
	var s string
	if json.Unmarshal(single, &s) == nil && s != "" {
		out = append(out, s)
	}
	var items []json.RawMessage
	_ = json.Unmarshal(list, &items)
	for _, item := range items {
		if json.Unmarshal(item, &s) == nil && s != "" {
			out = append(out, s)
		}
	}
	return out
}

func reference(raw json.RawMessage) string {
	var i id
	if len(raw) == 0 || json.Unmarshal(raw, &i) != nil {
		return ""
	}
	return string(i)
}

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A side is one of what `weir bench ab` compares: a binary with its
// configuration.
type side struct {
	name   string
	binary string
	config object // of config.yaml
	rules  object // of apisix.yaml

	profiled bool // while it is measured
}

// An object is a mapping of a YAML document on its way to a gateway.
type object = map[string]any

// originMark stands for the address of the bench's origin in documents.
const originMark = "${{ORIGIN}}"

// defaultRules has one route without plugins, to which abPath leads.
const defaultRules = `
routes:
  - id: bench
    uri: ` + abPath + `
    upstream: {type: roundrobin, nodes: {"` + originMark + `": 1}}
`

const abPath = "/bench"

// The states of --plugin.
const (
	stateOff      = "off"
	stateReturn   = "return"
	stateComplete = "complete"
)

// neverMatches is a _meta.filter with which a plugin's functions are called and
// return at once: no method has this name.
const neverMatches = `[["request_method","==","NEVER"]]`

// sides are what the options name, the one that the others are compared with
// first.
func (o *abOptions) sides(originAddr string) ([]side, error) {
	switch {
	case o.plugin != "":
		return o.pluginSides(originAddr)
	case o.profiled:
		return o.profiledSides(originAddr)
	}
	var all []side
	for i, name := range []string{"A", "B"} {
		s, err := o.side(name, firstOf(o.files[i], o.base), firstOf(o.bins[i], o.bins[0]), originAddr)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (o *abOptions) profiledSides(originAddr string) ([]side, error) {
	var all []side
	for _, name := range []string{"alone", "profiled"} {
		s, err := o.side(name, o.base, o.bins[0], originAddr)
		if err != nil {
			return nil, err
		}
		s.profiled = name == "profiled"
		all = append(all, s)
	}
	return all, nil
}

func (o *abOptions) pluginSides(originAddr string) ([]side, error) {
	var conf object
	if err := json.Unmarshal([]byte(o.conf), &conf); err != nil || conf == nil {
		return nil, fmt.Errorf("--conf %s: want a JSON object: %w", o.conf, err)
	}
	var all []side
	for _, state := range o.states {
		s, err := o.side(state, o.base, o.bins[0], originAddr)
		if err != nil {
			return nil, err
		}
		if state != stateOff {
			if err := addPlugin(s.rules, o.plugin, inState(conf, state), o.global); err != nil {
				return nil, fmt.Errorf("%s: %w", firstOf(o.base, "the default document"), err)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// inState is a plugin's configuration in a state other than off.
func inState(conf object, state string) object {
	if state == stateComplete {
		return conf
	}
	conf = maps.Clone(conf)
	meta := object{}
	if have, ok := conf["_meta"].(object); ok {
		meta = maps.Clone(have)
	}
	var filter any
	_ = json.Unmarshal([]byte(neverMatches), &filter) // a constant
	meta["filter"] = filter
	conf["_meta"] = meta
	return conf
}

// addPlugin configures a plugin on every route of a document, or in a global
// rule of its own.
func addPlugin(rules object, name string, conf object, global bool) error {
	if global {
		have, _ := rules["global_rules"].([]any)
		rules["global_rules"] = append(have, object{"id": "bench_ab", "plugins": object{name: conf}})
		return nil
	}
	routes, _ := rules["routes"].([]any)
	if len(routes) == 0 {
		return errors.New("there is no route to put the plugin on")
	}
	for _, r := range routes {
		route, ok := r.(object)
		if !ok {
			return errors.New("a route is not a mapping")
		}
		plugins, ok := route["plugins"].(object)
		if !ok {
			plugins = object{}
			route["plugins"] = plugins
		}
		plugins[name] = conf
	}
	return nil
}

// side reads what one side consists of. file is an apisix.yaml, or a config.yaml
// that has one beside it; empty: the default document.
func (o *abOptions) side(name, file, binary, originAddr string) (side, error) {
	s := side{name: name, config: object{}}
	var err error
	if s.binary, err = binaryPath(binary); err != nil {
		return s, err
	}
	if file == "" {
		s.rules, err = parse("the default document", defaultRules, originAddr)
		return s, err
	}
	read := func(file string) (object, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		return parse(file, string(text), originAddr)
	}
	if s.rules, err = read(file); err != nil || !isConfig(s.rules) {
		return s, err
	}
	s.config = s.rules
	s.rules, err = read(filepath.Join(filepath.Dir(file), "apisix.yaml"))
	return s, err
}

func parse(name, text, originAddr string) (object, error) {
	var out object
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, originMark, originAddr)), &out); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// isConfig tells a config.yaml from an apisix.yaml.
func isConfig(doc object) bool {
	return slices.ContainsFunc([]string{"apisix", "deployment", "nginx_config", "plugin_attr", "weir"}, func(section string) bool {
		_, has := doc[section]
		return has
	})
}

// write puts the side's documents into dir. The gateway is to listen on port,
// and on nothing else.
//
// The Control API is on the second port, if it is asked for profiles.
func (s *side) write(dir string, ports []int) error {
	defaults := object{"nginx_config": object{"http": object{"enable_access_log": false}}}
	own := object{
		"apisix": object{
			"node_listen": []any{object{"ip": "127.0.0.1", "port": ports[0]}}, "enable_admin": false,
			"enable_ipv6": false, "enable_control": s.profiled, "control": object{"ip": "127.0.0.1", "port": ports[1]}, "ssl": object{"enable": false},
			"proxy_mode": "http", "stream_proxy": nil,
		},
		"plugin_attr": object{"prometheus": object{"enable_export_server": false}},
		"deployment":  object{"role": "data_plane", "role_data_plane": object{"config_provider": "yaml"}},
	}
	config := overlaid(overlaid(defaults, s.config), own)
	config["deployment"] = own["deployment"]
	if err := writeYAML(filepath.Join(dir, "config.yaml"), config, ""); err != nil {
		return err
	}
	return writeYAML(filepath.Join(dir, "apisix.yaml"), s.rules, "#END\n")
}

func writeYAML(path string, doc object, end string) error {
	text, err := yaml.Marshal(doc)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, end...), 0o600)
}

// overlaid is base with the values of over in their places; nil removes one.
func overlaid(base, over object) object {
	out := maps.Clone(base)
	for k, v := range over {
		below, isObject := v.(object)
		under, wasObject := out[k].(object)
		switch {
		case v == nil:
			delete(out, k)
		case isObject && wasObject:
			out[k] = overlaid(under, below)
		default:
			out[k] = v
		}
	}
	return out
}

// binaryPath is absolute, since gateways run in directories of their own; empty
// stands for this program.
func binaryPath(path string) (string, error) {
	if path == "" {
		return os.Executable()
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	return path, err
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

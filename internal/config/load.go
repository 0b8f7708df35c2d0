package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

//go:embed default.yaml
var defaults []byte

// DefaultFile is read when no file is named and it exists. With APISIX_PROFILE
// set to P in the environment it is conf/config-P.yaml.
const DefaultFile = "conf/config.yaml"

// Load reads the file at path, or DefaultFile if path is empty; environ is in
// the form of os.Environ. A named file must exist. The message of an error
// names the file and the key, never a value that came from the environment.
func Load(path string, environ []string) (*Config, error) {
	named := path != ""
	if !named {
		path = DefaultFile
		if p := newEnvironment(environ)["APISIX_PROFILE"]; p != "" {
			ext := filepath.Ext(path)
			path = strings.TrimSuffix(path, ext) + "-" + p + ext
		}
	}
	source, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && !named {
		return Parse("", nil, environ)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, source, environ)
}

// Parse is Load for text that was read already; name stands in messages and
// is empty when there is no file.
func Parse(name string, source []byte, environ []string) (*Config, error) {
	c, err := build(source, newEnvironment(environ))
	if err != nil {
		if name == "" {
			name = "configuration"
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.File = name
	return c, nil
}

func build(source []byte, env environment) (*Config, error) {
	user, err := parse(source)
	if err != nil {
		return nil, err
	}
	if err := env.substitute(user); err != nil {
		return nil, err
	}
	ignored := unused(user, reflect.TypeFor[Config](), "")
	more, err := env.override(user)
	if err != nil {
		return nil, err
	}
	host := user.at("deployment", "etcd", "host")
	c := &Config{
		Embedded: host == nil || host.kind == null,
		Ignored:  append(ignored, more...),
	}
	base, err := parse(defaults)
	if err != nil {
		return nil, err
	}
	unplace(base)
	c.Ignored = append(c.Ignored, unmoved(user, base, "")...)
	c.Ignored = append(c.Ignored, foreign(user.get("discovery"))...)
	if err := merge(base, user, ""); err != nil {
		return nil, err
	}
	for _, key := range []string{"plugins", "stream_plugins"} {
		if n := user.get(key); n != nil && n.kind == null {
			base.set(key, &node{kind: list}) // the list of all plugins is taken away
		}
	}
	if err := decode(base, reflect.ValueOf(c), ""); err != nil {
		return nil, err
	}
	return c, located(c.check(env), user)
}

// located adds to each error that begins with the path of a key the line of its value.
func located(err error, user *node) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range several.Unwrap() {
			errs = append(errs, located(e, user))
		}
		return errors.Join(errs...)
	}
	if err == nil {
		return nil
	}
	path, _, _ := strings.Cut(err.Error(), ":")
	if n := user.below(path); n != nil {
		return fmt.Errorf("%w%s", err, place(n))
	}
	return err
}

// unplace removes the lines of a tree that is not the user's file.
func unplace(n *node) {
	n.line = 0
	for _, c := range n.nodes {
		unplace(c)
	}
}

// override lays the variables that stand for keys over the user's table.
func (env environment) override(user *node) ([]Ignored, error) {
	if v := env["APISIX_DEPLOYMENT_ETCD_HOST"]; v != "" {
		var hosts []string
		if err := json.Unmarshal([]byte(v), &hosts); err != nil {
			return nil, errors.New("environment APISIX_DEPLOYMENT_ETCD_HOST is not a JSON array of texts")
		}
		n := &node{kind: list}
		for _, h := range hosts {
			n.nodes = append(n.nodes, &node{kind: text, text: h, hidden: true})
		}
		user.put(n, "deployment", "etcd", "host")
	}
	if v := env["APISIX_WORKER_PROCESSES"]; v != "" {
		user.put(scalar(v), "nginx_config", "worker_processes")
	}
	known := map[string]bool{"WEIR_ADMIN_KEY": true}
	for _, path := range leaves(reflect.TypeFor[Weir](), []string{"weir"}) {
		name := strings.ToUpper(strings.Join(path, "_"))
		known[name] = true
		if v, ok := env[name]; ok {
			user.put(scalar(v), path...)
		}
	}
	if v := env["WEIR_ADMIN_KEY"]; v != "" {
		key := &node{kind: table}
		key.set("name", scalar("admin"))
		key.set("key", &node{kind: text, text: v, hidden: true})
		key.set("role", scalar("admin"))
		user.put(&node{kind: list, nodes: []*node{key}}, "deployment", "admin", "admin_key")
	}
	var unknown []Ignored
	for name := range env {
		if strings.HasPrefix(name, "WEIR_") && !known[name] {
			unknown = append(unknown, Ignored{"environment " + name, "unknown"})
		}
	}
	return unknown, nil
}

// scalar is a value of the environment, typed as one that was substituted.
func scalar(v string) *node {
	n := &node{kind: text, text: "${{v}}"}
	if err := (environment{"v": v}).substitute(n); err != nil {
		return &node{kind: text, text: v, hidden: true}
	}
	return n
}

// leaves lists the paths of the keys of t that are not tables.
func leaves(t reflect.Type, path []string) [][]string {
	if t.Kind() != reflect.Struct {
		return [][]string{path}
	}
	var out [][]string
	for i := range t.NumField() {
		f := t.Field(i)
		out = append(out, leaves(f.Type, append(path[:len(path):len(path)], f.Tag.Get("conf")))...)
	}
	return out
}

package plugin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"weir/internal/schema"
)

// Meta is what a plugin says about itself.
type Meta struct {
	Name     string
	Priority int     // higher runs first; the numbers are APISIX's
	Version  float64 // as shown by the Admin API; 0 stands for 0.1
	Doc      string  // one sentence

	// Type is "auth" for plugins that authenticate a consumer, otherwise empty.
	Type string

	// Scope is "global" for plugins that concern the whole gateway (APISIX:
	// batch-requests, error-log-logger, node-status, server-info), otherwise empty.
	Scope string

	// Guard says that the plugin restricts who or what passes. A route whose
	// guard cannot run answers 503 and is never open. True for every Type "auth".
	Guard bool

	// Before are the 3scale policies that this one should stand before in a chain.
	Before []string

	// PreferRoute says that the copy of a global rule is not run where the route
	// has the plugin itself (APISIX: run_policy prefer_route).
	PreferRoute bool
}

// A Spec is a plugin that can be configured. It is immutable; the zero Spec is
// not useful.
type Spec struct {
	Meta

	pkg        string // import path
	config     *schema.Schema
	credential *schema.Schema
	metadata   *schema.Schema
	endpoints  func(Env) []Endpoint
	controls   []Control
	reword     func(raw json.RawMessage, err error) error
	group      func(raw json.RawMessage) string
	proto      func(raw json.RawMessage) string
	compile    func(raw json.RawMessage, env Env) (Phases, error)
	decode     func(raw json.RawMessage) (key string, cred any, err error)
	shared     bool
}

// Define makes a Spec from a compile function. C, a struct, is the
// configuration; package schema explains its tags. Define panics on a mistake in
// them: a plugin is code.
func Define[C any](m Meta, compile func(*C, Env) (Phases, error), opts ...Option) Spec {
	if m.Version == 0 {
		m.Version = 0.1
	}
	m.Guard = m.Guard || m.Type == "auth"
	config := schema.Of[C]().With("_meta", []byte(metaSchema), metaComment)
	s := Spec{Meta: m, config: config, pkg: packageOf(compile)}
	s.compile = func(raw json.RawMessage, env Env) (Phases, error) {
		c := new(C)
		if err := config.Decode(raw, c); err != nil {
			if s.reword != nil {
				err = s.reword(raw, err)
			}
			return Phases{}, err
		}
		return compile(c, env)
	}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// packageOf is the import path of the package that a function is written in.
func packageOf(function any) string {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	slash := strings.LastIndexByte(name, '/') + 1
	path, _, _ := strings.Cut(name[slash:], ".")
	return name[:slash] + path
}

// Package is the import path of the package that the plugin is written in.
func (s Spec) Package() string { return s.pkg }

// An Option extends a Spec.
type Option func(*Spec)

// Credential says that consumers hold a C for this plugin. key is what requests
// are matched by: the API key, the user name, the key id. checks look at what a
// schema cannot express; a string they see may be a reference to a secret.
func Credential[C any](key func(*C) string, checks ...func(*C) error) Option {
	held := schema.Of[C]()
	return func(s *Spec) {
		s.credential = held
		s.decode = func(raw json.RawMessage) (string, any, error) {
			c := new(C)
			if err := held.Decode(raw, c); err != nil {
				return "", nil, err
			}
			for _, check := range checks {
				if err := check(c); err != nil {
					return "", nil, err
				}
			}
			return key(c), c, nil
		}
	}
}

// Metadata says that the plugin has metadata of type M, one object for all of
// its configurations.
func Metadata[M any]() Option {
	described := schema.Of[M]()
	return func(s *Spec) { s.metadata = described }
}

// Reword says that what the schema finds wrong with a configuration is put into
// other words by f.
func Reword(f func(raw json.RawMessage, err error) error) Option {
	return func(s *Spec) { s.reword = f }
}

// Groups says that configurations may form groups, whose members the Admin API
// keeps equal: of returns the name of a configuration's group, empty: it has
// none.
func Groups(of func(raw json.RawMessage) string) Option {
	return func(s *Spec) { s.group = of }
}

// Group is the name of the group that a configuration belongs to, or empty.
func (s Spec) Group(raw json.RawMessage) string {
	if s.group == nil {
		return ""
	}
	return s.group(raw)
}

// Proto says that a configuration is compiled with a proto object, whose id of
// returns: it is compiled again when that changes. Env.Proto reads it.
func Proto(of func(raw json.RawMessage) string) Option {
	return func(s *Spec) { s.proto = of }
}

// Proto is the id of the proto object that a configuration is compiled with, or
// empty.
func (s Spec) Proto(raw json.RawMessage) string {
	if s.proto == nil {
		return ""
	}
	return s.proto(raw)
}

// DecodeMetadata reads Env.Metadata; absent metadata has only defaults.
func DecodeMetadata[M any](env Env) (*M, error) {
	raw := env.Metadata
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	m := new(M)
	if err := schema.Of[M]().Decode(raw, m); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return m, nil
}

// Endpoints says that the plugin offers public APIs. make is called once, when
// the gateway starts; Owner and Raw of its Env are empty.
func Endpoints(make func(Env) []Endpoint) Option {
	return func(s *Spec) { s.endpoints = make }
}

// Endpoints are the plugin's public APIs.
func (s Spec) Endpoints(env Env) []Endpoint {
	if s.endpoints == nil {
		return nil
	}
	return s.endpoints(env)
}

// Shared says that a configuration means the same wherever it stands: equal ones
// are compiled once, whoever carries them. A thousand routes with key-auth {} then
// have one key-auth, which is in the cache. Owner and Keep of its Env are empty, and
// it must not use Compile.
func Shared() Option { return func(s *Spec) { s.shared = true } }

// Shared says whether equal configurations may share what they compile to.
func (s Spec) Shared() bool { return s.shared }

// Controls says that the plugin adds to the Control API.
func Controls(list ...Control) Option {
	return func(s *Spec) { s.controls = list }
}

// Controls are the plugin's part of the Control API.
func (s Spec) Controls() []Control { return s.controls }

// MetadataSchema describes the plugin's metadata; nil: it has none.
func (s Spec) MetadataSchema() *schema.Schema { return s.metadata }

// ConfigSchema describes the configuration, _meta included.
func (s Spec) ConfigSchema() *schema.Schema { return s.config }

// CredentialSchema describes what consumers hold for the plugin; nil: nothing.
func (s Spec) CredentialSchema() *schema.Schema { return s.credential }

// Compile turns one configuration into phase functions. raw may have _meta,
// which is checked and otherwise ignored: acting on it is the plan's part.
func (s Spec) Compile(raw json.RawMessage, env Env) (Phases, error) {
	env.Raw = raw
	p, err := s.compile(raw, env)
	if err != nil {
		return Phases{}, s.refused(err)
	}
	return p, nil
}

// DecodeCredential checks what a consumer holds for the plugin and returns the
// key it is found by and a pointer to the Credential type. Only plugins with a
// CredentialSchema have credentials.
func (s Spec) DecodeCredential(raw json.RawMessage) (key string, cred any, err error) {
	if s.decode == nil {
		return "", nil, fmt.Errorf("plugin %s has no credentials", s.Name)
	}
	if key, cred, err = s.decode(raw); err != nil {
		return "", nil, s.refused(err)
	}
	return key, cred, nil
}

func (s Spec) refused(err error) error { return &ConfigError{s.Name, err} }

// A ConfigError says why a plugin's configuration or credential is refused, in
// the words of APISIX.
type ConfigError struct {
	Plugin string
	Err    error // without the name of the plugin
}

func (e *ConfigError) Error() string {
	return "failed to check the configuration of plugin " + e.Plugin + " err: " + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// What APISIX adds to the schema of every plugin, word for word, since clients
// recognise it.
const (
	metaComment = "this is a mark for our injected plugin schema"
	metaSchema  = `{
	"type": "object",
	"properties": {
		"disable": {"type": "boolean"},
		"error_response": {"oneOf": [{"type": "string"}, {"type": "object"}]},
		"priority": {"description": "priority of plugins by customized order", "type": "integer"},
		"filter": {"description": "filter determines whether the plugin needs to be executed at runtime", "type": "array"},
		"pre_function": {"description": "function to be executed in each phase before execution of plugins. The pre_function will have access to two arguments: ` + "`conf` and `ctx`" + `.", "type": "string"}
	},
	"additionalProperties": false
}`
)

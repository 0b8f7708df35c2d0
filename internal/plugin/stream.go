package plugin

import (
	"encoding/json"

	"weir/internal/schema"
)

// StreamCtx is one session at level 4: a TCP connection, or what one client of a
// UDP port sends and gets. The embedded Ctx has what variables and match
// expressions are made of (Peer, Client, Server, Route, To.Upstream, To.UpstreamID,
// Sent); its Request is empty and there is no Response.
type StreamCtx struct {
	Ctx

	Protocol string // TCP or UDP
	Listener string // address that the client connected to, as it is listened on
	SNI      string // name that the client asked for by TLS, in lower case; empty: none

	// Peek returns the first n bytes that the client sends and waits for them,
	// within a bound; they still go upstream. Of UDP there is the first datagram.
	// The bytes are valid until the next Peek. The engine sets it.
	Peek func(n int) ([]byte, error)
}

// Stream are the functions of one configured plugin of stream routes. A nil
// function costs nothing. What Phases says of keeping and blocking holds here too.
type Stream struct {
	// Preread runs when the route is known, before an upstream is chosen. A Reply
	// ends the session: its status is the session's, nothing of it is sent.
	Preread func(*StreamCtx) *Reply

	// BeforeProxy runs before each try to connect.
	BeforeProxy func(*StreamCtx) *Reply

	// Log runs after the last byte.
	Log func(*StreamCtx)

	// Close is called once, when no snapshot and no session uses this
	// configuration any more.
	Close func()
}

// A StreamSpec is a plugin that stream routes can configure. It is immutable.
type StreamSpec struct {
	Meta

	base    Spec
	compile func(raw json.RawMessage, env Env) (Stream, error)
}

// DefineStream is Define for a plugin of stream routes. A plugin that exists for
// both kinds of routes has two Specs, whose configurations may differ.
func DefineStream[C any](m Meta, compile func(*C, Env) (Stream, error), opts ...Option) StreamSpec {
	if m.Version == 0 {
		m.Version = 0.1
	}
	config := schema.Of[C]().With("_meta", []byte(metaSchema), metaComment)
	s := StreamSpec{Meta: m, base: Spec{Meta: m, config: config}}
	for _, o := range opts {
		o(&s.base)
	}
	reword := s.base.reword
	s.compile = func(raw json.RawMessage, env Env) (Stream, error) {
		c := new(C)
		if err := config.Decode(raw, c); err != nil {
			if reword != nil {
				err = reword(raw, err)
			}
			return Stream{}, err
		}
		return compile(c, env)
	}
	return s
}

// ConfigSchema describes the configuration, _meta included.
func (s StreamSpec) ConfigSchema() *schema.Schema { return s.base.config }

// MetadataSchema describes the plugin's metadata; nil: it has none.
func (s StreamSpec) MetadataSchema() *schema.Schema { return s.base.metadata }

// Secrets is s as far as it has secrets, for what opens them.
func (s StreamSpec) Secrets() Spec { return s.base }

// Describe describes the plugin.
func (s StreamSpec) Describe() Description { return s.base.Describe() }

// Compile turns one configuration into functions. raw may have _meta.
func (s StreamSpec) Compile(raw json.RawMessage, env Env) (Stream, error) {
	env.Raw = raw
	p, err := s.compile(raw, env)
	if err != nil {
		return Stream{}, &StreamConfigError{ConfigError{s.Name, err}}
	}
	return p, nil
}

// A StreamConfigError is a ConfigError in a stream route, which APISIX words
// differently.
type StreamConfigError struct{ ConfigError }

func (e *StreamConfigError) Error() string {
	return "failed to check the configuration of stream plugin [" + e.Plugin + "]: " + e.Err.Error()
}

// Unwrap returns the ConfigError.
func (e *StreamConfigError) Unwrap() error { return &e.ConfigError }

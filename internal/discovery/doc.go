// Package discovery follows the services that upstreams name in a registry.
//
// A Registry is one kind of registry (discovery_type) in one process. Each
// service in use is followed once, however many upstreams name it: what is
// found becomes its nodes in one step and reaches the upstreams through
// upstream.Service, as answers of DNS do. Nothing of a service is asked for or
// kept that no upstream uses. While a registry fails, the last good nodes stay.
//
// The packages below implement Backend, one for each kind.
package discovery

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"time"

	"weir/internal/model"
)

// A Node is an instance of a service, in the form of APISIX's dumps.
type Node struct {
	Host     string          `json:"host"` // address or name, IPv6 without brackets
	Port     int             `json:"port,omitempty"`
	Weight   int             `json:"weight"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// A Target is a service in a registry.
type Target struct {
	// Key tells it from others.
	Key string

	// Follow tells f about the service until ctx ends; it returns no earlier.
	Follow func(ctx context.Context, f *Feed)
}

// A Backend speaks to the registries of one kind.
type Backend interface {
	// Target returns what the service of an upstream stands for. It starts
	// nothing.
	Target(m *model.Upstream) (Target, error)

	// Close frees what is left when nothing is followed any more.
	Close()
}

// Env is what registries may use of the outside.
type Env struct {
	Log *slog.Logger // nil: none

	// Roots are trusted where certificates are verified; nil: the system's.
	Roots *x509.CertPool

	// Retry is the first pause after a failure (1 s). Each further one is twice
	// as long, at most 30 times that.
	Retry time.Duration

	// Linger is how long a service is still followed after its last upstream is
	// gone (10 s): a changed upstream then finds it.
	Linger time.Duration

	// Rand returns numbers in [0, 1) that spread pauses; nil: at random.
	Rand func() float64
}

// Filled is e with its defaults.
func (e Env) Filled() Env {
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Retry == 0 {
		e.Retry = time.Second
	}
	if e.Linger == 0 {
		e.Linger = 10 * time.Second
	}
	if e.Rand == nil {
		e.Rand = rand.Float64
	}
	return e
}

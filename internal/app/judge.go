package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"weir/internal/config"
	"weir/internal/keyring"
	"weir/internal/model"
	"weir/internal/plugins"
	"weir/internal/snapshot"
	"weir/internal/source/etcd"
	"weir/internal/transfer"
	"weir/internal/upstream"
)

// A Judge says what of a configuration would run in a gateway with the given
// config.yaml. It compiles and opens no address.
type Judge struct{ g *Gateway }

// NewJudge makes a Judge. Close ends it.
func NewJudge(c *config.Config) (*Judge, error) {
	g := &Gateway{Options: Options{Config: c}, log: slog.New(slog.DiscardHandler)}
	if err := g.openState(context.Background()); err != nil {
		return nil, err
	}
	return &Judge{g}, nil
}

// Close frees what was compiled.
func (j *Judge) Close() {
	_ = j.g.Stop(context.Background()) // nothing of it can fail: no address is open
}

// Check compiles one object by itself.
func (j *Judge) Check(o model.Object) error { return j.g.state.Check(o) }

// Verdict compiles a whole configuration. It is called once.
func (j *Judge) Verdict(objects []model.Object) transfer.Verdict {
	j.g.state.Apply(model.Delta{Revision: int64(len(objects)) + 1, Put: objects})
	var v transfer.Verdict
	seen := map[transfer.Fault]bool{}
	add := func(key model.Key, err error) {
		for _, e := range apart(err) {
			f := transfer.Fault{Key: key, Text: e.Error(), Unsupported: errors.Is(e, upstream.ErrUnsupported)}
			if !seen[f] {
				seen[f] = true
				v.Faults = append(v.Faults, f)
			}
		}
	}
	for path, err := range j.g.state.Current().Faults {
		if key, ok := etcd.ObjectKey(path); ok {
			add(key, err)
		}
	}
	// Check looks at what is stored but runs nowhere, too.
	for _, o := range objects {
		if err := j.Check(o); err != nil {
			add(o.Key, err)
		}
	}
	v.Idle = idle(j.g.state)
	return v
}

// apart lists the errors that errors.Join made one of.
func apart(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, apart(e)...)
	}
	return out
}

// idle are the kinds that this version keeps and that nothing runs by.
func idle(state *snapshot.Applier) []model.Kind {
	kinds := []model.Kind{model.KindSSL, model.KindStreamRoute, model.KindProto, model.KindSecret, model.KindCostDecoration}
	compiled := state.Work().Compiled
	return slices.DeleteFunc(kinds, func(k model.Kind) bool { return compiled[k.Dir()] > 0 })
}

// Schemas know the documents of this build, and their secrets by the
// configuration's keyring.
func Schemas(c *config.Config) (*transfer.Schemas, error) {
	d := c.APISIX.DataEncryption
	keys := make([]string, 0, len(d.Keyring))
	for _, k := range d.Keyring {
		keys = append(keys, k.Reveal())
	}
	ring, err := keyring.New(keys)
	if err != nil {
		return nil, fmt.Errorf("apisix.data_encryption.keyring: %w", err)
	}
	built := map[string]transfer.Plugin{}
	for _, s := range plugins.All() {
		built[s.Name] = transfer.Plugin{Config: s.ConfigSchema(), Credential: s.CredentialSchema(), Metadata: s.MetadataSchema()}
	}
	return transfer.NewSchemas(built, ring, d.Enable), nil
}

// EtcdConfig is how the configuration reaches its etcd, or, where Weir runs the
// store itself, the address at which that listens.
func EtcdConfig(c *config.Config) (etcd.Config, error) {
	e := &c.Deployment.Etcd
	cfg := etcd.Config{Endpoints: e.Host, Prefix: e.Prefix, User: e.User, Password: e.Password.Reveal()}
	if c.Embedded {
		cfg.Endpoints, cfg.User, cfg.Password = nil, "", ""
	}
	var err error
	cfg.TLS, err = etcdTLS(c, slog.New(slog.DiscardHandler))
	return cfg, err
}

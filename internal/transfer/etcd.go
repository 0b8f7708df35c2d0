package transfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/etcd"
)

// EtcdConfig says where an etcd is.
type EtcdConfig struct {
	etcd.Config

	// Schemas seal secrets before they are written.
	Schemas *Schemas

	Now func() time.Time // nil: time.Now
}

// An Etcd is a configuration store, of Weir or of APISIX.
type Etcd struct {
	cfg   EtcdConfig
	store *etcd.Store
}

// OpenEtcd makes a client. It does not connect.
func OpenEtcd(cfg EtcdConfig) (*Etcd, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Prefix == "" {
		cfg.Prefix = defaultPrefix
	}
	store, err := etcd.Open(cfg.Config)
	if err != nil {
		return nil, err
	}
	return &Etcd{cfg, store}, nil
}

// Close ends the connection.
func (e *Etcd) Close() error { return e.store.Close() }

// String names the place in messages, without the password.
func (e *Etcd) String() string {
	var hosts []string
	for _, endpoint := range e.cfg.Endpoints {
		if u, err := url.Parse(endpoint); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return "etcd://" + strings.Join(hosts, ",") + e.cfg.Prefix
}

// Read reads everything below the prefix, as of one revision.
func (e *Etcd) Read(ctx context.Context) (*State, error) {
	if err := e.reach(ctx); err != nil {
		return nil, err
	}
	list, _, err := e.store.List(ctx, "")
	if err != nil {
		return nil, e.failed(err)
	}
	s := newState()
	prefix := strings.TrimRight(e.cfg.Prefix, "/") + "/"
	for _, kv := range list {
		s.stored(strings.TrimPrefix(kv.Key, prefix), kv.Value)
	}
	return s, nil
}

// reach fails soon, and says why, if nobody listens: the client would try until
// its time is over.
func (e *Etcd) reach(ctx context.Context) error {
	var first error
	for _, endpoint := range e.cfg.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Port() == "" {
			return nil // the client's business
		}
		const patience = 5 * time.Second
		dialer := net.Dialer{Timeout: patience}
		c, err := dialer.DialContext(ctx, "tcp", u.Host)
		if err == nil {
			return c.Close()
		}
		if first == nil {
			first = err
		}
	}
	return &Unreachable{e.String(), first}
}

// failed tells a store that does not answer from one that refuses.
func (e *Etcd) failed(err error) error {
	switch {
	case errors.Is(err, etcd.ErrUnavailable):
		return &Unreachable{e.String(), err}
	case errors.Is(err, etcd.ErrChanged):
		return &Refusal{Text: "somebody else wrote it meanwhile"}
	case errors.Is(err, etcd.ErrTooLarge):
		return &Refusal{Text: err.Error()}
	}
	return err
}

// Put writes an object as the Admin API would: with its id, times and sealed
// secrets. An object that is there keeps its time of creation.
func (e *Etcd) Put(ctx context.Context, key model.Key, v *document.Value) error {
	v = clone(v)
	e.cfg.Schemas.Seal(key, v)
	at := "/" + key.String()
	prev, _, err := e.store.Get(ctx, at)
	if err != nil {
		return e.failed(err)
	}
	if key.Kind != model.KindConsumer {
		v.SetFirst("id", document.NewString(storedID(key)))
	}
	modified := int64(0)
	now := document.NewInt(e.cfg.Now().Unix())
	created := now
	if prev != nil {
		modified = prev.Modified
		if old, err := document.Parse(prev.Value); err == nil && old.Get("create_time") != nil {
			created = old.Get("create_time")
		}
	}
	if key.Kind != model.KindPluginMetadata {
		v.Set("create_time", created)
		v.Set("update_time", now)
	}
	_, err = e.store.Put(ctx, at, v.Append(nil), etcd.PutOptions{IfModified: &modified})
	return e.failed(err)
}

// storedID is the member id of a stored object: credentials have their own part
// alone, secrets the manager's, too (apisix-admin.md §7.1).
func storedID(key model.Key) string {
	if key.Kind == model.KindCredential || key.Kind == model.KindCostDecoration {
		return key.ID[strings.LastIndexByte(key.ID, '/')+1:]
	}
	return key.ID
}

// Delete removes an object and what lies below it.
func (e *Etcd) Delete(ctx context.Context, key model.Key) error {
	var below []string
	switch key.Kind {
	case model.KindConsumer:
		below = append(below, fmt.Sprintf("/%s/%s/", key, model.KindCredential.Dir()))
	case model.KindService:
		below = append(below, fmt.Sprintf("/%s/%s/", key, model.KindCostDecoration.Dir()))
	}
	_, err := e.store.Delete(ctx, "/"+key.String(), below...)
	return e.failed(err)
}

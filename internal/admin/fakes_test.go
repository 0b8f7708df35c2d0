package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/keyring"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/source/etcd"
)

// memory is a store in a map.
type memory struct {
	mu       sync.Mutex
	revision int64
	kvs      map[string]etcd.KV
	broken   error
	before   func() // each Put
}

const prefix = "/apisix"

func (m *memory) Get(_ context.Context, key string) (*etcd.KV, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kv, ok := m.kvs[prefix+key]
	if !ok || m.broken != nil {
		return nil, m.revision, m.broken
	}
	return &kv, m.revision, nil
}

func (m *memory) List(_ context.Context, dir string) ([]etcd.KV, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []etcd.KV
	for k, kv := range m.kvs {
		if strings.HasPrefix(k, prefix+dir+"/") {
			out = append(out, kv)
		}
	}
	slices.SortFunc(out, func(x, y etcd.KV) int { return strings.Compare(x.Key, y.Key) })
	return out, m.revision, m.broken
}

func (m *memory) Put(_ context.Context, key string, value []byte, opt etcd.PutOptions) (etcd.PutResult, error) {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, there := m.kvs[prefix+key]
	if m.broken != nil {
		return etcd.PutResult{}, m.broken
	}
	if opt.IfModified != nil && *opt.IfModified != old.Modified {
		return etcd.PutResult{}, etcd.ErrChanged
	}
	for _, other := range opt.IfThere {
		if _, there := m.kvs[prefix+other]; !there {
			return etcd.PutResult{}, etcd.ErrChanged
		}
	}
	m.revision++
	kv := etcd.KV{Key: prefix + key, Value: slices.Clone(value), Created: m.revision, Modified: m.revision}
	if there {
		kv.Created = old.Created
	}
	if m.kvs == nil {
		m.kvs = map[string]etcd.KV{}
	}
	m.kvs[kv.Key] = kv
	return etcd.PutResult{Revision: m.revision, Created: !there}, nil
}

func (m *memory) Delete(_ context.Context, key string, also ...string) (etcd.DeleteResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return etcd.DeleteResult{}, m.broken
	}
	_, there := m.kvs[prefix+key]
	delete(m.kvs, prefix+key)
	for k := range m.kvs {
		if slices.ContainsFunc(also, func(p string) bool { return strings.HasPrefix(k, prefix+p) }) {
			delete(m.kvs, k)
		}
	}
	m.revision++
	return etcd.DeleteResult{Revision: m.revision, Deleted: there}, nil
}

func (m *memory) NextID(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	return m.revision, m.broken
}

// stored is the value of a key as it lies in the store.
func (m *memory) stored(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.kvs[prefix+key].Value)
}

// compiler is an applier that compiles plugins and is live at once, unless it
// is stuck.
type compiler struct {
	specs []plugin.Spec
	stuck bool
}

func (c *compiler) Wait(ctx context.Context, _ int64) error {
	if c.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *compiler) Check(o model.Object) error {
	v, err := document.Parse(o.Raw)
	if err != nil {
		return err
	}
	plugins := v.Get("plugins")
	if plugins == nil {
		return nil
	}
	for _, m := range plugins.Members {
		i := slices.IndexFunc(c.specs, func(s plugin.Spec) bool { return s.Name == m.Name })
		held := (o.Kind == model.KindConsumer || o.Kind == model.KindCredential) && c.specs[i].CredentialSchema() != nil
		if held {
			_, _, err = c.specs[i].DecodeCredential(m.Value.Append(nil))
		} else {
			_, err = c.specs[i].Compile(m.Value.Append(nil), plugin.Env{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// view is what the store holds, decrypted.
type view struct {
	store *memory
	ring  *keyring.Ring
}

func (v view) each(f func(model.Key, *document.Value)) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range v.store.kvs {
			if !yield(k) {
				return
			}
		}
	}) {
		key, ok := etcd.ObjectKey(strings.TrimPrefix(k, prefix+"/"))
		doc, err := document.Parse(v.store.kvs[k].Value)
		if ok && err == nil {
			f(key, doc)
		}
	}
}

func (v view) Mismatch(model.Object) error { return nil }

func (v view) Users(of model.Key) []model.Use {
	var uses []model.Use
	v.each(func(by model.Key, doc *document.Value) {
		members := map[model.Kind]string{model.KindService: "service_id", model.KindUpstream: "upstream_id", model.KindConsumerGroup: "group_id", model.KindPluginConfig: "plugin_config_id"}
		if id, ok := doc.Get(members[of.Kind]).Scalar(); ok && id == of.ID {
			uses = append(uses, model.Use{By: by})
		}
		split := dotted(doc, "plugins.traffic-split.rules")
		if of.Kind != model.KindUpstream || split == nil {
			return
		}
		for _, rule := range split.Items {
			for _, w := range rule.Get("weighted_upstreams").Items {
				if id, ok := w.Get("upstream_id").Scalar(); ok && id == of.ID {
					uses = append(uses, model.Use{By: by, Plugin: "traffic-split"})
				}
			}
		}
	})
	return uses
}

func (v view) Owner(name, key string) (consumer, credential string, ok bool) {
	v.each(func(k model.Key, doc *document.Value) {
		held := doc.Get("plugins").Get(name).Get(keyMember(name))
		if held == nil || ok {
			return
		}
		if plain, _ := v.ring.Decrypt(held.Text); plain != key {
			return
		}
		consumer, credential, _ = strings.Cut(k.ID, "/credentials/")
		ok = true
	})
	return consumer, credential, ok
}

type keyAuth struct {
	Header string `json:"header" schema:"default=apikey" doc:"Header with the key."`
}

type heldKey struct {
	Key string `json:"key" schema:"required,secret" doc:"The key."`
}

type limitCount struct {
	Count int `json:"count" schema:"required,min=1" doc:"Requests per window."`
}

type split struct {
	Rules []struct {
		Weighted []struct {
			ID string `json:"upstream_id" doc:"Upstream."`
		} `json:"weighted_upstreams" doc:"Upstreams."`
	} `json:"rules" doc:"Rules."`
}

type keep struct {
	Secrets []struct {
		Value string `json:"value" schema:"secret" doc:"A secret."`
	} `json:"secrets" doc:"Secrets."`
}

func testPlugins() []plugin.Spec {
	return []plugin.Spec{
		plugin.Define(plugin.Meta{Name: "limit-count", Priority: 1002}, func(*limitCount, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil }),
		plugin.Define(plugin.Meta{Name: "key-auth", Priority: 2500, Type: "auth"}, func(*keyAuth, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil },
			plugin.Credential(func(c *heldKey) string { return c.Key })),
		plugin.Define(plugin.Meta{Name: "keep"}, func(*keep, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil }),
		plugin.Define(plugin.Meta{Name: "traffic-split", Priority: 966}, func(*split, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil }),
	}
}

const adminKey, viewerKey = "edd1c9f034335f136f87ad84b625c8f1", "4054f7cf07e344346cd3f287985e76a2"

// a bench is an API with fakes around it.
type bench struct {
	api     *API
	store   *memory
	applier *compiler
	now     int64
	changes []Change
}

func newBench(t testing.TB, change func(*Config, *Deps)) *bench {
	t.Helper()
	ring, err := keyring.New([]string{"qeddd145sfvddff3", "edd1c9f0985e76a2"})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{store: &memory{}, applier: &compiler{specs: testPlugins()}, now: 1000}
	cfg := Config{
		Keys:        []Key{{"empty", "", "admin"}, {"admin", adminKey, "admin"}, {"viewer", viewerKey, "viewer"}},
		KeyRequired: true, CORS: true, Version: "v3", Server: "Weir", Prefix: prefix, EncryptFields: true,
	}
	deps := Deps{
		Store: b.store, Applier: b.applier, View: func() View { return view{b.store, ring} }, Plugins: b.applier.specs, Ring: ring,
		Checker: apisix.New(apisix.Options{OpenKey: ring.OpenKey, Vars: func(e json.RawMessage) error {
			if strings.Contains(string(e), `"="`) {
				return errors.New("invalid operator '='")
			}
			return nil
		}}),
		Now:    func() time.Time { return time.Unix(b.now, 0) },
		Record: func(c Change) { b.changes = append(b.changes, c) },
	}
	if change != nil {
		change(&cfg, &deps)
	}
	b.api = New(cfg, deps)
	return b
}

// send is a call with the administrator's key.
func (b *bench) send(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:9180"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-API-KEY", adminKey)
	return b.serve(r)
}

func (b *bench) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	return w
}

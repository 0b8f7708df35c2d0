package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/discovery"
	"weir/internal/model"
)

// New makes the registry of raw, discovery.kubernetes of config.yaml.
func New(raw json.RawMessage, env discovery.Env) (*discovery.Registry, error) {
	list, shown, err := parse(raw)
	if err != nil {
		return nil, err
	}
	b := &clusters{byID: map[string]*cluster{}}
	for _, c := range list {
		if b.byID[c.ID], err = newCluster(&c, env); err != nil {
			return nil, err
		}
	}
	return discovery.New(discovery.Config{Kind: kind, Backend: b, Env: env, Shown: shown, Show: b.show}), nil
}

// clusters is the discovery.Backend. A single cluster has no id.
type clusters struct{ byID map[string]*cluster }

// Close implements discovery.Backend.
func (b *clusters) Close() {
	for _, c := range b.byID {
		c.client.Close()
	}
}

// A service is a port of one in a cluster.
type service struct{ id, namespace, name, port string }

// split reads namespace/name:port or, where clusters have ids, with ID/ before.
func (b *clusters) split(text string) (s service, err error) {
	path, port, ok := cutLast(text, ":")
	if _, single := b.byID[""]; !single && ok {
		s.id, path, ok = strings.Cut(path, "/")
	}
	namespace, name, slash := strings.Cut(path, "/")
	if !ok || !slash || namespace == "" || name == "" || port == "" || strings.Contains(name, "/") {
		return s, errors.New("get unexpected upstream service_name: " + text)
	}
	s.namespace, s.name, s.port = namespace, name, port
	return s, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Target implements discovery.Backend.
func (b *clusters) Target(m *model.Upstream) (discovery.Target, error) {
	s, err := b.split(m.ServiceName)
	if err != nil {
		return discovery.Target{}, err
	}
	c := b.byID[s.id]
	if c == nil {
		return discovery.Target{}, fmt.Errorf("there is no cluster with the id %q", s.id)
	}
	return discovery.Target{Key: m.ServiceName, Follow: func(ctx context.Context, f *discovery.Feed) {
		if c.allows(s.namespace) {
			c.follow(ctx, s, f)
			return
		}
		f.Set(nil)
		<-ctx.Done()
	}}, nil
}

// The parts of a dump.
type (
	shownCluster struct {
		ID        string         `json:"id,omitempty"`
		Endpoints []shownService `json:"endpoints"`
	}
	shownService struct {
		Name  string `json:"name"`  // namespace/name
		Value string `json:"value"` // JSON: nodes by port
	}
)

// show is APISIX's form of a dump.
func (b *clusters) show(config json.RawMessage, services map[string][]discovery.Node) any {
	byCluster := map[string]map[string]map[string][]discovery.Node{}
	for key, nodes := range services {
		s, err := b.split(key)
		if err != nil {
			continue
		}
		if byCluster[s.id] == nil {
			byCluster[s.id] = map[string]map[string][]discovery.Node{}
		}
		name := s.namespace + "/" + s.name
		if byCluster[s.id][name] == nil {
			byCluster[s.id][name] = map[string][]discovery.Node{}
		}
		byCluster[s.id][name][s.port] = nodes
	}
	list := []shownCluster{}
	for _, id := range slices.Sorted(maps.Keys(byCluster)) {
		c := shownCluster{ID: id}
		for _, name := range slices.Sorted(maps.Keys(byCluster[id])) {
			value, _ := json.Marshal(byCluster[id][name]) // there is nothing in it that cannot be
			c.Endpoints = append(c.Endpoints, shownService{name, string(value)})
		}
		list = append(list, c)
	}
	return struct {
		Config    json.RawMessage `json:"config"`
		Endpoints []shownCluster  `json:"endpoints"`
	}{config, list}
}

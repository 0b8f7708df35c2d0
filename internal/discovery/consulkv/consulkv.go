// Package consulkv discovers nodes in Consul's key-value store (discovery_type
// consul_kv): the node HOST:PORT of a service is the key
// PREFIX/SERVICE/HOST:PORT, whose value may have its weight.
package consulkv

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/discovery"
	"weir/internal/discovery/consul"
	"weir/internal/model"
)

const kind = "consul_kv"

// Config is APISIX's discovery.consul_kv.
type Config struct {
	consul.Settings
	Prefix   string   `json:"prefix" schema:"default=upstreams" doc:"Beginning of all keys."`
	SkipKeys []string `json:"skip_keys" schema:"minItems=1" doc:"Services that are not there: prefix and name, with a / behind."`
}

// New makes the registry of raw, discovery.consul_kv of config.yaml.
func New(raw json.RawMessage, env discovery.Env) (*discovery.Registry, error) {
	c, shown, err := discovery.Parse[Config](raw)
	if err != nil {
		return nil, err
	}
	agent, err := consul.NewAgent(&c.Settings, env)
	if err != nil {
		return nil, err
	}
	b := &store{Agent: agent, config: c, log: env.Filled().Log}
	if shown, err = discovery.Hide(shown, "token"); err != nil {
		return nil, err
	}
	return discovery.New(c.Registry(kind, b, shown, env)), nil
}

// store is the discovery.Backend.
type store struct {
	*consul.Agent
	config Config
	log    *slog.Logger
}

// Target implements discovery.Backend. A service is the URL of its keys:
// http://address:port/v1/kv/PREFIX/SERVICE/.
func (b *store) Target(m *model.Upstream) (discovery.Target, error) {
	service, follow := m.ServiceName, b.none
	i := slices.IndexFunc(b.config.Servers, func(s string) bool { return strings.HasPrefix(service, s+"/v1/kv/") })
	if i >= 0 {
		server := b.config.Servers[i]
		dir := strings.TrimPrefix(service, server+"/v1/kv/")
		if strings.HasPrefix(dir, b.config.Prefix+"/") && strings.HasSuffix(dir, "/") && !slices.Contains(b.config.SkipKeys, dir) {
			follow = func(ctx context.Context, f *discovery.Feed) { b.follow(ctx, server, dir, f) }
		}
	}
	return discovery.Target{Key: service, Follow: follow}, nil
}

// none follows a service that no configured server can have. It may be known
// from the dump of a gateway that had other servers.
func (b *store) none(ctx context.Context, f *discovery.Feed) {
	if !f.Restored() {
		f.Set(nil)
	}
	<-ctx.Done()
}

func (b *store) follow(ctx context.Context, server, dir string, f *discovery.Feed) {
	b.Watch(ctx, consul.Query{
		Server: server, Path: "/v1/kv/" + escape(dir), Args: url.Values{"recurse": {"true"}}, Missing: true,
		Read: func(answer json.RawMessage) error {
			nodes, err := b.nodes(answer, dir)
			if err == nil {
				f.Set(nodes)
			}
			return err
		},
		Fail: f.Fail,
	})
}

// escape is a path of keys in a URL.
func escape(dir string) string {
	parts := strings.Split(dir, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// A pair is a key with its value (base64 in JSON).
type pair struct {
	Key   string
	Value []byte
}

// A value is what is said of a node. A check_status of false, or "false", takes
// it out.
type value struct {
	Weight      *json.Number    `json:"weight"`
	CheckStatus json.RawMessage `json:"check_status"`
}

// nodes are those of the keys directly in dir. A key or value that means nothing
// does not keep the others out.
func (b *store) nodes(answer json.RawMessage, dir string) ([]discovery.Node, error) {
	if answer == nil {
		return nil, nil
	}
	var pairs []pair
	if err := json.Unmarshal(answer, &pairs); err != nil {
		return nil, fmt.Errorf("keys of %s: %w", dir, err)
	}
	var nodes []discovery.Node
	for _, p := range pairs {
		name, ok := strings.CutPrefix(p.Key, dir)
		if !ok || name == "" || strings.Contains(name, "/") {
			continue
		}
		n, in, err := b.node(name, p.Value)
		switch {
		case err != nil:
			b.log.Warn("a node in Consul cannot be used", "key", p.Key, "err", err)
		case in:
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// node reads one node; in is false if it is taken out.
func (b *store) node(name string, raw []byte) (n discovery.Node, in bool, err error) {
	colon := strings.LastIndexByte(name, ':')
	if colon <= 0 {
		return n, false, fmt.Errorf("%q is not host:port", name)
	}
	port, err := strconv.ParseUint(name[colon+1:], 10, 16)
	if err != nil {
		return n, false, fmt.Errorf("%q is not host:port", name)
	}
	var v value
	if err := json.Unmarshal(raw, &v); err != nil {
		return n, false, fmt.Errorf("value: %w", err)
	}
	if s := string(v.CheckStatus); s == "false" || s == `"false"` {
		return n, false, nil
	}
	n = discovery.Node{Host: name[:colon], Port: int(port), Weight: b.config.Weight}
	if v.Weight != nil {
		if n.Weight, err = strconv.Atoi(v.Weight.String()); err != nil {
			return n, false, fmt.Errorf("weight: %w", err)
		}
	}
	return n, true, nil
}

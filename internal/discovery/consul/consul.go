package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"weir/internal/discovery"
	"weir/internal/model"
)

const kind = "consul"

// Config is APISIX's discovery.consul.
type Config struct {
	Settings
	SharedSize   string   `json:"shared_size" schema:"default=64m,pattern=^[1-9][0-9]*m$" doc:"Without meaning here."`
	SortType     string   `json:"sort_type" schema:"enum=origin|host_sort|port_sort|combine_sort,default=origin" doc:"Order of nodes."`
	SkipServices []string `json:"skip_services" schema:"minItems=1" doc:"Services that are not there."`
}

// New makes the registry of raw, discovery.consul of config.yaml.
func New(raw json.RawMessage, env discovery.Env) (*discovery.Registry, error) {
	c, shown, err := discovery.Parse[Config](raw)
	if err != nil {
		return nil, err
	}
	agent, err := NewAgent(&c.Settings, env)
	if err != nil {
		return nil, err
	}
	b := &catalog{Agent: agent, config: c, skip: append(c.SkipServices, "consul")}
	if shown, err = discovery.Hide(shown, "token"); err != nil {
		return nil, err
	}
	return discovery.New(c.Registry(kind, b, shown, env)), nil
}

// catalog is the discovery.Backend.
type catalog struct {
	*Agent
	config Config
	skip   []string
}

// Target implements discovery.Backend.
func (b *catalog) Target(m *model.Upstream) (discovery.Target, error) {
	service := m.ServiceName
	follow := func(ctx context.Context, f *discovery.Feed) { b.follow(ctx, service, f) }
	if slices.Contains(b.skip, service) {
		follow = func(ctx context.Context, f *discovery.Feed) {
			f.Set(nil)
			<-ctx.Done()
		}
	}
	return discovery.Target{Key: service, Follow: follow}, nil
}

// follow watches the service in all servers: they may be of different clusters.
func (b *catalog) follow(ctx context.Context, service string, f *discovery.Feed) {
	v := newView(f, len(b.config.Servers))
	done := make(chan struct{})
	for i, server := range b.config.Servers {
		q := Query{
			Server: server, Path: "/v1/health/service/" + url.PathEscape(service),
			Args: url.Values{"passing": {"true"}},
			Read: func(answer json.RawMessage) error {
				nodes, err := b.nodes(answer, service)
				if err == nil {
					v.set(i, nodes)
				}
				return err
			},
			Fail: func(err error) { v.fail(i, err) },
		}
		go func() {
			b.Watch(ctx, q)
			done <- struct{}{}
		}()
	}
	for range b.config.Servers {
		<-done
	}
}

// An instance is what Consul's /v1/health/service tells of one.
type instance struct {
	Node struct{ Address string }

	// Service is null for an instance that is just being removed.
	Service *struct {
		Address string
		Port    int
	}
}

// defaultPort is the port of instances without one (APISIX's).
const defaultPort = 80

func (b *catalog) nodes(answer json.RawMessage, service string) ([]discovery.Node, error) {
	var instances []instance
	if err := json.Unmarshal(answer, &instances); err != nil {
		return nil, fmt.Errorf("health of service %s: %w", service, err)
	}
	var nodes []discovery.Node
	seen := make(map[string]bool, len(instances))
	for _, i := range instances {
		if i.Service == nil {
			b.env.Log.Warn("invalid consul service entry without Service field, skip it", "service", service)
			continue
		}
		n := discovery.Node{
			Host: cmp.Or(i.Service.Address, i.Node.Address), Port: cmp.Or(i.Service.Port, defaultPort), Weight: b.config.Weight,
		}
		if at := net.JoinHostPort(n.Host, strconv.Itoa(n.Port)); !seen[at] {
			seen[at] = true
			nodes = append(nodes, n)
		}
	}
	sortNodes(nodes, b.config.SortType)
	return nodes, nil
}

func sortNodes(nodes []discovery.Node, by string) {
	byHost := func(a, b discovery.Node) int { return cmp.Compare(a.Host, b.Host) }
	byPort := func(a, b discovery.Node) int { return cmp.Compare(a.Port, b.Port) }
	switch by {
	case "host_sort":
		slices.SortStableFunc(nodes, byHost)
	case "port_sort":
		slices.SortStableFunc(nodes, byPort)
	case "combine_sort":
		slices.SortFunc(nodes, discovery.Compare)
	}
}

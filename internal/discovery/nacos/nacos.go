// Package nacos discovers services of Nacos (discovery_type nacos) by asking for
// their instances every fetch_interval (Nacos Open API, ns/instance/list).
package nacos

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/internal/discovery"
	"weir/internal/model"
	"weir/internal/schema"
)

const kind = "nacos"

// Config is APISIX's discovery.nacos.
type Config struct {
	Host          []string `json:"host" schema:"required,minItems=1,each.minLen=2,each.maxLen=100,each.pattern=^http(s)?:\\/\\/([a-zA-Z0-9-_.]+:.+\\@)?[a-zA-Z0-9-_.:]+$" doc:"Servers, perhaps with user:password@."`
	FetchInterval int      `json:"fetch_interval" schema:"min=1,default=30" doc:"Seconds between queries about a service."`
	Prefix        string   `json:"prefix" schema:"maxLen=100,default=/nacos/v1/,pattern=^[\\/a-zA-Z0-9-_.]+$" doc:"Path of the Open API."`
	Weight        int      `json:"weight" schema:"min=1,default=100" doc:"Weight of instances that have none."`
	Timeout       Timeout  `json:"timeout" schema:"default={\"connect\":2000,\"send\":2000,\"read\":5000}" doc:"Time-outs in milliseconds."`
	AccessKey     string   `json:"access_key" schema:"default=" doc:"Access key of a cloud's Nacos."`
	SecretKey     string   `json:"secret_key" schema:"default=" doc:"Secret key of a cloud's Nacos."`
}

// Timeout bounds queries, in milliseconds.
type Timeout struct {
	Connect int `json:"connect" schema:"min=1,default=2000" doc:"To connect."`
	Send    int `json:"send" schema:"min=1,default=2000" doc:"To send."`
	Read    int `json:"read" schema:"min=1,default=5000" doc:"Until the answer is read."`
}

// atOnce is how many queries are under way at a time.
const atOnce = 32

// New makes the registry of raw, discovery.nacos of config.yaml.
func New(raw json.RawMessage, env discovery.Env) (*discovery.Registry, error) {
	c, _, err := discovery.Parse[Config](raw)
	if err != nil {
		return nil, err
	}
	return discovery.New(discovery.Config{Kind: kind, Backend: newNaming(c, env), Env: env, Show: show}), nil
}

// shown is a service in a dump.
type shown struct {
	Nodes []discovery.Node `json:"nodes"`
}

// show is APISIX's form, which has no configuration.
func show(_ json.RawMessage, services map[string][]discovery.Node) any {
	list := make(map[string]shown, len(services))
	for key, nodes := range services {
		list[key] = shown{nodes}
	}
	return struct {
		Services map[string]shown `json:"services"`
	}{list}
}

// naming is the discovery.Backend.
type naming struct {
	config   Config
	env      discovery.Env
	client   *discovery.Client
	hosts    hosts
	interval time.Duration
	log      *slog.Logger
}

func newNaming(c Config, env discovery.Env) *naming {
	env = env.Filled()
	b := &naming{
		config: c, env: env, log: env.Log, interval: schema.Seconds(c.FetchInterval),
		client: discovery.NewClient(discovery.ClientOptions{
			Connect: schema.Milliseconds(c.Timeout.Connect), AtOnce: atOnce, TLS: &tls.Config{RootCAs: env.Roots},
		}),
	}
	for _, h := range c.Host {
		b.hosts.list = append(b.hosts.list, newHost(h, c.Prefix))
	}
	b.hosts.prefer(int(env.Rand() * float64(len(b.hosts.list))))
	return b
}

// Close implements discovery.Backend.
func (b *naming) Close() { b.client.Close() }

// A service names one in Nacos.
type service struct {
	namespace, group, name string
	grpc                   bool // its instances are called at metadata.gRPC_port
}

// Target implements discovery.Backend.
func (b *naming) Target(m *model.Upstream) (discovery.Target, error) {
	s := service{"public", "DEFAULT_GROUP", m.ServiceName, m.Scheme == "grpc" || m.Scheme == "grpcs"}
	if len(m.DiscoveryArgs) > 0 {
		var a struct {
			NamespaceID *string `json:"namespace_id"`
			GroupName   *string `json:"group_name"`
		}
		if err := json.Unmarshal(m.DiscoveryArgs, &a); err != nil {
			return discovery.Target{}, fmt.Errorf("discovery_args: %w", err)
		}
		if a.NamespaceID != nil {
			s.namespace = *a.NamespaceID
		}
		if a.GroupName != nil {
			s.group = *a.GroupName
		}
	}
	return discovery.Target{
		Key: s.key(),
		Follow: func(ctx context.Context, f *discovery.Feed) {
			discovery.Poll(ctx, f, b.env, b.interval, func(ctx context.Context) ([]discovery.Node, error) { return b.ask(ctx, s) })
		},
	}, nil
}

// key is the key of APISIX's dumps; with gRPC, services have another one.
func (s service) key() string {
	key := "default/" + s.namespace + "/" + s.group + "/" + s.name
	if s.grpc {
		key += "@grpc"
	}
	return key
}

// An instance is what Nacos tells of one. Absent booleans are true.
type instance struct {
	IP      string   `json:"ip"`
	Port    int      `json:"port"`
	Weight  *float64 `json:"weight"`
	Healthy *bool    `json:"healthy"`
	Enabled *bool    `json:"enabled"`

	Metadata struct {
		GRPCPort json.RawMessage `json:"gRPC_port"` // a number, perhaps as text
	} `json:"metadata"`
}

// port is that of the instance; grpc: for gRPC.
func (i *instance) port(grpc bool) int {
	raw := i.Metadata.GRPCPort
	if !grpc || len(raw) == 0 || string(raw) == "null" {
		return i.Port
	}
	n, err := strconv.Atoi(strings.Trim(string(raw), `"`))
	if err != nil {
		return -1 // the node cannot be used
	}
	return n
}

func (i *instance) in() bool {
	return (i.Healthy == nil || *i.Healthy) && (i.Enabled == nil || *i.Enabled)
}

// nodes are the usable instances.
func (b *naming) nodes(instances []instance, grpc bool) []discovery.Node {
	factor := scale(instances)
	var nodes []discovery.Node
	for _, i := range instances {
		if !i.in() {
			continue
		}
		n := discovery.Node{Host: i.IP, Port: i.port(grpc), Weight: b.config.Weight}
		if i.Weight != nil {
			n.Weight = weight(*i.Weight * factor)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// scale is what weights are multiplied by: those of Nacos may have fractions,
// those of nodes may not.
func scale(instances []instance) float64 {
	for _, i := range instances {
		if i.Weight != nil && *i.Weight != math.Trunc(*i.Weight) {
			return 100
		}
	}
	return 1
}

// maxWeight is more than Nacos allows (10000), scaled.
const maxWeight = 1_000_000

// weight rounds w; what is above 0 stays above.
func weight(w float64) int {
	switch {
	case w > maxWeight:
		return maxWeight
	case w > 0:
		return max(1, int(math.Round(w)))
	}
	return int(math.Max(w, -1)) // a negative one makes the node unusable
}

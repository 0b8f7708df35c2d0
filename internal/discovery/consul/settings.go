// Package consul discovers services of Consul's catalog (discovery_type consul)
// by blocking queries on their health, and has what consul_kv needs to ask
// Consul, too.
package consul

import (
	"errors"
	"strings"

	"weir/internal/discovery"
	"weir/internal/schema"
)

// Settings are the properties that consul and consul_kv have in common
// (APISIX's discovery.consul of config.yaml).
type Settings struct {
	Servers        []string `json:"servers" schema:"required,minItems=1" doc:"Addresses of Consul, http://address:port."`
	Token          string   `json:"token" schema:"default=" doc:"ACL token."`
	FetchInterval  int      `json:"fetch_interval" schema:"min=1,default=3" doc:"Seconds between queries that do not block."`
	Keepalive      bool     `json:"keepalive" schema:"default=true" doc:"Use blocking queries."`
	Weight         int      `json:"weight" schema:"min=1,default=1" doc:"Weight of nodes that have none."`
	Timeout        Timeout  `json:"timeout" schema:"default={\"connect\":2000,\"read\":2000,\"wait\":60}" doc:"Time-outs of queries."`
	Dump           *Dump    `json:"dump" doc:"File in which nodes survive a restart without Consul."`
	DefaultService *Default `json:"default_service" doc:"Node of services that have none."`
}

// Timeout bounds queries.
type Timeout struct {
	Connect int `json:"connect" schema:"min=1,default=2000" doc:"Milliseconds to connect."`
	Read    int `json:"read" schema:"min=1,default=2000" doc:"Milliseconds until the answer is read."`
	Wait    int `json:"wait" schema:"min=1,default=60" doc:"Seconds that a blocking query waits for a change."`
}

// Dump says where nodes are kept.
type Dump struct {
	Path       string `json:"path" schema:"required,minLen=1" doc:"The file."`
	LoadOnInit bool   `json:"load_on_init" schema:"default=true" doc:"Read it at the start."`
	Expire     int    `json:"expire" schema:"default=0" doc:"Age in seconds from which it is not read; 0: none."`
}

// Default is the node that stands in for a service without nodes. APISIX does
// not use its metadata either.
type Default struct {
	Host string `json:"host" doc:"Address."`
	Port int    `json:"port" doc:"Port."`
}

// node is d with the weight that it has in APISIX; nil: there is none.
func (d *Default) node(weight int) *discovery.Node {
	if d == nil {
		return nil
	}
	return &discovery.Node{Host: d.Host, Port: d.Port, Weight: weight}
}

// check asks what the schema cannot say.
func (s *Settings) check() error {
	for _, server := range s.Servers {
		address, ok := strings.CutPrefix(server, "http://")
		if !ok {
			return errors.New("only support consul http schema address, eg: http://address:port")
		}
		if address == "" || strings.ContainsAny(address, "/?#@ ") {
			return errors.New("invalid consul server address, the valid format: http://address:port")
		}
	}
	return nil
}

// Registry is the discovery.Config of the settings, with a default service and
// a dump if they have them.
func (s *Settings) Registry(kind string, b discovery.Backend, shown []byte, env discovery.Env) discovery.Config {
	c := discovery.Config{Kind: kind, Backend: b, Env: env, Shown: shown, Default: s.DefaultService.node(s.Weight)}
	if d := s.Dump; d != nil {
		c.Dump = discovery.NewDump(d.Path, d.LoadOnInit, schema.Seconds(d.Expire))
	}
	return c
}

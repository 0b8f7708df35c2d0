package app

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"

	"weir/internal/discovery"
	"weir/internal/discovery/consul"
	"weir/internal/discovery/consulkv"
	"weir/internal/discovery/eureka"
	"weir/internal/discovery/kubernetes"
	"weir/internal/discovery/nacos"
	"weir/internal/resolve"
	"weir/internal/upstream"
)

// registries make a registry of each kind of discovery but DNS. It is immutable.
var registries = map[string]func(json.RawMessage, discovery.Env) (*discovery.Registry, error){
	"consul":     consul.New,
	"consul_kv":  consulkv.New,
	"eureka":     eureka.New,
	"kubernetes": kubernetes.New,
	"nacos":      nacos.New,
}

// discovery is what the section "discovery" configures. Registries are asked
// for nothing before startDiscovery.
func (g *Gateway) discovery(trusted *x509.CertPool) (map[string]upstream.Discovery, error) {
	kinds := map[string]upstream.Discovery{}
	for kind, open := range registries {
		raw, ok := g.Config.Discovery[kind]
		if !ok {
			kinds[kind] = upstream.Unconfigured(kind)
			continue
		}
		r, err := open(raw, discovery.Env{Log: g.log, Roots: trusted})
		if err != nil {
			return nil, fmt.Errorf("discovery.%s: %w", kind, err)
		}
		kinds[kind] = r.Discovery
		g.registries = append(g.registries, r)
		g.onStop(func(context.Context) error {
			r.Close()
			return nil
		})
	}
	raw, ok := g.Config.Discovery["dns"]
	if !ok {
		kinds["dns"] = upstream.Unconfigured("dns")
		return kinds, nil
	}
	var err error
	kinds["dns"], err = g.dns(raw)
	return kinds, err
}

// startDiscovery begins to follow the services that upstreams name.
func (g *Gateway) startDiscovery(context.Context) error {
	for kind := range g.Config.Discovery {
		if _, ok := registries[kind]; !ok && kind != "dns" {
			g.log.Warn("discovery." + kind + " is not supported by this version of Weir")
		}
	}
	for _, r := range g.registries {
		r.Start()
	}
	return nil
}

// undiscovered says what discovery the gateway waits for; nil: none. APISIX waits
// for Kubernetes alone, too.
func (g *Gateway) undiscovered() error {
	for _, r := range g.registries {
		if r.Kind() == "kubernetes" && !r.Ready() {
			return errors.New("kubernetes discovery not ready")
		}
	}
	return nil
}

// discovered are the handlers of the Control API that tell of registries.
func (g *Gateway) discovered() map[string]http.Handler {
	handlers := map[string]http.Handler{}
	for _, r := range g.registries {
		maps.Copy(handlers, r.Handlers())
	}
	return handlers
}

// dns is discovery by names.
func (g *Gateway) dns(raw json.RawMessage) (upstream.Discovery, error) {
	var conf struct {
		Servers    []string `json:"servers"`
		ResolvConf string   `json:"resolv_conf"`
		Order      []string `json:"order"`
	}
	if err := json.Unmarshal(raw, &conf); err != nil {
		return nil, fmt.Errorf("discovery.dns: %w", err)
	}
	a := &g.Config.APISIX
	client := resolve.NewClient(resolve.Config{
		Servers: conf.Servers, ResolvConf: conf.ResolvConf, Hosts: os.DevNull,
		Timeout: a.DNS.Timeout, Search: a.DNS.Search, IPv6: a.HTTP.EnableIPv6,
	})
	if conf.Order == nil {
		conf.Order = []string{"last", "SRV", "A", "AAAA", "CNAME"}
	}
	var types []resolve.Type
	for _, t := range conf.Order {
		switch t := resolve.Type(t); t {
		case "last": // would ask for the type first that was found last
		case resolve.SRV, resolve.A, resolve.AAAA, resolve.CNAME:
			types = append(types, t)
		default:
			return nil, fmt.Errorf("discovery.dns.order: %q matches none of the enum values", t)
		}
	}
	return upstream.DNS(g.names(resolve.Options{Log: g.log}, client, types)), nil
}

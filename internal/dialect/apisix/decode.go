package apisix

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/model"
)

// Decoding takes documents as they are stored, by this gateway or by APISIX
// itself. It fills defaults and reports what it cannot represent; whether a
// document is valid is the business of Checker.Check.

// routeDoc is a route as stored.
type routeDoc struct {
	Name           string          `json:"name"`
	Labels         labels          `json:"labels"`
	URI            string          `json:"uri"`
	URIs           []string        `json:"uris"`
	Host           string          `json:"host"`
	Hosts          []string        `json:"hosts"`
	Methods        []string        `json:"methods"`
	RemoteAddr     string          `json:"remote_addr"`
	RemoteAddrs    []string        `json:"remote_addrs"`
	Priority       integer         `json:"priority"`
	Vars           json.RawMessage `json:"vars"`
	FilterFunc     string          `json:"filter_func"`
	Script         string          `json:"script"`
	Plugins        plugins         `json:"plugins"`
	PluginConfigID id              `json:"plugin_config_id"`
	ServiceID      id              `json:"service_id"`
	UpstreamID     id              `json:"upstream_id"`
	Upstream       *upstreamDoc    `json:"upstream"`
	Timeout        *timeoutDoc     `json:"timeout"`
	Websocket      *bool           `json:"enable_websocket"`
	Status         *integer        `json:"status"`
}

// Route decodes a route. The id is the last part of its key, which wins over
// an id inside the document.
func Route(id string, raw []byte) (*model.Route, error) {
	var d routeDoc
	if err := unmarshal(raw, &d); err != nil {
		return nil, err
	}
	r := &model.Route{
		ID:             id,
		Name:           d.Name,
		Labels:         d.Labels,
		Paths:          one(d.URI, d.URIs),
		Hosts:          one(d.Host, d.Hosts),
		Methods:        d.Methods,
		Priority:       int(d.Priority),
		FilterFunc:     d.FilterFunc,
		Script:         d.Script,
		Plugins:        model.Plugins(d.Plugins),
		PluginConfigID: string(d.PluginConfigID),
		ServiceID:      string(d.ServiceID),
		UpstreamID:     string(d.UpstreamID),
		Websocket:      d.Websocket,
		Disabled:       d.Status != nil && *d.Status == 0,
	}
	if len(r.Paths) == 0 {
		return nil, fmt.Errorf(`property "uri" is required`)
	}
	if !isNull(d.Vars) {
		r.Vars = d.Vars
	}
	if d.Timeout != nil {
		t := d.Timeout.decode()
		r.Timeout = &t
	}
	var err error
	if r.RemoteAddrs, err = prefixes(one(d.RemoteAddr, d.RemoteAddrs)); err != nil {
		return nil, err
	}
	if d.Upstream != nil {
		r.Upstream = d.Upstream.decode("")
	}
	return r, nil
}

// serviceDoc is a service as stored.
type serviceDoc struct {
	Name       string       `json:"name"`
	Labels     labels       `json:"labels"`
	Hosts      []string     `json:"hosts"`
	Plugins    plugins      `json:"plugins"`
	Script     string       `json:"script"`
	UpstreamID id           `json:"upstream_id"`
	Upstream   *upstreamDoc `json:"upstream"`
	Websocket  *bool        `json:"enable_websocket"`
}

// Service decodes a service.
func Service(id string, raw []byte) (*model.Service, error) {
	var d serviceDoc
	if err := unmarshal(raw, &d); err != nil {
		return nil, err
	}
	s := &model.Service{
		ID:         id,
		Name:       d.Name,
		Labels:     d.Labels,
		Hosts:      d.Hosts,
		Plugins:    model.Plugins(d.Plugins),
		Script:     d.Script,
		UpstreamID: string(d.UpstreamID),
		Websocket:  d.Websocket,
	}
	if d.Upstream != nil {
		s.Upstream = d.Upstream.decode("")
	}
	return s, nil
}

// Upstream decodes an upstream, one that stands alone or one that lies in a
// route, service or plugin configuration; those have no id of their own.
func Upstream(id string, raw []byte) (*model.Upstream, error) {
	var d upstreamDoc
	if err := unmarshal(raw, &d); err != nil {
		return nil, err
	}
	return d.decode(id), nil
}

// consumerDoc holds the members of consumers, credentials and plugin sets.
type consumerDoc struct {
	Username string  `json:"username"`
	Name     string  `json:"name"`
	Labels   labels  `json:"labels"`
	GroupID  id      `json:"group_id"`
	Plugins  plugins `json:"plugins"`
}

// Consumer decodes a consumer; its plugins stay raw. It is cheap enough to be
// run for every stored consumer at start, some microseconds each.
func Consumer(username string, raw []byte) (*model.Consumer, error) {
	var d consumerDoc
	if err := d.unmarshal(raw); err != nil {
		return nil, err
	}
	return &model.Consumer{Username: username, Labels: d.Labels, GroupID: string(d.GroupID), Plugins: model.Plugins(d.Plugins)}, nil
}

// Credential decodes a credential. The id is that of the model:
// "CONSUMER/credentials/ID".
func Credential(id string, raw []byte) (*model.Credential, error) {
	consumer, own, ok := strings.Cut(id, "/credentials/")
	if !ok {
		return nil, fmt.Errorf("credential id %q does not name a consumer", id)
	}
	var d consumerDoc
	if err := d.unmarshal(raw); err != nil {
		return nil, err
	}
	return &model.Credential{ID: own, Consumer: consumer, Name: d.Name, Labels: d.Labels, Plugins: model.Plugins(d.Plugins)}, nil
}

// PluginSet decodes a consumer group, plugin config or global rule.
func PluginSet(id string, raw []byte) (*model.PluginSet, error) {
	var d consumerDoc
	if err := d.unmarshal(raw); err != nil {
		return nil, err
	}
	return &model.PluginSet{ID: id, Name: d.Name, Labels: d.Labels, Plugins: model.Plugins(d.Plugins)}, nil
}

func one(single string, several []string) []string {
	if single != "" {
		return []string{single}
	}
	return several
}

func prefixes(addrs []string) ([]netip.Prefix, error) {
	if len(addrs) == 0 {
		return nil, nil
	}
	out := make([]netip.Prefix, 0, len(addrs))
	for _, a := range addrs {
		p, err := prefix(a)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// prefix reads an address or a network; an address is a network of its own.
func prefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("invalid remote_addr: %s", s)
		}
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("invalid remote_addr: %s", s)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

package apisix

import (
	"fmt"
	"strings"

	"weir/internal/model"
)

// streamRouteDoc is a stream route as stored.
type streamRouteDoc struct {
	Name       string       `json:"name"`
	Labels     labels       `json:"labels"`
	RemoteAddr string       `json:"remote_addr"`
	ServerAddr string       `json:"server_addr"`
	ServerPort integer      `json:"server_port"`
	SNI        string       `json:"sni"`
	Plugins    plugins      `json:"plugins"`
	ServiceID  id           `json:"service_id"`
	UpstreamID id           `json:"upstream_id"`
	Upstream   *upstreamDoc `json:"upstream"`
	Protocol   *struct {
		Name       string `json:"name"`
		SuperiorID id     `json:"superior_id"`
	} `json:"protocol"`
}

// StreamRoute decodes a stream route.
func StreamRoute(id string, raw []byte) (*model.StreamRoute, error) {
	var d streamRouteDoc
	if err := unmarshal(raw, &d); err != nil {
		return nil, err
	}
	r := &model.StreamRoute{
		ID:         id,
		Name:       d.Name,
		Labels:     d.Labels,
		ServerPort: int(d.ServerPort),
		SNI:        strings.ToLower(d.SNI),
		Plugins:    model.Plugins(d.Plugins),
		ServiceID:  string(d.ServiceID),
		UpstreamID: string(d.UpstreamID),
	}
	var err error
	if d.RemoteAddr != "" {
		if r.RemoteAddr, err = prefix(d.RemoteAddr); err != nil {
			return nil, err
		}
	}
	if d.ServerAddr != "" {
		if r.ServerAddr, err = prefix(d.ServerAddr); err != nil {
			return nil, fmt.Errorf("invalid server_addr: %s", d.ServerAddr)
		}
	}
	if d.Upstream != nil {
		r.Upstream = d.Upstream.decode("")
	}
	if d.Protocol != nil {
		r.Protocol, r.SuperiorID = d.Protocol.Name, string(d.Protocol.SuperiorID)
	}
	return r, nil
}

package apisix

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"weir/internal/model"
	"weir/internal/schema"
)

// upstreamDoc is an upstream as stored.
type upstreamDoc struct {
	ID            id              `json:"id"`
	Name          string          `json:"name"`
	Labels        labels          `json:"labels"`
	Nodes         nodes           `json:"nodes"`
	Type          string          `json:"type"`
	HashOn        string          `json:"hash_on"`
	Key           string          `json:"key"`
	Scheme        string          `json:"scheme"`
	PassHost      string          `json:"pass_host"`
	Host          string          `json:"upstream_host"`
	Retries       *integer        `json:"retries"`
	RetryTimeout  float64         `json:"retry_timeout"`
	Timeout       *timeoutDoc     `json:"timeout"`
	Keepalive     *keepaliveDoc   `json:"keepalive_pool"`
	TLS           json.RawMessage `json:"tls"`
	Checks        json.RawMessage `json:"checks"`
	DiscoveryType string          `json:"discovery_type"`
	DiscoveryArgs json.RawMessage `json:"discovery_args"`
	ServiceName   string          `json:"service_name"`
	Websocket     bool            `json:"enable_websocket"`
}

func (d *upstreamDoc) decode(id string) *model.Upstream {
	u := &model.Upstream{
		ID:            id,
		Name:          d.Name,
		Labels:        d.Labels,
		Nodes:         d.Nodes,
		Type:          cmp.Or(d.Type, "roundrobin"),
		HashOn:        cmp.Or(d.HashOn, "vars"),
		Key:           d.Key,
		Scheme:        cmp.Or(d.Scheme, "http"),
		PassHost:      cmp.Or(d.PassHost, "pass"),
		Host:          d.Host,
		RetryTimeout:  schema.Seconds(d.RetryTimeout),
		DiscoveryType: d.DiscoveryType,
		ServiceName:   d.ServiceName,
		Websocket:     d.Websocket,
	}
	if d.Retries != nil {
		n := int(*d.Retries)
		u.Retries = &n
	}
	if d.Timeout != nil {
		u.Timeout = d.Timeout.decode()
	}
	if d.Keepalive != nil {
		u.Keepalive = d.Keepalive.decode()
	}
	for _, m := range []struct {
		to   *json.RawMessage
		from json.RawMessage
	}{{&u.TLS, d.TLS}, {&u.Checks, d.Checks}, {&u.DiscoveryArgs, d.DiscoveryArgs}} {
		if !isNull(m.from) {
			*m.to = m.from
		}
	}
	return u
}

type timeoutDoc struct {
	Connect float64 `json:"connect"`
	Send    float64 `json:"send"`
	Read    float64 `json:"read"`
}

func (d *timeoutDoc) decode() model.Timeout {
	return model.Timeout{Connect: schema.Seconds(d.Connect), Send: schema.Seconds(d.Send), Read: schema.Seconds(d.Read)}
}

type keepaliveDoc struct {
	Size        *integer `json:"size"`
	IdleTimeout *float64 `json:"idle_timeout"`
	Requests    *integer `json:"requests"`
}

func (d *keepaliveDoc) UnmarshalJSON(raw []byte) error {
	type plain keepaliveDoc
	if isEmptyArray(raw) {
		return nil
	}
	return json.Unmarshal(raw, (*plain)(d))
}

// decode fills what is missing with 320 connections, 60 s and 1000 requests.
func (d *keepaliveDoc) decode() *model.Keepalive {
	k := &model.Keepalive{Size: 320, IdleTimeout: schema.Seconds(60), Requests: 1000}
	if d.Size != nil {
		k.Size = int(*d.Size)
	}
	if d.IdleTimeout != nil {
		k.IdleTimeout = schema.Seconds(*d.IdleTimeout)
	}
	if d.Requests != nil {
		k.Requests = int(*d.Requests)
	}
	return k
}

// nodes reads both forms: {"host:port": weight} in the order of the document,
// and [{"host", "port", "weight", "priority"}].
type nodes []model.Node

func (n *nodes) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case 'n':
		return nil
	case '{':
		return n.fromObject(raw)
	}
	var list []struct {
		Host     string  `json:"host"`
		Port     integer `json:"port"`
		Weight   integer `json:"weight"`
		Priority integer `json:"priority"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*n = make(nodes, 0, len(list))
	for _, d := range list {
		if d.Port == 0 { // it may stand in the host
			host, port := SplitAddr(d.Host)
			d.Host, d.Port = host, integer(port)
		}
		*n = append(*n, model.Node{Host: unbracket(d.Host), Port: int(d.Port), Weight: int(d.Weight), Priority: int(d.Priority)})
	}
	return nil
}

func (n *nodes) fromObject(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		addr, _ := name.(string)
		var weight integer
		if err := dec.Decode(&weight); err != nil {
			return fmt.Errorf("weight of node %q: %w", addr, err)
		}
		host, port := SplitAddr(addr)
		*n = append(*n, model.Node{Host: unbracket(host), Port: port, Weight: int(weight)})
	}
	return nil
}

func unbracket(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1]
	}
	return host
}

// SplitAddr splits the address of a node into host and port; port 0 stands for
// a missing one. An IPv6 address keeps its brackets, and one without brackets
// has no port, however it ends: "::1:80" is an address.
func SplitAddr(addr string) (host string, port int) {
	host, port, _ = splitAddr(addr)
	return host, port
}

func splitAddr(addr string) (host string, port int, there bool) {
	colon := strings.LastIndexByte(addr, ':')
	switch {
	case colon < 0:
		return addr, 0, false
	case addr[0] == '[':
		if colon == 0 || addr[colon-1] != ']' {
			return addr, 0, false
		}
	case strings.IndexByte(addr, ':') != colon:
		return addr, 0, false
	}
	port, err := strconv.Atoi(addr[colon+1:])
	if err != nil {
		return addr[:colon], 0, false
	}
	return addr[:colon], port, true
}

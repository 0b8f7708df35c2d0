package model

import (
	"encoding/json"
	"net/netip"
	"time"
)

// Plugins are plugin configurations by plugin name, each a JSON object.
type Plugins map[string]json.RawMessage

// A Route says which requests go where and what happens to them.
type Route struct {
	ID, Name       string
	Labels         map[string]string
	Paths          []string // at least one; "*" ends a prefix (router syntax)
	Hosts          []string // empty: any, or the service's
	Methods        []string // empty: any
	RemoteAddrs    []netip.Prefix
	Priority       int
	Vars           json.RawMessage // expression of apisix-runtime.md §4.5; nil: none
	FilterFunc     string
	Script         string
	Plugins        Plugins
	PluginConfigID string
	ServiceID      string
	UpstreamID     string
	Upstream       *Upstream
	Timeout        *Timeout
	Websocket      *bool // nil: the service's choice
	Disabled       bool  // status 0
}

// A Service is what routes have in common.
type Service struct {
	ID, Name   string
	Labels     map[string]string
	Hosts      []string
	Plugins    Plugins
	Script     string
	UpstreamID string
	Upstream   *Upstream
	Websocket  *bool
}

// A StreamRoute says which TCP connections or UDP clients go where.
type StreamRoute struct {
	ID, Name   string
	Labels     map[string]string
	RemoteAddr netip.Prefix // invalid: any
	ServerAddr netip.Prefix // invalid: any
	ServerPort int          // 0: any
	SNI        string       // "*.x" covers every name below x; empty: any, and no TLS
	Plugins    Plugins
	ServiceID  string
	UpstreamID string
	Upstream   *Upstream
	Protocol   string // xRPC protocol; empty: none
	SuperiorID string // of the stream route whose sessions it serves a part of
}

// Timeout bounds the steps towards an upstream; zero means the default, 60 s.
type Timeout struct{ Connect, Send, Read time.Duration }

// An Upstream is a set of nodes and how to choose and reach one.
type Upstream struct {
	ID, Name      string
	Labels        map[string]string
	Nodes         []Node
	Type          string // roundrobin, chash, ewma, least_conn
	HashOn, Key   string
	Scheme        string // http, https, grpc, grpcs, tcp, tls, udp, kafka
	PassHost      string // pass, node, rewrite; domain: as node, never with a port
	Host          string // for pass_host rewrite
	Retries       *int   // nil: nodes − 1
	RetryTimeout  time.Duration
	RetryOn       *RetryOn // nil: what has not reached a node, or can be sent again
	Timeout       Timeout
	Keepalive     *Keepalive // nil: the gateway's default
	TLS           json.RawMessage
	CAs           string  // PEM, that certificates are verified with; empty: the gateway's
	Tunnel        *Tunnel // nil: nodes are reached directly
	Checks        json.RawMessage
	DiscoveryType string
	DiscoveryArgs json.RawMessage
	ServiceName   string
	Websocket     bool
	MaxHead       int // bytes of a response's head; 0: the gateway's limit
}

// RetryOn are the cases in which a request has a further try, if it can be sent
// again (nginx: proxy_next_upstream).
type RetryOn struct {
	Error, Timeout bool
	Statuses       []int // of answers
	NonIdempotent  bool  // also of requests that may have had an effect
}

// A Tunnel leads through the nodes of an upstream, forward proxies, to somewhere
// else (RFC 9110 §9.3.6).
type Tunnel struct {
	To            string // host:port
	Authorization string // Proxy-Authorization; empty: none
}

// A Node is one address of an upstream.
type Node struct {
	Host     string // name or address, IPv6 without brackets
	Port     int    // 0: the scheme's default
	Weight   int
	Priority int
}

// Keepalive bounds the idle connections to an upstream.
type Keepalive struct {
	Size        int
	IdleTimeout time.Duration // 0: no connection is kept
	Requests    int           // a connection is closed after so many
}

// A Consumer is a caller known to the gateway.
type Consumer struct {
	Username string
	Labels   map[string]string
	GroupID  string
	Plugins  Plugins
}

// A Credential is one more way for a consumer to prove itself.
type Credential struct {
	ID       string // without the consumer
	Consumer string
	Name     string
	Labels   map[string]string
	Plugins  Plugins
}

// A PluginSet is what a consumer group, a plugin config and a global rule are:
// plugins with an id.
type PluginSet struct {
	ID, Name string
	Labels   map[string]string
	Plugins  Plugins
}

// SSL is a certificate for clients that connect by TLS, or, if Client, one that
// the gateway shows to upstreams.
type SSL struct {
	ID           string
	Client       bool
	Hosts        []string // SNIs; "*.x" covers one label, "*" everything
	Pairs        []KeyPair
	ClientCA     string // PEM; empty: clients need no certificate
	Depth        int    // certificates that may stand above a client's
	SkipMTLSURIs []string
	Protocols    []string // TLSv1.1, TLSv1.2, TLSv1.3; empty: the gateway's
	Disabled     bool
	Stapling     *Stapling // nil: no OCSP answers are sent along
}

// A Stapling says how answers of OCSP responders are treated.
type Stapling struct {
	SkipVerify bool          // answers are believed whoever signed them
	TTL        time.Duration // that an answer is used before the responder is asked again
}

// A KeyPair is a certificate with its chain, and its private key, in PEM. The
// key may be encrypted as stored.
type KeyPair struct{ Cert, Key string }

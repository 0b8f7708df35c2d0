// Package config reads the file a gateway starts with: APISIX's config.yaml
// and Weir's own keys under "weir". Dynamic configuration (routes and the
// like) is not here.
package config

import (
	"encoding/json"
	"os"
	"strings"
	"time"
)

// Config is a checked configuration with all defaults filled in. Relative
// paths are relative to the working directory.
type Config struct {
	// File is what was read; empty: there was none, all is default.
	File string

	// Embedded says that Weir runs the configuration store itself: neither the
	// file nor the environment names deployment.etcd.host.
	Embedded bool

	// Ignored lists the keys of the user's file that change nothing.
	Ignored []Ignored

	APISIX        APISIX                     `conf:"apisix"`
	Nginx         Nginx                      `conf:"nginx_config"`
	Deployment    Deployment                 `conf:"deployment"`
	GraphQL       GraphQL                    `conf:"graphql"`
	Plugins       []string                   `conf:"plugins"`        // nil: every plugin there is
	StreamPlugins []string                   `conf:"stream_plugins"` // nil: every one
	PluginAttr    map[string]json.RawMessage `conf:"plugin_attr"`    // static settings by plugin
	Discovery     map[string]json.RawMessage `conf:"discovery"`      // settings by kind
	Weir          Weir                       `conf:"weir"`
}

// Env finds an environment variable for references to secrets: one that
// nginx_config.envs gives a value, else one of the process.
func (c *Config) Env(name string) (value string, ok bool) {
	for _, e := range c.Nginx.Envs {
		if n, v, given := strings.Cut(e, "="); given && n == name {
			return v, true
		}
	}
	return os.LookupEnv(name)
}

// An Ignored key of the user's file.
type Ignored struct {
	Path string // "nginx_config.event"
	Why  string
}

// Weir are the keys of Weir's own. In the environment a key is its path in
// upper case with "_" between: WEIR_STORE_DIR. WEIR_ADMIN_KEY stands for the
// one key of deployment.admin.admin_key.
type Weir struct {
	Store Store `conf:"store"`

	// AckTimeout bounds how long an Admin API write waits to be live (5 s).
	AckTimeout time.Duration `conf:"ack_timeout"`

	// StaleMaxAge is how old the saved copy of an external store's configuration
	// may be to start from it while the store does not answer (24 h); 0: never.
	StaleMaxAge time.Duration `conf:"stale_max_age"`

	// Check compares the running state with the store.
	Check Check `conf:"check"`

	// AuditLog is the file, stdout or stderr that tells who wrote what through the
	// Admin API; empty: nginx_config.error_log; "off": none.
	AuditLog string `conf:"audit_log"`

	// ShutdownDelay is how long requests are still taken after /status/ready has
	// begun to fail, so that load balancers see it first (0 s).
	ShutdownDelay time.Duration `conf:"shutdown_delay"`

	// MaxPerAddress bounds the open connections of one client address, or of one
	// /64 of IPv6 addresses, to the data plane; 0: no bound.
	MaxPerAddress int `conf:"max_connections_per_address"`

	// MergeSlashes makes repeated slashes of a path one, as nginx does (true); where
	// they carry meaning, the path is matched and forwarded with them otherwise.
	MergeSlashes bool `conf:"merge_slashes"`
}

// Check says how the running state is compared with the store, a slice of its keys
// at a time.
type Check struct {
	Every time.Duration `conf:"every"` // from one slice to the next (30 s)
	Keys  int           `conf:"keys"`  // of a slice (10000)
}

// Store is the embedded configuration store.
type Store struct {
	Dir string `conf:"dir"` // data folder (./data)

	// Listen is the address for etcd clients: "auto" is 127.0.0.1:2379 or, if
	// that is taken, the next free port; "off" is none.
	Listen string `conf:"listen"`
}

// GraphQL bounds the reading of GraphQL requests.
type GraphQL struct {
	MaxSize int64 `conf:"max_size"` // bytes (1 MiB)
}

// APISIX is the section "apisix".
type APISIX struct {
	HTTP   HTTP   `conf:"inline"`
	URI    URI    `conf:"inline"`
	DNS    DNS    `conf:"inline"`
	Server Server `conf:"inline"`

	Router           Router         `conf:"router"`
	SSL              SSL            `conf:"ssl"`
	StreamProxy      StreamProxy    `conf:"stream_proxy"`
	ProxyProtocol    ProxyProtocol  `conf:"proxy_protocol"`
	ProxyCache       ProxyCache     `conf:"proxy_cache"`
	EnableAdmin      bool           `conf:"enable_admin"`
	EnableControl    bool           `conf:"enable_control"`
	Control          Endpoint       `conf:"control"`
	Status           *Endpoint      `conf:"status"` // nil: no status server
	DataEncryption   DataEncryption `conf:"data_encryption"`
	TrustedAddresses []string       `conf:"trusted_addresses"` // whose X-Forwarded-* are believed
	LRU              LRU            `conf:"lru"`
	ID               string         `conf:"id"` // of this instance
}

// HTTP says where plain HTTP is served and how.
type HTTP struct {
	NodeListen  Listeners `conf:"node_listen"`
	EnableIPv6  bool      `conf:"enable_ipv6"`
	EnableHTTP2 bool      `conf:"enable_http2"`
	ProxyMode   string    `conf:"proxy_mode"` // http, stream or http&stream

	// ReusePort lets the process that replaces this one open the same addresses
	// while this one still serves. Unlike APISIX's it is off unless asked for: two
	// gateways by mistake on one port would share its clients.
	ReusePort bool `conf:"enable_reuseport"`
}

// URI are the ways a path is changed before it is matched.
type URI struct {
	DeleteTailSlash      bool `conf:"delete_uri_tail_slash"`
	NormalizeLikeServlet bool `conf:"normalize_uri_like_servlet"`
	MatchEncodedSlash    bool `conf:"match_uri_encoded_slash"`
	MaxPostArgsSize      int  `conf:"max_post_args_readable_size"` // MiB; 0: no limit
}

// DNS says how names of upstream nodes are resolved.
type DNS struct {
	Resolvers []string      `conf:"dns_resolver"`       // empty: resolv.conf
	Valid     time.Duration `conf:"dns_resolver_valid"` // instead of a record's TTL; 0: the TTL
	Timeout   time.Duration `conf:"resolver_timeout"`
	Search    bool          `conf:"enable_resolv_search_opt"`
}

// Server is what responses say about the gateway, and upstream checks.
type Server struct {
	// Tokens: the Server header is "Weir/VERSION" instead of "Weir". It is off
	// unless the user's file turns it on.
	Tokens              bool `conf:"enable_server_tokens"`
	ShowUpstreamStatus  bool `conf:"show_upstream_status_in_response_header"`
	DisableHealthChecks bool `conf:"disable_upstream_healthcheck"`
}

// Router names the order in which routes are tried (apisix-runtime.md §4.4).
type Router struct {
	HTTP string `conf:"http"` // radixtree_host_uri, radixtree_uri, radixtree_uri_with_parameter
	SSL  string `conf:"ssl"`
}

// SSL says where TLS is served and how.
type SSL struct {
	Enable             bool      `conf:"enable"`
	Listen             Listeners `conf:"listen"`
	Protocols          string    `conf:"ssl_protocols"` // separated by spaces
	Ciphers            string    `conf:"ssl_ciphers"`   // OpenSSL names separated by ":"
	SessionTickets     bool      `conf:"ssl_session_tickets"`
	TrustedCertificate string    `conf:"ssl_trusted_certificate"` // file, or "system"
	FallbackSNI        string    `conf:"fallback_sni"`
}

// StreamProxy lists the ports of L4 proxying.
type StreamProxy struct {
	TCP []StreamListener `conf:"tcp"`
	UDP []StreamListener `conf:"udp"`
}

// ProxyProtocol lists ports that expect a PROXY header.
type ProxyProtocol struct {
	HTTPPort      int  `conf:"listen_http_port"`
	HTTPSPort     int  `conf:"listen_https_port"`
	TCP           bool `conf:"enable_tcp_pp"`
	TCPToUpstream bool `conf:"enable_tcp_pp_to_upstream"`
}

// ProxyCache are the stores of the proxy-cache plugin.
type ProxyCache struct {
	TTL   time.Duration `conf:"cache_ttl"`
	Zones []CacheZone   `conf:"zones"`
}

// A CacheZone is one of them; without DiskPath it is in memory.
type CacheZone struct {
	Name     string `conf:"name"`
	Memory   Size   `conf:"memory_size"`
	Disk     Size   `conf:"disk_size"`
	DiskPath string `conf:"disk_path"`
	Levels   string `conf:"cache_levels"`
}

// An Endpoint is an address that is given as ip and port.
type Endpoint struct {
	IP   string `conf:"ip"`
	Port int    `conf:"port"`
}

// DataEncryption says which secrets are stored encrypted.
type DataEncryption struct {
	Enable  bool    `conf:"enable_encrypt_fields"`
	Keyring Keyring `conf:"keyring"` // the first encrypts, all decrypt
}

// LRU sizes caches.
type LRU struct {
	Secret SecretCache `conf:"secret"`
}

// SecretCache bounds what is remembered of secret stores.
type SecretCache struct {
	TTL      time.Duration `conf:"ttl"`
	Count    int           `conf:"count"`
	NegTTL   time.Duration `conf:"neg_ttl"`
	NegCount int           `conf:"neg_count"`
}

// Nginx is the part of "nginx_config" that has a meaning without nginx.
type Nginx struct {
	ErrorLog      string        `conf:"error_log"` // file, stdout or stderr
	ErrorLogLevel string        `conf:"error_log_level"`
	Processes     Auto          `conf:"worker_processes"`        // processors in use; 0: all
	Drain         time.Duration `conf:"worker_shutdown_timeout"` // of requests when stopping
	Envs          []string      `conf:"envs"`                    // NAME or NAME=VALUE, for $env://
	HTTP          NginxHTTP     `conf:"http"`
	Stream        NginxStream   `conf:"stream"`
	Event         NginxEvent    `conf:"event"`
}

// NginxEvent bounds the connections.
type NginxEvent struct {
	// WorkerConnections is how many client connections the data plane has open at
	// once for each processor in use; more wait to be accepted. 0: no bound.
	WorkerConnections int `conf:"worker_connections"`
}

// NginxHTTP is "nginx_config.http".
type NginxHTTP struct {
	Log      AccessLog `conf:"inline"`
	Timeouts Timeouts  `conf:"inline"`
	RealIP   RealIP    `conf:"inline"`

	MaxBodySize         Size          `conf:"client_max_body_size"` // bytes; 0: unlimited
	UnderscoresInHeader bool          `conf:"underscores_in_headers"`
	ProxySSLServerName  bool          `conf:"proxy_ssl_server_name"`
	Upstream            UpstreamConns `conf:"upstream"`
	Charset             string        `conf:"charset"`
}

// AccessLog says what is logged of requests.
type AccessLog struct {
	Enable bool   `conf:"enable_access_log"`
	Path   string `conf:"access_log"`
	Buffer Size   `conf:"access_log_buffer"`
	Format string `conf:"access_log_format"`
	Escape string `conf:"access_log_format_escape"` // default or json
}

// Timeouts are those towards clients; 0: none.
type Timeouts struct {
	Keepalive time.Duration `conf:"keepalive_timeout"`
	Header    time.Duration `conf:"client_header_timeout"`
	Body      time.Duration `conf:"client_body_timeout"` // between two reads
	Send      time.Duration `conf:"send_timeout"`        // between two writes
}

// RealIP says which proxies report the client's address, and where.
type RealIP struct {
	Header    string   `conf:"real_ip_header"`
	Recursive bool     `conf:"real_ip_recursive"`
	From      []string `conf:"real_ip_from"` // addresses, CIDR blocks, "unix:"
}

// UpstreamConns bounds idle connections to upstreams that set nothing else.
type UpstreamConns struct {
	Keepalive int           `conf:"keepalive"`
	Requests  int           `conf:"keepalive_requests"`
	Timeout   time.Duration `conf:"keepalive_timeout"`
}

// NginxStream is "nginx_config.stream".
type NginxStream struct {
	Enable bool     `conf:"enable_access_log"`
	Path   string   `conf:"access_log"`
	Format string   `conf:"access_log_format"`
	Escape string   `conf:"access_log_format_escape"`
	From   []string `conf:"real_ip_from"`
}

// Deployment says what this node is and where its configuration comes from.
type Deployment struct {
	Role         string   `conf:"role"` // traditional, control_plane, data_plane
	Traditional  Provided `conf:"role_traditional"`
	ControlPlane Provided `conf:"role_control_plane"`
	DataPlane    Provided `conf:"role_data_plane"`
	Admin        Admin    `conf:"admin"`
	Etcd         Etcd     `conf:"etcd"`
}

// Provided is what a role reads its configuration from: etcd, yaml, json, xds.
type Provided struct {
	Provider string `conf:"config_provider"`
}

// Provider is that of the role in force.
func (d *Deployment) Provider() string {
	switch d.Role {
	case "control_plane":
		return d.ControlPlane.Provider
	case "data_plane":
		return d.DataPlane.Provider
	}
	return d.Traditional.Provider
}

// Admin is the Admin API.
type Admin struct {
	Keys        []AdminKey `conf:"admin_key"` // nil, null in the file: none is asked for
	KeyRequired bool       `conf:"admin_key_required"`
	CORS        bool       `conf:"enable_admin_cors"`
	UI          bool       `conf:"enable_admin_ui"`
	Allow       []string   `conf:"allow_admin"`  // addresses and CIDR blocks; empty: all
	Listen      Endpoint   `conf:"admin_listen"` // 127.0.0.1:9180 unless configured
	HTTPS       bool       `conf:"https_admin"`
	MTLS        AdminTLS   `conf:"admin_api_mtls"`
	Version     string     `conf:"admin_api_version"`
}

// An AdminKey opens the Admin API. One with an empty Key is yet to be generated.
type AdminKey struct {
	Name string `conf:"name"`
	Key  Secret `conf:"key"`
	Role string `conf:"role"` // admin, viewer
}

// AdminTLS are files of the Admin API's certificates.
type AdminTLS struct {
	Cert string `conf:"admin_ssl_cert"`
	Key  string `conf:"admin_ssl_cert_key"`
	CA   string `conf:"admin_ssl_ca_cert"`
}

// Etcd is the configuration store. Where it is embedded, Prefix alone counts.
type Etcd struct {
	Host         []string      `conf:"host"` // http:// or https:// and address
	Prefix       string        `conf:"prefix"`
	Timeout      time.Duration `conf:"timeout"`
	WatchTimeout time.Duration `conf:"watch_timeout"`
	ResyncDelay  time.Duration `conf:"resync_delay"`
	StartupRetry int           `conf:"startup_retry"`
	User         string        `conf:"user"`
	Password     Secret        `conf:"password"`
	TLS          EtcdTLS       `conf:"tls"`
}

// EtcdTLS are the files and choices of TLS towards etcd.
type EtcdTLS struct {
	Cert   string `conf:"cert"`
	Key    string `conf:"key"`
	Verify bool   `conf:"verify"`
	SNI    string `conf:"sni"`
}

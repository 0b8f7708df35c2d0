package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/schema"
)

// APIcast is what the environment variables of 3scale's APIcast say (apicast.md
// §9), with the defaults of its environments.
type APIcast struct {
	Portal   Portal
	Ports    Ports
	TLS      GatewayTLS
	Backend  Backend
	Upstream UpstreamVariables
	Proxies  Proxies
	Logs     Logs
	Tracing  *Tracing // OPENTELEMETRY; nil: requests are not traced

	Management      string        // APICAST_MANAGEMENT_API: disabled, status, policies, debug
	PolicyPath      []string      // APICAST_POLICY_LOAD_PATH
	Workers         int           // APICAST_WORKERS; 0: all processors
	PathRouting     bool          // APICAST_PATH_ROUTING
	PathRoutingOnly bool          // APICAST_PATH_ROUTING_ONLY
	ExtendedMetrics bool          // APICAST_EXTENDED_METRICS
	Resolver        string        // RESOLVER: address, perhaps with port; empty: resolv.conf
	Keepalive       time.Duration // HTTP_KEEPALIVE_TIMEOUT
	HeadLine        int           // bytes of a line of a head: APICAST_LARGE_CLIENT_HEADER_BUFFERS
	HeadLines       int           // so many times that for a head

	// Ignored are the variables that change nothing.
	Ignored []Ignored
}

// Portal says where products come from.
type Portal struct {
	Configuration string            // APICAST_CONFIGURATION
	File          string            // THREESCALE_CONFIG_FILE
	Endpoint      string            // THREESCALE_PORTAL_ENDPOINT, with its token
	Channel       string            // THREESCALE_DEPLOYMENT_ENV
	Loader        string            // boot, lazy, test
	Cache         time.Duration     // APICAST_CONFIGURATION_CACHE; below 0: for ever
	Wait          time.Duration     // APICAST_CONFIGURATION_TIMEOUT
	Services      []string          // APICAST_SERVICES_LIST
	Hosts         string            // APICAST_SERVICES_FILTER_BY_URL
	Versions      map[string]string // by service id: APICAST_SERVICE_*_CONFIGURATION_VERSION
	Limit         Size              // of what is loaded at once: WEIR_PRODUCTS_LIMIT
	Standalone    bool              // the environment standalone: Configuration is its YAML
	Development   bool              // the environment development
	Example       bool              // in it, without a configuration
}

// Ports are where APIcast listens; a port that is 0 is left to the system, an
// HTTPS port of 0 is none.
type Ports struct {
	HTTP, HTTPS, Management, Metrics int
	HTTPProxy, HTTPSProxy            bool // connections begin with a PROXY header
}

// GatewayTLS is the HTTPS port's.
type GatewayTLS struct {
	Certificate, Key string // files; empty: a self-signed one
	VerifyClient     string // on, off, optional, optional_no_ca
	VerifyDepth      int
}

// Backend is how 3scale's backend is asked.
type Backend struct {
	Override  string // BACKEND_ENDPOINT_OVERRIDE
	Resilient bool   // APICAST_BACKEND_CACHE_HANDLER
	Threads   int    // APICAST_REPORTING_THREADS
	Codes     bool   // APICAST_RESPONSE_CODES
	Batches   Size   // memory of what 3scale_batcher gathers: APICAST_POLICY_BATCHER_SHARED_MEMORY_SIZE
}

// UpstreamVariables are how upstreams are reached.
type UpstreamVariables struct {
	RetryCases       string        // APICAST_UPSTREAM_RETRY_CASES
	Verify           bool          // OPENSSL_VERIFY
	CAs              string        // SSL_CERT_FILE
	Certificate, Key string        // files: APICAST_PROXY_HTTPS_CERTIFICATE, _KEY
	PassPhrases      string        // file, one a line: APICAST_PROXY_HTTPS_PASSWORD_FILE
	CacheStatuses    []int         // APICAST_CACHE_STATUS_CODES
	CacheTime        time.Duration // APICAST_CACHE_MAX_TIME
	HeadSize         Size          // of a response: APICAST_PROXY_BUFFER_SIZE
}

// Proxies are the forward proxies of the environment.
type Proxies struct{ HTTP, HTTPS, All, No string }

// Logs says where the logs go.
type Logs struct {
	Error, Level, Access string
	AccessBuffer         Size // 0: the gateway's choice
}

// UsesAPIcast says that the environment has products of 3scale in it.
func UsesAPIcast(environ []string) bool {
	env := newEnvironment(environ)
	return env["THREESCALE_PORTAL_ENDPOINT"] != "" || env["THREESCALE_CONFIG_FILE"] != "" || env["APICAST_CONFIGURATION"] != ""
}

// LoadAPIcast reads the environment; configuration, if not empty, stands for
// APICAST_CONFIGURATION. A value that makes no sense is an error. Its message names
// the variable, and the value unless that may hold a secret.
func LoadAPIcast(configuration string, environ []string) (*APIcast, error) {
	env := variables{environment: newEnvironment(environ), used: map[string]bool{}}
	if configuration != "" {
		env.environment["APICAST_CONFIGURATION"] = configuration
		delete(env.environment, "THREESCALE_CONFIG_FILE")
	}
	a := &APIcast{}
	env.portal(&a.Portal)
	env.ports(a)
	env.backend(a)
	env.upstream(&a.Upstream)
	env.rest(a)
	a.Ignored = env.ignored()
	return a, errors.Join(env.errs...)
}

// variables reads an environment.
type variables struct {
	environment
	used    map[string]bool
	errs    []error
	strange []Ignored // values that change nothing
}

// text is a variable's value; an empty one is unset.
func (v *variables) text(name, otherwise string) string {
	v.used[name] = true
	if s := v.environment[name]; s != "" {
		return s
	}
	return otherwise
}

// any is the first of several names that is set.
func (v *variables) any(names ...string) (value string) {
	for _, n := range names {
		if s := v.text(n, ""); value == "" {
			value = s
		}
	}
	return value
}

// flag is a variable that is true or not. APIcast takes every other value for
// false, silently.
func (v *variables) flag(name string) bool {
	s := v.text(name, "false")
	switch s {
	case "false", "0", "true", "1":
	default:
		v.complain(name, strconv.Quote(s)+" is not one of true, 1, false, 0")
	}
	return s == "true" || s == "1"
}

func (v *variables) complain(name, why string) {
	v.errs = append(v.errs, fmt.Errorf("environment %s: %s", name, why))
}

// number is a whole number that is not below least.
func (v *variables) number(name string, otherwise, least int) int {
	s := v.text(name, "")
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		v.complain(name, s+" is too much")
	case err != nil:
		v.complain(name, strconv.Quote(s)+" is not a whole number")
	case int(n) < least:
		v.complain(name, fmt.Sprintf("%d is less than %d", n, least))
	}
	return int(n)
}

func (v *variables) port(name string, otherwise int) int {
	n := v.number(name, otherwise, 0)
	if n > 65535 {
		v.complain(name, fmt.Sprintf("%d is not a port", n))
	}
	return n
}

func (v *variables) size(name, otherwise string) Size {
	s := v.text(name, otherwise)
	var size Size
	if s != "" && size.decode(&node{kind: text, text: s, hidden: true}, "") != nil {
		v.complain(name, strconv.Quote(s)+" is not a size such as 16384, 16k or 1m")
	}
	return size
}

// resolver is the address of a name server, perhaps with a port.
func (v *variables) resolver(name string) string {
	s := v.text(name, "")
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if _, err := netip.ParseAddr(bare); s == "" || err == nil {
		return bare
	}
	if _, err := netip.ParseAddrPort(s); err != nil {
		v.complain(name, strconv.Quote(s)+" is not an IP address, perhaps with a port")
	}
	return s
}

// address is the URL of an HTTP server; empty: unset.
func (v *variables) address(name string) string {
	s := v.text(name, "")
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		v.complain(name, "is not an http or https URL") // it may hold a password
	}
	return s
}

func (v *variables) oneOf(name, otherwise string, allowed ...string) string {
	s := v.text(name, otherwise)
	if !slices.Contains(allowed, s) {
		v.complain(name, strconv.Quote(s)+" is not one of "+strings.Join(allowed, ", "))
	}
	return s
}

// duration is a number of seconds, or nginx's form of a time.
func (v *variables) duration(name, otherwise string) time.Duration {
	s := v.text(name, otherwise)
	d, ok := parseDuration(s)
	if !ok {
		v.complain(name, strconv.Quote(s)+" is not a time such as 30, 30s or 1m")
	}
	return d
}

var pinnedVersion = regexp.MustCompile(`^APICAST_SERVICE_(\d+)_CONFIGURATION_VERSION$`)

func (v *variables) portal(p *Portal) {
	p.Configuration, p.File = v.text("APICAST_CONFIGURATION", ""), v.text("THREESCALE_CONFIG_FILE", "")
	if strings.HasPrefix(p.Configuration, "http:") || strings.HasPrefix(p.Configuration, "https:") {
		v.address("APICAST_CONFIGURATION")
	}
	p.Endpoint = v.address("THREESCALE_PORTAL_ENDPOINT")
	p.Channel = v.text("THREESCALE_DEPLOYMENT_ENV", "production")
	loader, cache := v.environments(p)
	p.Loader = v.oneOf("APICAST_CONFIGURATION_LOADER", loader, "boot", "lazy", "test")
	p.Cache = schema.Seconds(v.number("APICAST_CONFIGURATION_CACHE", cache, math.MinInt32))
	p.Wait = v.duration("APICAST_CONFIGURATION_TIMEOUT", "3")
	for id := range strings.SplitSeq(v.any("APICAST_SERVICES_LIST", "APICAST_SERVICES"), ",") {
		if id = strings.TrimSpace(id); id != "" {
			p.Services = append(p.Services, id)
		}
	}
	p.Hosts = v.text("APICAST_SERVICES_FILTER_BY_URL", "")
	if p.Limit = v.size("WEIR_PRODUCTS_LIMIT", "128m"); p.Limit == 0 {
		v.complain("WEIR_PRODUCTS_LIMIT", "is nothing")
	}
	p.Versions = map[string]string{}
	for name, value := range v.environment {
		if m := pinnedVersion.FindStringSubmatch(name); m != nil && value != "" {
			p.Versions[m[1]] = v.version(name)
		}
	}
}

var versionNumber = regexp.MustCompile(`^\d+$`)

func (v *variables) version(name string) string {
	s := v.text(name, "")
	if s != "latest" && !versionNumber.MatchString(s) {
		v.complain(name, strconv.Quote(s)+" is neither the number of a version nor latest")
	}
	return s
}

// environments are the defaults of the environments that are loaded: the
// channel's, then the named ones, a later one over an earlier.
func (v *variables) environments(p *Portal) (loader string, cache int) {
	loader = "lazy"
	for _, name := range append([]string{p.Channel}, strings.Split(v.text("APICAST_ENVIRONMENT", ""), ":")...) {
		switch name {
		case "production":
			loader, cache = "boot", 300
		case "staging", "sandbox":
			loader = "lazy" // an earlier one's cache stays
			if value, set := v.environment["APICAST_CONFIGURATION_CACHE"]; set && value == "" && cache == 0 {
				cache = -1 // APIcast makes no number of it, and keeps what it has
			}
		case "development":
			loader, cache = "lazy", 0
			p.Development, p.Example = true, p.Configuration+p.File+p.Endpoint == ""
		case "standalone":
			p.Standalone = true
			loader, cache = "boot", -1 // it is read once
		case "":
		case p.Channel:
			v.strange = append(v.strange, Ignored{"THREESCALE_DEPLOYMENT_ENV=" + name,
				"but for the name that the portal is asked for: the environments are production, staging, sandbox, development"})
		default:
			v.strange = append(v.strange, Ignored{"APICAST_ENVIRONMENT=" + name, "there is no such environment; files in Lua are not read"})
		}
	}
	return loader, cache
}

func (v *variables) ports(a *APIcast) {
	a.Ports = Ports{
		HTTP: v.port("APICAST_HTTP_PORT", 8080), HTTPS: v.port("APICAST_HTTPS_PORT", 0),
		Management: v.port("APICAST_MANAGEMENT_PORT", 8090), Metrics: v.port("APICAST_METRICS_PORT", 9421),
		HTTPProxy: v.flag("APICAST_HTTP_PROXY_PROTOCOL"), HTTPSProxy: v.flag("APICAST_HTTPS_PROXY_PROTOCOL"),
	}
	a.TLS = GatewayTLS{
		Certificate: v.text("APICAST_HTTPS_CERTIFICATE", ""), Key: v.text("APICAST_HTTPS_CERTIFICATE_KEY", ""),
		VerifyClient: v.oneOf("APICAST_HTTPS_VERIFY_CLIENT", "optional_no_ca", "on", "off", "optional", "optional_no_ca"),
		VerifyDepth:  v.number("APICAST_HTTPS_VERIFY_DEPTH", 1, 0),
	}
	if (a.TLS.Certificate == "") != (a.TLS.Key == "") {
		v.complain("APICAST_HTTPS_CERTIFICATE", "is needed together with APICAST_HTTPS_CERTIFICATE_KEY")
	}
}

func (v *variables) backend(a *APIcast) {
	a.Backend = Backend{
		Override:  v.address("BACKEND_ENDPOINT_OVERRIDE"),
		Resilient: v.oneOf("APICAST_BACKEND_CACHE_HANDLER", "strict", "strict", "resilient") == "resilient",
		Threads:   v.number("APICAST_REPORTING_THREADS", 0, 0),
		Codes:     v.flag("APICAST_RESPONSE_CODES"),
		Batches:   v.size("APICAST_POLICY_BATCHER_SHARED_MEMORY_SIZE", "20m"),
	}
	a.Proxies = Proxies{
		HTTP: v.any("http_proxy", "HTTP_PROXY"), HTTPS: v.any("https_proxy", "HTTPS_PROXY"),
		All: v.any("all_proxy", "ALL_PROXY"), No: v.any("no_proxy", "NO_PROXY"),
	}
}

// retryCases are nginx's, of proxy_next_upstream.
var retryCases = []string{
	"error", "timeout", "denied", "invalid_header", "http_500", "http_502", "http_503", "http_504", "http_403", "http_404", "http_429",
	"non_idempotent", "off",
}

// words is a list of allowed ones.
func (v *variables) words(name string, allowed ...string) string {
	s := v.text(name, "")
	for word := range strings.FieldsSeq(s) {
		if !slices.Contains(allowed, word) {
			v.complain(name, strconv.Quote(word)+" is not one of "+strings.Join(allowed, ", "))
		}
	}
	return s
}

func (v *variables) upstream(u *UpstreamVariables) {
	*u = UpstreamVariables{
		RetryCases: v.words("APICAST_UPSTREAM_RETRY_CASES", retryCases...), Verify: v.flag("OPENSSL_VERIFY"), CAs: v.text("SSL_CERT_FILE", ""),
		Certificate: v.text("APICAST_PROXY_HTTPS_CERTIFICATE", ""), Key: v.text("APICAST_PROXY_HTTPS_CERTIFICATE_KEY", ""),
		PassPhrases: v.text("APICAST_PROXY_HTTPS_PASSWORD_FILE", ""),
		CacheTime:   v.duration("APICAST_CACHE_MAX_TIME", "1m"), HeadSize: v.size("APICAST_PROXY_BUFFER_SIZE", "4k"),
	}
	for s := range strings.FieldsSeq(v.text("APICAST_CACHE_STATUS_CODES", "200 302")) {
		code, err := strconv.Atoi(s)
		if err != nil || code < 100 || code > 999 {
			v.complain("APICAST_CACHE_STATUS_CODES", strconv.Quote(s)+" in it is not a status")
			break
		}
		u.CacheStatuses = append(u.CacheStatuses, code)
	}
}

func (v *variables) rest(a *APIcast) {
	a.Management = v.oneOf("APICAST_MANAGEMENT_API", "status", "disabled", "status", "policies", "debug")
	for p := range strings.SplitSeq(v.text("APICAST_POLICY_LOAD_PATH", ""), ":") {
		if p != "" {
			a.PolicyPath = append(a.PolicyPath, p)
		}
	}
	if w := v.text("APICAST_WORKERS", "auto"); w != "auto" {
		a.Workers = v.number("APICAST_WORKERS", 0, 1)
	}
	a.PathRoutingOnly = v.flag("APICAST_PATH_ROUTING_ONLY")
	routing, old := v.flag("APICAST_PATH_ROUTING"), v.flag("APICAST_PATH_ROUTING_ENABLED")
	a.PathRouting = routing || old || a.PathRoutingOnly
	a.ExtendedMetrics = v.flag("APICAST_EXTENDED_METRICS")
	a.Resolver = v.resolver("RESOLVER")
	a.Keepalive = v.duration("HTTP_KEEPALIVE_TIMEOUT", "75")
	lines := strings.Fields(v.text("APICAST_LARGE_CLIENT_HEADER_BUFFERS", "4 8k"))
	var size Size
	n := 0
	if len(lines) == 2 {
		n, _ = strconv.Atoi(lines[0])
		_ = size.decode(&node{kind: text, text: lines[1], hidden: true}, "")
	}
	if n < 1 || size < 1 {
		v.complain("APICAST_LARGE_CLIENT_HEADER_BUFFERS", `is not a number and a size, as in "4 8k"`)
	}
	a.HeadLines, a.HeadLine = n, int(size)
	on, file := v.text("OPENTELEMETRY", ""), v.text("OPENTELEMETRY_CONFIG", "")
	if on != "" && on != "false" && on != "0" {
		var err error
		if a.Tracing, err = readTracing(file); err != nil {
			v.complain("OPENTELEMETRY_CONFIG", err.Error())
		}
	}
	a.Logs = Logs{
		Error: v.text("APICAST_LOG_FILE", "stderr"), Access: v.text("APICAST_ACCESS_LOG_FILE", "stdout"),
		Level:        v.oneOf("APICAST_LOG_LEVEL", "warn", "debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"),
		AccessBuffer: v.size("APICAST_ACCESS_LOG_BUFFER", ""),
	}
	for name, path := range map[string]string{"APICAST_LOG_FILE": a.Logs.Error, "APICAST_ACCESS_LOG_FILE": a.Logs.Access} {
		if strings.HasPrefix(path, "memory:") {
			v.complain(name, "is neither a file nor stdout, stderr or syslog")
		}
	}
}

// Alone makes c the configuration of a gateway that serves products of 3scale and
// nothing else: no listener and no store of APISIX's.
func (a *APIcast) Alone(c *Config) {
	c.APISIX.HTTP.NodeListen, c.APISIX.SSL.Enable = nil, false
	c.APISIX.EnableAdmin, c.APISIX.EnableControl, c.APISIX.Status = false, false, nil
	c.APISIX.HTTP.ProxyMode = "http"
	c.Deployment.Role, c.Deployment.DataPlane.Provider, c.Embedded = "data_plane", NoProvider, false
	c.Plugins, c.StreamPlugins = []string{}, []string{}
	c.Nginx.Processes = Auto(a.Workers)
	c.Nginx.ErrorLog, c.Nginx.ErrorLogLevel = a.Logs.Error, a.Logs.Level
	h := &c.Nginx.HTTP
	h.Log.Enable, h.UnderscoresInHeader, h.MaxBodySize, h.Timeouts.Keepalive = false, true, 0, a.Keepalive
	h.Upstream.Keepalive = 1024
	c.APISIX.SSL.TrustedCertificate = a.Upstream.CAs
	if a.Resolver != "" {
		c.APISIX.DNS.Resolvers = []string{a.Resolver}
	}
}

// NoProvider is the config_provider of a gateway without APISIX's objects; no file
// can choose it.
const NoProvider = "none"

// without says why variables change nothing.
var without = map[string]string{
	"APICAST_BUILTIN_POLICY_LOAD_PATH":      "policies are part of the binary",
	"APICAST_CUSTOM_CONFIG":                 "there is no Lua",
	"APICAST_DIR":                           "there are no files to find",
	"APICAST_LOADED_ENVIRONMENTS":           "internal to APIcast",
	"APICAST_LUA_SOCKET_KEEPALIVE_REQUESTS": "there is no Lua",
	"APICAST_MODULE":                        "there is no Lua",
	"APICAST_OIDC_LOG_LEVEL":                "issuers that fail are warnings",
	"APICAST_OPENRESTY_BINARY":              "there is no nginx",
	"APICAST_PROXY_HTTPS_SESSION_REUSE":     "sessions are reused",
	"APICAST_SERVICE_CACHE_SIZE":            "every product is kept",
	"APICAST_VALIDATE_POLICY_CONFIGS":       "configurations are always checked",
	"NGINX_METRICS_LOG_LEVEL":               "there is no nginx",
	"NGINX_METRICS_MAX_LOGS":                "there is no nginx",
	"REDIS_HOST":                            "only policies that name a Redis use one",
	"REDIS_PORT":                            "only policies that name a Redis use one",
	"REDIS_URL":                             "only policies that name a Redis use one",
}

// ignored are the variables that change nothing, sorted.
func (v *variables) ignored() (out []Ignored) {
	for _, name := range slices.Sorted(maps.Keys(v.environment)) {
		own := strings.HasPrefix(name, "APICAST_") || strings.HasPrefix(name, "THREESCALE_")
		why := without[name]
		switch {
		case v.used[name] || v.environment[name] == "" || why == "" && !own:
			continue
		case why == "":
			why = "unknown"
		}
		out = append(out, Ignored{name, why})
	}
	return append(out, v.strange...)
}

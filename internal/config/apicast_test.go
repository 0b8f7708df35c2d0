package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func environ(vars map[string]string) (out []string) {
	for k, v := range vars {
		out = append(out, k+"="+v)
	}
	return out
}

func TestAPIcastDefaults(t *testing.T) {
	a, err := LoadAPIcast("", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &APIcast{
		Portal:     Portal{Channel: "production", Loader: "boot", Cache: 300 * time.Second, Wait: 3 * time.Second, Limit: 128 << 20, Versions: map[string]string{}},
		Ports:      Ports{HTTP: 8080, Management: 8090, Metrics: 9421},
		TLS:        GatewayTLS{VerifyClient: "optional_no_ca", VerifyDepth: 1},
		Backend:    Backend{Batches: 20 << 20},
		Upstream:   UpstreamVariables{CacheStatuses: []int{200, 302}, CacheTime: time.Minute, HeadSize: 4096},
		Logs:       Logs{Error: "stderr", Level: "warn", Access: "stdout"},
		Management: "status", Keepalive: 75 * time.Second, HeadLine: 8192, HeadLines: 4,
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("got %+v, want %+v", a, want)
	}
}

func TestAPIcastEnvironments(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"", "boot 5m0s production"},
		{"APICAST_CONFIGURATION_LOADER=lazy", "lazy 5m0s production"},
		{"APICAST_CONFIGURATION_CACHE=-1", "boot -1s production"},
		{"APICAST_CONFIGURATION_CACHE=", "boot 5m0s production"},
		{"THREESCALE_DEPLOYMENT_ENV=staging", "lazy 0s staging"},
		{"THREESCALE_DEPLOYMENT_ENV=sandbox APICAST_CONFIGURATION_CACHE=7", "lazy 7s sandbox"},
		{"THREESCALE_DEPLOYMENT_ENV=staging APICAST_CONFIGURATION_CACHE=", "lazy -1s staging"},
		{"THREESCALE_DEPLOYMENT_ENV=foobar", "lazy 0s foobar"},
		{"THREESCALE_DEPLOYMENT_ENV=development", "lazy 0s development example"},
		{"THREESCALE_DEPLOYMENT_ENV=development THREESCALE_CONFIG_FILE=f", "lazy 0s development"},
		{"APICAST_ENVIRONMENT=staging", "lazy 5m0s production"},
		{"APICAST_ENVIRONMENT=development:production", "boot 5m0s production example"},
		{"APICAST_ENVIRONMENT=standalone", "boot -1s production standalone"},
	} {
		a, err := LoadAPIcast("", strings.Fields(c.env))
		if err != nil {
			t.Errorf("%s: %v", c.env, err)
			continue
		}
		got := fmt.Sprintf("%s %v %s", a.Portal.Loader, a.Portal.Cache, a.Portal.Channel)
		for name, on := range map[string]bool{" example": a.Portal.Example, " standalone": a.Portal.Standalone} {
			if on {
				got += name
			}
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.env, got, c.want)
		}
	}
}

func TestAPIcastVariables(t *testing.T) {
	vars := map[string]string{
		"THREESCALE_PORTAL_ENDPOINT": "http://t@p", "APICAST_SERVICES": "1, 2,", "APICAST_SERVICES_FILTER_BY_URL": "^a",
		"APICAST_SERVICE_42_CONFIGURATION_VERSION": "7", "APICAST_SERVICE_43_CONFIGURATION_VERSION": "", "APICAST_CONFIGURATION_TIMEOUT": "5", "WEIR_PRODUCTS_LIMIT": "1m",
		"APICAST_HTTP_PORT": "1", "APICAST_HTTPS_PORT": "2", "APICAST_MANAGEMENT_PORT": "3", "APICAST_METRICS_PORT": "4",
		"APICAST_HTTP_PROXY_PROTOCOL": "true", "APICAST_HTTPS_PROXY_PROTOCOL": "1", "APICAST_HTTPS_CERTIFICATE": "c", "APICAST_HTTPS_CERTIFICATE_KEY": "k",
		"APICAST_HTTPS_VERIFY_CLIENT": "on", "APICAST_HTTPS_VERIFY_DEPTH": "3",
		"BACKEND_ENDPOINT_OVERRIDE": "http://b", "APICAST_BACKEND_CACHE_HANDLER": "resilient", "APICAST_REPORTING_THREADS": "4", "APICAST_POLICY_BATCHER_SHARED_MEMORY_SIZE": "64m", "APICAST_RESPONSE_CODES": "1",
		"http_proxy": "http://1", "HTTP_PROXY": "http://2", "HTTPS_PROXY": "http://3", "all_proxy": "http://4", "NO_PROXY": "*",
		"APICAST_UPSTREAM_RETRY_CASES": "error http_503", "OPENSSL_VERIFY": "true", "SSL_CERT_FILE": "ca", "APICAST_PROXY_HTTPS_CERTIFICATE": "pc",
		"APICAST_PROXY_HTTPS_CERTIFICATE_KEY": "pk", "APICAST_CACHE_STATUS_CODES": "200 404", "APICAST_CACHE_MAX_TIME": "2m", "APICAST_PROXY_BUFFER_SIZE": "8k",
		"APICAST_LOG_FILE": "e", "APICAST_LOG_LEVEL": "debug", "APICAST_ACCESS_LOG_FILE": "a", "APICAST_ACCESS_LOG_BUFFER": "1m",
		"APICAST_MANAGEMENT_API": "debug", "APICAST_POLICY_LOAD_PATH": "/a:/b", "APICAST_WORKERS": "2", "APICAST_PATH_ROUTING_ENABLED": "1",
		"APICAST_EXTENDED_METRICS": "true", "RESOLVER": "127.0.0.1:53", "HTTP_KEEPALIVE_TIMEOUT": "0",
		"APICAST_LARGE_CLIENT_HEADER_BUFFERS": "2 16k", "THREESCALE_DEPLOYMENT_ENV": "staging",
	}
	a, err := LoadAPIcast("f.json", environ(vars))
	if err != nil {
		t.Fatal(err)
	}
	want := &APIcast{
		Portal: Portal{
			Configuration: "f.json", Endpoint: "http://t@p", Channel: "staging", Loader: "lazy", Wait: 5 * time.Second, Limit: 1 << 20,
			Services: []string{"1", "2"}, Hosts: "^a", Versions: map[string]string{"42": "7"},
		},
		Ports:      Ports{HTTP: 1, HTTPS: 2, Management: 3, Metrics: 4, HTTPProxy: true, HTTPSProxy: true},
		TLS:        GatewayTLS{Certificate: "c", Key: "k", VerifyClient: "on", VerifyDepth: 3},
		Backend:    Backend{Override: "http://b", Resilient: true, Threads: 4, Codes: true, Batches: 64 << 20},
		Proxies:    Proxies{HTTP: "http://1", HTTPS: "http://3", All: "http://4", No: "*"},
		Upstream:   UpstreamVariables{RetryCases: "error http_503", Verify: true, CAs: "ca", Certificate: "pc", Key: "pk", CacheStatuses: []int{200, 404}, CacheTime: 2 * time.Minute, HeadSize: 8192},
		Logs:       Logs{Error: "e", Level: "debug", Access: "a", AccessBuffer: 1 << 20},
		Management: "debug", PolicyPath: []string{"/a", "/b"}, Workers: 2, PathRouting: true, ExtendedMetrics: true,
		Resolver: "127.0.0.1:53", HeadLine: 16384, HeadLines: 2,
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("got %+v, want %+v", a, want)
	}
	if !UsesAPIcast(environ(vars)) || UsesAPIcast(nil) || UsesAPIcast([]string{"APICAST_WORKERS=1", "APICAST_CONFIGURATION="}) {
		t.Error("UsesAPIcast")
	}
}

func TestAPIcastIgnored(t *testing.T) {
	vars := map[string]string{}
	for name := range without {
		vars[name] = "x"
	}
	vars["APICAST_ENVIRONMENT"] = "production:/my/env.lua"
	vars["APICAST_LOG_LEVL"], vars["THREESCALE_X"], vars["PATH"], vars["APICAST_CUSTOM_CONFIG"] = "x", "x", "x", ""
	a, err := LoadAPIcast("", environ(vars))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range a.Ignored {
		if i.Why == "" {
			t.Error(i.Path)
		}
		got = append(got, i.Path)
	}
	want := slices.DeleteFunc(append(slices.Collect(maps.Keys(without)), "APICAST_LOG_LEVL", "THREESCALE_X"), func(n string) bool { return n == "APICAST_CUSTOM_CONFIG" })
	slices.Sort(want)
	want = append(want, "APICAST_ENVIRONMENT=/my/env.lua")
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPIcastRefuses(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"APICAST_CONFIGURATION_LOADER=x", "is not one of boot, lazy, test"},
		{"APICAST_CONFIGURATION_CACHE=1h", `APICAST_CONFIGURATION_CACHE: "1h" is not a whole number`},
		{"APICAST_CONFIGURATION_CACHE=99999999999", "99999999999 is too much"},
		{"APICAST_CONFIGURATION_TIMEOUT=-1", "is not a time"},
		{"APICAST_HTTP_PORT=70000", "70000 is not a port"},
		{"APICAST_HTTPS_PORT=-1", "-1 is less than 0"},
		{"APICAST_WORKERS=0", "0 is less than 1"},
		{"APICAST_WORKERS=two", "is not a whole number"},
		{"APICAST_REPORTING_THREADS=-1", "less than 0"},
		{"APICAST_HTTPS_VERIFY_DEPTH=-1", "less than 0"},
		{"APICAST_HTTPS_VERIFY_CLIENT=maybe", "is not one of on, off, optional, optional_no_ca"},
		{"APICAST_BACKEND_CACHE_HANDLER=allow", "is not one of strict, resilient"},
		{"APICAST_SERVICE_7_CONFIGURATION_VERSION=newest", `APICAST_SERVICE_7_CONFIGURATION_VERSION: "newest" is neither the number of a version nor latest`},
		{"APICAST_UPSTREAM_RETRY_CASES=error http_501", `"http_501" is not one of error, timeout`},
		{"OPENSSL_VERIFY=maybe", `OPENSSL_VERIFY: "maybe" is not one of true, 1, false, 0`},
		{"APICAST_PATH_ROUTING=yes", "is not one of true"},
		{"APICAST_PATH_ROUTING_ONLY=on", "is not one of true"},
		{"APICAST_PATH_ROUTING_ENABLED=TRUE", "is not one of true"},
		{"APICAST_EXTENDED_METRICS=x", "is not one of true"},
		{"APICAST_RESPONSE_CODES=x", "is not one of true"},
		{"APICAST_HTTP_PROXY_PROTOCOL=x", "is not one of true"},
		{"APICAST_HTTPS_PROXY_PROTOCOL=x", "is not one of true"},
		{"RESOLVER=zzz", `RESOLVER: "zzz" is not an IP address, perhaps with a port`},
		{"RESOLVER=127.0.0.1:x", "is not an IP address"},
		{"RESOLVER=10.0.0.1 10.0.0.2", "is not an IP address"},
		{"THREESCALE_PORTAL_ENDPOINT=pa55", "THREESCALE_PORTAL_ENDPOINT: is not an http or https URL"},
		{"THREESCALE_PORTAL_ENDPOINT=ftp://pa55@portal", "THREESCALE_PORTAL_ENDPOINT: is not an http or https URL"},
		{"APICAST_CONFIGURATION=http:pa55", "APICAST_CONFIGURATION: is not an http or https URL"},
		{"WEIR_PRODUCTS_LIMIT=0", "WEIR_PRODUCTS_LIMIT: is nothing"},
		{"WEIR_PRODUCTS_LIMIT=all", "is not a size"},
		{"HTTP_KEEPALIVE_TIMEOUT=x", "is not a time"},
		{"APICAST_POLICY_BATCHER_SHARED_MEMORY_SIZE=x", "is not a size"},
		{"OPENTELEMETRY=1 OPENTELEMETRY_CONFIG=/nowhere", "OPENTELEMETRY_CONFIG: open /nowhere"},
		{"APICAST_HTTPS_CERTIFICATE=x", "is needed together with"},
		{"APICAST_CACHE_STATUS_CODES=any", "is not a status"},
		{"APICAST_CACHE_MAX_TIME=x", "is not a time"},
		{"APICAST_PROXY_BUFFER_SIZE=x", "is not a size"},
		{"APICAST_LARGE_CLIENT_HEADER_BUFFERS=8k", "is not a number and a size"},
		{"APICAST_MANAGEMENT_API=all", "is not one of"},
		{"BACKEND_ENDPOINT_OVERRIDE=http://u:p@host:bad", "BACKEND_ENDPOINT_OVERRIDE: is not an http or https URL"},
		{"BACKEND_ENDPOINT_OVERRIDE=backend:3000", "BACKEND_ENDPOINT_OVERRIDE: is not an http or https URL"},
		{"APICAST_ACCESS_LOG_FILE=memory:32k", "is neither a file"},
		{"APICAST_LOG_LEVEL=loud", "is not one of"},
	} {
		env := []string{c.env}
		if strings.HasPrefix(c.env, "OPENTELEMETRY") {
			env = strings.Fields(c.env)
		}
		if _, err := LoadAPIcast("", env); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s: %v, want %s", c.env, err, c.want)
		}
	}
}

func TestAPIcastAccepts(t *testing.T) {
	for _, env := range []string{
		"RESOLVER=::1", "RESOLVER=[::1]", "RESOLVER=[::1]:53", "RESOLVER=127.0.0.1:53", "APICAST_WORKERS=auto", "OPENSSL_VERIFY=0",
		"APICAST_SERVICE_7_CONFIGURATION_VERSION=latest", "APICAST_CONFIGURATION_TIMEOUT=0.5", "OPENTELEMETRY=false", "OPENTELEMETRY=0",
		"APICAST_UPSTREAM_RETRY_CASES=off", "THREESCALE_PORTAL_ENDPOINT=https://token@portal.test/path", "APICAST_CONFIGURATION=file:///x",
	} {
		a, err := LoadAPIcast("", []string{env})
		if err != nil || len(a.Ignored) > 0 || a.Tracing != nil {
			t.Errorf("%s: %v, %+v", env, err, a)
		}
	}
	a, err := LoadAPIcast("", []string{"THREESCALE_DEPLOYMENT_ENV=prod"})
	if err != nil || len(a.Ignored) != 1 || a.Ignored[0].Path != "THREESCALE_DEPLOYMENT_ENV=prod" {
		t.Errorf("%v, %+v", err, a.Ignored)
	}
}

func TestAlone(t *testing.T) {
	c, err := Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := LoadAPIcast("", []string{"RESOLVER=127.0.0.1", "APICAST_LOG_LEVEL=debug"})
	if err != nil {
		t.Fatal(err)
	}
	a.Alone(c)
	if n := len(c.APISIX.Sockets()); n != 0 || c.Deployment.Provider() != NoProvider || c.Embedded || c.Nginx.ErrorLogLevel != "debug" || c.APISIX.DNS.Resolvers[0] != "127.0.0.1" {
		t.Errorf("%d sockets, %+v", n, c)
	}
}

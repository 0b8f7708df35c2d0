package apicast

import (
	"fmt"
	"strings"
	"testing"
)

const standaloneText = `{
 "global": {"log_level": "debug"},
 "server": {"listen": [{"port": 8080, "name": "main"}, {"port": 8443, "name": "secure", "proxy_protocol": true, "tls": {"certificate": "c", "certificate_key": "k"}}, {"port": 8081}]},
 "routes": [
  {"match": {"uri_path": "/t", "server_port": "main"}, "destination": {"service": "echo"}},
  {"match": {"server_port": 8443}, "destination": {"upstream": "api"}, "routes": [
    {"match": {"http_method": "POST"}, "destination": {"service": "echo"}},
    {"match": {"http_method": "PUT", "uri_path": "/p"}, "destination": {"service": "missing"}}]},
  {"match": {"http_host": "A.test"}, "destination": {"service": "echo"}},
  {"match": {"phase_of_moon": "full"}, "destination": {"service": "echo"}},
  {"match": {"server_port": "default", "always": false}, "destination": {"service": "echo"}},
  {"match": {"server_port": "default", "always": true}, "destination": {"http_response": 200}}
 ],
 "internal": [{"name": "echo", "upstream": "http://up:1", "policy_chain": [{"policy": "apicast.policy.echo", "configuration": {"status": 201}}, {"policy": "x", "version": "2"}]}],
 "external": [{"name": "api", "server": "https://api.test/v1", "load_balancer": "round_robin", "retries": 2}]
}`

func TestStandaloneRoutes(t *testing.T) {
	s, err := ReadStandalone([]byte(standaloneText))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, host, path string
		port               int
		want               string
	}{
		{"GET", "x", "/t", 8080, "internal/echo"},
		{"GET", "x", "/t/", 8080, "internal/not_found"},
		{"GET", "x", "/t", 8443, "external/api"},
		{"POST", "x", "/t", 8443, "internal/echo"},
		{"PUT", "x", "/q", 8443, "external/api"},
		{"PUT", "x", "/p", 8443, "internal/not_found"},
		{"GET", "a.test", "/q", 8080, "internal/echo"},
		{"GET", "b.test", "/q", 8080, "internal/not_found"},
		{"GET", "b.test", "/q", 8081, "internal/not_found"},
	} {
		if got := s.Routes.Find(&Request{c.method, c.host, c.path, c.port}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if got := fmt.Sprintf("%+v %v", s.Listen, s.Unused); got != "[{Port:8080 Name:main ProxyProtocol:false TLS:false Certificate: Key:} {Port:8443 Name:secure ProxyProtocol:true TLS:true Certificate:c Key:k} {Port:8081 Name:default ProxyProtocol:false TLS:false Certificate: Key:}] [global.log_level]" {
		t.Error(got)
	}
}

func TestStandaloneProducts(t *testing.T) {
	s, err := ReadStandalone([]byte(standaloneText))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Entries {
		p, err := Decode(e.Product(e.OIDC))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %q %s %s", p.ID, p.Hosts, p.Upstream, p.Chain))
	}
	want := []string{
		`internal/echo [] http://up:1 [{echo builtin {"status":201}} {x 2 {}} {standalone builtin {"proxy":true}}]`,
		`external/api [] https://api.test/v1 [{standalone builtin {"proxy":true}}]`,
		`internal/not_found []  [{echo builtin {"status":404}} {standalone builtin {"proxy":true}}]`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
}

func TestStandaloneRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		`[`:                         "Expected value",
		`{"routes":[{"match":{}}]}`: "routes[0]: route is missing destination",
		`{"routes":[{"match":{"uri_path":[]},"destination":{}}]}`: "routes[0].match.uri_path: a string is expected",
		`{"routes":[{"destination":{},"routes":[{}]}]}`:           "routes[0].routes[0]: route is missing destination",
		`{"server":{"listen":[{}]}}`:                              "server.listen[0].port: 0 is not a port",
		`{"internal":[{"policy_chain":[{}]}]}`:                    "internal[0].policy_chain[0] has no policy",
		`{"internal":[{"name":"a"},{"name":"a"}]}`:                "internal[1] has no name of its own",
		`{"external":[{}]}`:                                       "external[0] has no name of its own",
	} {
		if _, err := ReadStandalone([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}

func FuzzReadStandalone(f *testing.F) {
	f.Add([]byte(standaloneText))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ReadStandalone(raw)
		if err != nil {
			return
		}
		if id := s.Routes.Find(&Request{"GET", "h", "/", 80}); !s.has(id) {
			t.Errorf("a route leads to %s, which is not there", id)
		}
		for _, e := range s.Entries {
			if _, err := Decode(e.Product(e.OIDC)); err != nil {
				t.Errorf("%s: %v", e.Service, err)
			}
		}
	})
}

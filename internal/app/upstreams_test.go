package app

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameserver answers every question for A records with 127.0.0.1, for a second.
func nameserver(t *testing.T) (addr string, asked *atomic.Int32, broken *atomic.Bool) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked, broken = new(atomic.Int32), new(atomic.Bool)
	done := make(chan bool)
	go func() {
		defer close(done)
		b := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil {
				continue
			}
			asked.Add(1)
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			switch {
			case broken.Load():
				m.RCode = dnsmessage.RCodeServerFailure
			case q.Type == dnsmessage.TypeA:
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			if reply, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return conn.LocalAddr().String(), asked, broken
}

// Names, services, certificates and health checks, as config.yaml sets them up.
func TestUpstreams(t *testing.T) {
	dns, asked, broken := nameserver(t)
	plain := origin(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "sni ", r.TLS.ServerName) }))
	t.Cleanup(secure.Close)
	_, port, _ := net.SplitHostPort(plain)
	_, securePort, _ := net.SplitHostPort(strings.TrimPrefix(secure.URL, "https://"))

	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := `{"routes":[
		{"uri":"/name","upstream":{"nodes":{"svc.test:` + port + `":1}}},
		{"uri":"/service","upstream":{"service_name":"svc.test:` + port + `","discovery_type":"dns"}},
		{"uri":"/tls","upstream":{"scheme":"https","pass_host":"rewrite","upstream_host":"example.com","tls":{"verify":true},"nodes":{"127.0.0.1:` + securePort + `":1}}},
		{"id":"c","uri":"/checked","upstream":{"nodes":{"svc.test:` + port + `":1},"checks":{"active":{"http_path":"/","healthy":{"interval":1}}}}}]}`
	if err := os.WriteFile(filepath.Join(dir, "apisix.json"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	o, _ := options(t, dir, "deployment: {role: data_plane, role_data_plane: {config_provider: json}}")
	o.Config.File = filepath.Join(dir, "config.yaml")
	o.Config.APISIX.DNS.Resolvers = []string{dns}
	o.Config.APISIX.SSL.TrustedCertificate = "system, " + ca
	o.Config.Discovery = map[string]json.RawMessage{"dns": json.RawMessage(`{"servers":["` + dns + `"],"order":["last","SRV","A"]}`)}
	g := start(t, o)
	defer stop(t, g)
	url := "http://" + g.Data()[0].String()
	for path, want := range map[string]string{"/name": "hello", "/service": "hello", "/tls": "sni example.com", "/checked": "hello"} {
		if status, body := get(t, url+path); status != 200 || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if asked.Load() == 0 {
		t.Error("the configured server was not asked")
	}
	broken.Store(true)
	at := asked.Load()
	until(t, "the names are asked for again", func() bool {
		status, _ := get(t, url+"/name")
		if status != 200 {
			t.Fatal("while DNS fails:", status)
		}
		return asked.Load() > at+4
	})
	until(t, "the report of the checks", func() bool {
		_, body := get(t, "http://"+g.Control().String()+"/v1/healthcheck/routes/c")
		return strings.HasPrefix(body, `{"name":"/routes/c","type":"http","nodes":[{"ip":"127.0.0.1","port":`+port+`,"hostname":"127.0.0.1","hostheader":"svc.test","status":"healthy"`)
	})
}

// What cannot work is told at the start.
func TestUpstreamSettings(t *testing.T) {
	for _, tc := range []struct{ discovery, trusted, want string }{
		{`{"dns":{"order":["a"]}}`, "", `"a" matches none of the enum values`},
		{`{"dns":[]}`, "", "discovery.dns: "},
		{`{}`, "/no/such/file", "ssl_trusted_certificate: open /no/such/file"},
		{`{}`, "app.go", "no certificate in app.go"},
	} {
		o, _ := options(t, t.TempDir(), "")
		if err := json.Unmarshal([]byte(tc.discovery), &o.Config.Discovery); err != nil {
			t.Fatal(err)
		}
		o.Config.APISIX.SSL.TrustedCertificate = tc.trusted
		if g, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: %v", tc.discovery, tc.trusted, err)
			if err == nil {
				stop(t, g)
			}
		}
	}
}

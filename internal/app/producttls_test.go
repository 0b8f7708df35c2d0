package app

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestProductHandshakes: a product's policies decide which certificate clients of
// its hosts see and whether they are asked for theirs (apicast.md §6.1).
func TestProductHandshakes(t *testing.T) {
	server, clients := newAuthority(t), newAuthority(t)
	server.issue("own", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	server.issue("product", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	clients.issue("client", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	listed, err := os.ReadFile(clients.file("ca"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(listed))
	if err != nil {
		t.Fatal(err)
	}
	shows := fmt.Sprintf(`{"id":1,"proxy":{"hosts":["shows.test"],"policy_chain":[
		{"name":"apicast.policy.tls","configuration":{"certificates":[{"certificate_path":%q,"certificate_key_path":%q}]}},
		{"name":"apicast.policy.echo","configuration":{"status":201}}]}}`, server.file("product"), server.file("product-key"))
	asks := `{"id":2,"proxy":{"hosts":["asks.test"],"policy_chain":[
		{"name":"apicast.policy.tls_validation","configuration":{"whitelist":[{"pem_certificate":` + string(text) + `}]}},
		{"name":"apicast.policy.echo","configuration":{"status":202}}]}}`
	own, product := serialOf(t, server.file("own")), serialOf(t, server.file("product"))
	for _, tc := range []struct {
		name string
		vars []string
		want map[string]string // by name of the client and host
	}{
		{"host routing", nil, map[string]string{
			"- plain.test": "203 " + own, "- shows.test": "201 " + product, "- none.test": "404 " + own, "- ": "404 " + own,
			"- asks.test": "400 " + own, "client asks.test": "202 " + own, "stranger asks.test": "400 " + own, "client shows.test": "201 " + product,
		}},
		{"clients are not asked by the gateway", []string{"APICAST_HTTPS_VERIFY_CLIENT=off"}, map[string]string{
			"client asks.test": "202 " + own, "- asks.test": "400 " + own, "client plain.test": "203 " + own,
		}},
		{"path routing", []string{"APICAST_PATH_ROUTING=true", "APICAST_HTTPS_VERIFY_CLIENT=off"}, map[string]string{
			"- shows.test": "201 " + own, "client asks.test": "400 " + own,
		}},
		{"lazy", []string{"APICAST_CONFIGURATION_LOADER=lazy", "APICAST_CONFIGURATION_CACHE=300"}, map[string]string{
			"- shows.test": "201 " + product, "client asks.test": "202 " + own,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			file := dir + "/products.json"
			if err := os.WriteFile(file, []byte(productsOf(shows, asks, echoing(3, "plain.test", 203))), 0o600); err != nil {
				t.Fatal(err)
			}
			o, _ := accountOptions(t, dir, file, append(tc.vars,
				"APICAST_HTTPS_CERTIFICATE="+server.file("own"), "APICAST_HTTPS_CERTIFICATE_KEY="+server.file("own-key"))...)
			ports := freePorts(t, 2)
			o.APIcast.Ports.HTTP, o.APIcast.Ports.HTTPS = ports[0], ports[1]
			g := start(t, o)
			defer stop(t, g)
			for request, want := range tc.want {
				who, host, _ := strings.Cut(request, " ")
				if got := askSecurely(t, g, clients, who, host); got != want {
					t.Errorf("%s: %s, want %s", request, got, want)
				}
			}
		})
	}
}

// askSecurely returns the status of a GET for a host and the serial number of the
// certificate that was shown.
func askSecurely(t *testing.T, g *Gateway, clients *authority, who, host string) string {
	t.Helper()
	addr := g.Products()[1].String()
	conf := &tls.Config{InsecureSkipVerify: true, ServerName: host}
	switch who {
	case "client":
		pair, err := tls.LoadX509KeyPair(clients.file("client"), clients.file("client-key"))
		if err != nil {
			t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	case "stranger":
		pair, err := selfSigned()
		if err != nil {
			t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if host == "" {
		host = addr
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: conf, DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true,
	}}
	r, err := http.NewRequest("GET", "https://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	res, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return fmt.Sprint(res.StatusCode, " ", res.TLS.PeerCertificates[0].SerialNumber)
}

func serialOf(t *testing.T, file string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, ".pem")+"-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.String()
}

package app

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/engine"
)

func TestBelieve(t *testing.T) {
	believe := func(source string) (engine.Config, error) {
		c, err := config.Parse("test", []byte(source), nil)
		if err != nil {
			t.Fatal(err)
		}
		var cfg engine.Config
		err = (&Gateway{Options: Options{Config: c}}).believe(&cfg)
		return cfg, err
	}
	for _, c := range []struct {
		source  string
		header  string // empty: nobody reports
		from    string
		trusted string // an address; empty: no boundary
	}{
		{"{}", "X-Real-IP", "127.0.0.1", ""},
		{"nginx_config: {http: {real_ip_header: X-Forwarded-For, real_ip_from: [10.0.0.0/8]}}", "X-Forwarded-For", "10.1.1.1", ""},
		{"nginx_config: {http: {real_ip_from: ['unix:']}}", "", "", ""},
		{"nginx_config: {http: {real_ip_header: proxy_protocol}}", "", "", ""},
		{"apisix: {trusted_addresses: ['192.0.2.0/24', '::1']}", "X-Real-IP", "127.0.0.1", "192.0.2.7"},
	} {
		cfg, err := believe(c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		other := netip.MustParseAddr("198.51.100.1")
		switch r := cfg.RealIP; {
		case (r == nil) != (c.header == ""):
			t.Errorf("%s: %+v", c.source, r)
		case r != nil && (r.Header != c.header || !r.From(netip.MustParseAddr(c.from)) || r.From(other)):
			t.Errorf("%s: %+v", c.source, r)
		}
		if (cfg.Trusted == nil) != (c.trusted == "") || cfg.Trusted != nil && (!cfg.Trusted(netip.MustParseAddr(c.trusted)) || cfg.Trusted(other)) {
			t.Errorf("%s: trusts others", c.source)
		}
	}
	c, err := config.Parse("test", []byte("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.APISIX.TrustedAddresses = []string{"nowhere"}
	err = (&Gateway{Options: Options{Config: c}}).believe(new(engine.Config))
	if err == nil || !strings.Contains(err.Error(), "apisix.trusted_addresses: invalid ip address: nowhere") {
		t.Error(err)
	}
}

func TestTLSPorts(t *testing.T) {
	for source, want := range map[string][]int{
		"{}":                             {9443},
		"apisix: {ssl: {enable: false}}": nil,
		"apisix: {ssl: {listen: [{port: 9443}, {port: 9444, ip: 127.0.0.1}]}}": {9443, 9444},
	} {
		c, err := config.Parse("test", []byte(source), nil)
		if err != nil {
			t.Fatal(err)
		}
		g := &Gateway{Options: Options{Config: c}}
		if got := g.tlsPorts(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}

func TestUnderscores(t *testing.T) {
	for setting, want := range map[string]string{"on": "[a] [b]", "off": "[] [b]"} {
		o, _ := options(t, t.TempDir(), withKey+"plugins: [mocking]\n")
		o.Config.Nginx.HTTP.UnderscoresInHeader = setting == "on"
		g := start(t, o)
		if status, body := do(t, g, "PUT", "/routes/1", `{"uri":"/a","plugins":{"mocking":{"response_example":"[$http_x_under] [$http_x_plain]"}}}`); status != 201 {
			t.Fatal(body)
		}
		if _, body := get(t, "http://"+g.Data()[0].String()+"/a", "x_under", "a", "x-plain", "b"); body != want {
			t.Errorf("%s: %s", setting, body)
		}
		stop(t, g)
	}
}

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// directives are the comments "# name: text" of a test file.
func directives(source []byte, name string) (out []string) {
	for line := range strings.Lines(string(source)) {
		if text, ok := strings.CutPrefix(line, "# "+name+": "); ok {
			out = append(out, strings.TrimSpace(text))
		}
	}
	return out
}

func each(t *testing.T, pattern string, run func(t *testing.T, name string, source []byte)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			source, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			run(t, f, source)
		})
	}
}

func TestBad(t *testing.T) {
	each(t, "testdata/*.bad.yaml", func(t *testing.T, name string, source []byte) {
		_, err := Parse(name, source, directives(source, "env"))
		if err == nil {
			t.Fatal("accepted")
		}
		want := append(directives(source, "error"), name+": ")
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q lacks %q", err, w)
			}
		}
		if len(want) == 1 {
			t.Error("the file names no error")
		}
		for _, secret := range directives(source, "never") {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error %q shows %q", err, secret)
			}
		}
	})
}

func TestGood(t *testing.T) {
	each(t, "testdata/*.good.yaml", func(t *testing.T, name string, source []byte) {
		c, err := Parse(name, source, directives(source, "env"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range c.Ignored {
			got = append(got, i.Path+": "+i.Why)
		}
		want := directives(source, "ignored")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("ignored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func full(t *testing.T) *Config {
	t.Helper()
	source, err := os.ReadFile("testdata/full.good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("full", source, directives(source, "env"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestValues(t *testing.T) {
	c := full(t)
	a, h, d := &c.APISIX, &c.Nginx.HTTP, &c.Deployment
	for i, v := range []struct{ got, want any }{
		{c.Embedded, false},
		{a.HTTP.NodeListen, Listeners{{Port: 9080}, {IP: "127.0.0.2", Port: 9082}, {Port: 9083}}},
		{a.SSL.Listen, Listeners{{Port: 9443, HTTP3: true}}},
		{a.StreamProxy.TCP, []StreamListener{
			{From: 9100, To: 9100}, {IP: "127.0.0.1", From: 9101, To: 9101}, {From: 2000, To: 2100}, {From: 9102, To: 9102, TLS: true},
		}},
		{a.StreamProxy.UDP, []StreamListener{{IP: "::1", From: 9200, To: 9200}}},
		{a.Status, &Endpoint{"127.0.0.1", 7085}},
		{a.Control.String(), "127.0.0.1:9090"},
		{a.DataEncryption.Keyring, Keyring{"edd1c9f0985e76a2"}},
		{a.Server.Tokens, true},
		{c.Nginx.Processes, Auto(2)},
		{c.Nginx.Drain, 240 * time.Second},
		{h.Timeouts.Keepalive, 75 * time.Second},
		{h.Timeouts.Body, 90 * time.Second},
		{h.Timeouts.Header, 60 * time.Second},
		{h.MaxBodySize, Size(10 << 20)},
		{h.RealIP.Recursive, true},
		{h.Log.Format, "$remote_addr"},
		{h.Log.Buffer, Size(16384)},
		{h.Upstream, UpstreamConns{320, 1000, time.Minute}},
		{d.Etcd.Host, []string{"http://10.0.0.7:2379"}},
		{d.Etcd.Prefix, "/weir"},
		{d.Etcd.Timeout, 30 * time.Second},
		{d.Etcd.Password.Reveal(), "12345"},
		{d.Etcd.TLS.Verify, true},
		{d.Admin.Listen.String(), "0.0.0.0:9181"},
		{d.Admin.Keys, []AdminKey{{"admin", "abc", "admin"}, {"v", "def", "viewer"}}},
		{len(d.Admin.Allow), 0},
		{d.Provider(), "etcd"},
		{c.Plugins, []string{"key-auth", "limit-count"}},
		{string(c.PluginAttr["prometheus"]), `{"export_addr":{"ip":"127.0.0.1","port":9091},"on":true}`},
		{c.Weir, Weir{Store: Store{"/var/lib/weir", "auto"}, AckTimeout: 2 * time.Second, StaleMaxAge: 24 * time.Hour, Check: Check{30 * time.Second, 10_000}, MergeSlashes: true}},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			t.Errorf("%d: got %#v, want %#v", i, v.got, v.want)
		}
	}
}

func TestSockets(t *testing.T) {
	want := []Socket{
		{Network: "tcp4", Addr: "0.0.0.0:9080", HTTP2: true},
		{Network: "tcp6", Addr: "[::]:9080", HTTP2: true, Optional: true},
		{Network: "tcp4", Addr: "127.0.0.2:9082", HTTP2: true},
		{Network: "tcp4", Addr: "0.0.0.0:9083", HTTP2: true},
		{Network: "tcp6", Addr: "[::]:9083", HTTP2: true, Optional: true},
		{Network: "tcp4", Addr: "0.0.0.0:9181", HTTP2: true, Proxy: true},
		{Network: "tcp6", Addr: "[::]:9181", HTTP2: true, Proxy: true, Optional: true},
		{Network: "tcp4", Addr: "0.0.0.0:9443", HTTP2: true, TLS: true, HTTP3: true},
		{Network: "tcp6", Addr: "[::]:9443", HTTP2: true, TLS: true, HTTP3: true, Optional: true},
	}
	if got := full(t).APISIX.Sockets(); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	c := full(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		out := fmt.Sprintf(verb, c.Deployment) + fmt.Sprintf(verb, c.APISIX.DataEncryption)
		for _, secret := range []string{"12345", "abc", "def", "edd1c9f0985e76a2"} {
			if strings.Contains(out, secret) {
				t.Errorf("%s shows %s: %s", verb, secret, out)
			}
		}
	}
}

func TestEmbedded(t *testing.T) {
	for _, tc := range []struct {
		source, env string
		want        bool
	}{
		{"", "", true},
		{"deployment: {etcd: {prefix: /x}}", "", true},
		{"deployment: {etcd: {host: ~}}", "", true},
		{"deployment: {etcd: {host: ['http://127.0.0.1:2379']}}", "", false},
		{"", `APISIX_DEPLOYMENT_ETCD_HOST=["http://127.0.0.1:2379"]`, false},
	} {
		c, err := Parse("", []byte(tc.source), []string{tc.env})
		if err != nil || c.Embedded != tc.want {
			t.Errorf("%s %s: %+v, %v", tc.source, tc.env, c, err)
		}
	}
}

func TestRoles(t *testing.T) {
	for role, admin := range map[string]bool{"traditional": false, "control_plane": true, "data_plane": false} {
		c, err := Parse("", []byte("{apisix: {enable_admin: false}, deployment: {role: "+role+"}}"), nil)
		if err != nil || c.APISIX.EnableAdmin != admin {
			t.Errorf("%s: %v, %v", role, c, err)
		}
	}
}

func TestFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if c, err := Load("", nil); err != nil || c.File != "" {
		t.Error("without a file:", c, err)
	}
	if _, err := Load("named.yaml", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error("a named file that is missing:", err)
	}
	if err := os.Mkdir("conf", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, port := range map[string]string{"config.yaml": "1", "config-dev.yaml": "2"} {
		if err := os.WriteFile("conf/"+name, []byte("apisix: {node_listen: "+port+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for profile, want := range map[string]int{"": 1, "dev": 2} {
		c, err := Load("", []string{"APISIX_PROFILE=" + profile})
		if err != nil || c.APISIX.HTTP.NodeListen[0].Port != want {
			t.Errorf("profile %q: %+v, %v", profile, c, err)
		}
	}
}

func TestDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "1.5": 1500 * time.Millisecond, "500ms": 500 * time.Millisecond, "1h 30m": 90 * time.Minute,
		"1d": 24 * time.Hour, "1M": 720 * time.Hour, "2w": 336 * time.Hour,
		"": 0, "-1": -1, "1x": -1, "s": -1, "99999999999s": -1, "2147483647y": -1,
	} {
		got, ok := parseDuration(s)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v", s, got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, "default.yaml") {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		c, err := Parse("f", source, []string{"A=1", "HOST=h"})
		if (c == nil) != (err != nil) {
			t.Error(c, err)
		}
	})
}

func TestPluginList(t *testing.T) {
	for source, want := range map[string]string{
		"":                        "[]string(nil)",
		"plugins:":                "[]string{}",
		"plugins: []":             "[]string{}",
		"plugins: [key-auth]":     `[]string{"key-auth"}`,
		"plugins: ~\ngraphql: {}": "[]string{}",
	} {
		c, err := Parse("f", []byte(source), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%#v", c.Plugins); got != want {
			t.Errorf("%q: got %s, want %s", source, got, want)
		}
	}
}

// Where admin_key is null no key is asked for; where it is empty there is none
// that opens.
func TestNoAdminKey(t *testing.T) {
	for source, want := range map[string]bool{
		"": true, "deployment: {admin: {admin_key: ~}}": false, "deployment: {admin: {admin_key: []}}": true,
		"deployment: {admin: {admin_key_required: false}}": false,
	} {
		c, err := Parse("f", []byte(source), nil)
		if err != nil || c.Deployment.Admin.KeyRequired != want {
			t.Errorf("%q: %+v, %v", source, c.Deployment.Admin, err)
		}
	}
}

func TestEnvs(t *testing.T) {
	t.Setenv("WEIR_TEST_ENVS", "process")
	t.Setenv("WEIR_TEST_OTHER", "other")
	c, err := Parse("f", []byte("nginx_config: {envs: [WEIR_TEST_OTHER, WEIR_TEST_ENVS=file=1]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"WEIR_TEST_ENVS": "file=1", "WEIR_TEST_OTHER": "other", "WEIR_TEST_NONE": ""} {
		if got, ok := c.Env(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v", name, got, ok)
		}
	}
}

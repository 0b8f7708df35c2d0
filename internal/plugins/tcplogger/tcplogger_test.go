package tcplogger

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// compiled is the plugin with the configuration, sending to l.
func compiled(t *testing.T, l net.Listener, more string) plugin.Phases {
	t.Helper()
	keeper := new(plugin.Keeper)
	env := plugintest.Env(time.Now)
	env.Keep = keeper.Uses()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ph, err := Plugin.Compile([]byte(`{"host":"127.0.0.1","port":`+port+more+`}`), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Keep.Release(); keeper.Close() })
	t.Cleanup(ph.Close)
	return ph
}

// received is all that the next connection carries.
func received(t *testing.T, l net.Listener) string {
	t.Helper()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name, conf string
		calls      int
		want       string
	}{
		{"single", `,"batch_max_size":1,"log_format":{"client":"$remote_addr"}`, 1, `{"client":"192.0.2.1"}`},
		{"array", `,"batch_max_size":2,"log_format":{"client":"$remote_addr"}`, 2, `[{"client":"192.0.2.1"},{"client":"192.0.2.1"}]`},
		{"array of one", `,"batch_max_size":2,"inactive_timeout":1,"log_format":{"client":"$remote_addr"}`, 1, `[{"client":"192.0.2.1"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t)
			ph := compiled(t, l, c.conf)
			for range c.calls {
				ctx := plugintest.NewCtx("/")
				ctx.Client, ctx.Route = "192.0.2.1", nil
				ph.Log(ctx)
			}
			if got := received(t, l); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestFullEntryAndBody(t *testing.T) {
	l := listen(t)
	ph := compiled(t, l, `,"batch_max_size":1,"include_resp_body":true`)
	c := plugintest.NewCtx("/hello?a=b")
	c.Response = &wire.Response{Status: 200}
	ph.Body(c).Write([]byte("answer"), true)
	ph.Log(c)
	var e struct {
		Request  struct{ URI, Method string }
		Response struct{ Body string }
	}
	if err := json.Unmarshal([]byte(received(t, l)), &e); err != nil {
		t.Fatal(err)
	}
	if e.Request.URI != "/hello?a=b" || e.Request.Method != "GET" || e.Response.Body != "answer" {
		t.Errorf("%+v", e)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(nil) // for its certificate
	s.StartTLS()
	defer s.Close()
	var asked string
	l := tls.NewListener(listen(t), &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		asked = h.ServerName
		return &s.TLS.Certificates[0], nil
	}})
	ph := compiled(t, l, `,"tls":true,"tls_options":"log.test","batch_max_size":1,"log_format":{"a":"b"}`)
	ph.Log(plugintest.NewCtx("/"))
	if got := received(t, l); !strings.HasPrefix(got, `{"a":"b"`) || asked != "log.test" {
		t.Errorf("%s for %q", got, asked)
	}
}

func TestConfig(t *testing.T) {
	for conf, want := range map[string]string{
		`{"port":1}`:                        `property "host" is required`,
		`{"host":"a"}`:                      `property "port" is required`,
		`{"host":"a","port":-1}`:            `property "port" validation failed: expected -1 to be at least 0`,
		`{"host":"a","port":"1"}`:           `property "port" validation failed: wrong type: expected integer, got string`,
		`{"host":"a","port":1,"timeout":0}`: `property "timeout" validation failed: expected 0 to be at least 1`,
	} {
		_, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", conf, err)
		}
	}
}

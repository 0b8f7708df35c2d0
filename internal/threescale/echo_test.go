package threescale

import (
	"strings"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestEcho(t *testing.T) {
	p, _ := routing(t, &model.Product{ID: "1", Upstream: "http://echo", SecretToken: "shh"}, Settings{})
	ask := func(method, target, body string, fields ...[2]string) *plugin.Reply {
		c := plugintest.NewCtx(target, fields...)
		c.Request.Method, c.Request.Length, c.Buffer = method, int64(len(body)), whole(body)
		p.Begin(c)
		defer End(c)
		return Route(c)
	}
	for _, x := range []struct {
		got    *plugin.Reply
		status int
		body   string
	}{
		{ask("GET", "/a?b", "", [2]string{"Host", "x"}, [2]string{"A", "1"}, [2]string{"Connection", "close"}, [2]string{"X-3scale-debug", "d"}), 200, "GET /a?b HTTP/1.1\nX-Real-IP: 127.0.0.1\nHost: echo\nA: 1\nX-3scale-proxy-secret-token: shh\n"},
		{ask("POST", "/", "body"), 200, "POST / HTTP/1.1\nX-Real-IP: 127.0.0.1\nHost: echo\nX-3scale-proxy-secret-token: shh\nContent-Length: 4\n\nbody\n"},
		{ask("GET", "/config/x", ""), 200, "{}\n"},
		{ask("GET", "/", "", [2]string{"If-Match", "x"}), 412, ""},
		{ask("GET", "/", "", [2]string{"if-unmodified-since", "x"}), 412, ""},
		{ask("POST", "/", strings.Repeat("x", echoBody+1)), 413, ""},
	} {
		if x.got == nil || x.got.Status != x.status || string(x.got.Body) != x.body {
			t.Errorf("%+v, want %d %q", x.got, x.status, x.body)
		}
	}
	c := plugintest.NewCtx("/?delay=2.5")
	var paused time.Duration
	c.Pause = func(d time.Duration) bool {
		paused = d
		return true
	}
	p.Begin(c)
	defer End(c)
	if Route(c); paused != 2500*time.Millisecond {
		t.Errorf("paused %v", paused)
	}
}

// whole is a buffered body.
type whole string

func (w whole) Body(limit int64) ([]byte, error) {
	if int64(len(w)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	return []byte(w), nil
}

func TestEchoIsNoOther(t *testing.T) {
	for _, url := range []string{"https://echo", "http://echo:81", "http://echo.example", "ws://echo"} {
		u, err := NewUpstream(url)
		if err != nil || u.echoes() {
			t.Errorf("%s: %v", url, err)
		}
	}
	p, _ := routing(t, &model.Product{ID: "1", Upstream: "http://echo"}, Settings{HTTPProxy: "http://proxy"})
	c := plugintest.NewCtx("/")
	p.Begin(c)
	defer End(c)
	if Route(c) != nil || c.To.Upstream == nil {
		t.Error("it does not go through the proxy")
	}
}

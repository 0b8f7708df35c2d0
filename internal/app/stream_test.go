package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
)

// write stores an object through the Admin API.
func write(t *testing.T, g *Gateway, path, doc string) {
	t.Helper()
	req, err := http.NewRequest("PUT", "http://"+g.Admin().String()+"/apisix/admin/"+path, strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode >= 300 {
		t.Fatalf("%d %s, %v", res.StatusCode, body, err)
	}
}

// say sends text over a new connection and returns everything that comes.
func say(t *testing.T, addr net.Addr, text string) string {
	t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c) // what came before an error counts
	return string(b)
}

func TestStreams(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "")
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxied := free.Addr()
	free.Close()
	a := &o.Config.APISIX
	a.HTTP.ProxyMode, a.HTTP.EnableIPv6 = "http&stream", false
	a.ProxyProtocol.HTTPPort = proxied.(*net.TCPAddr).Port
	a.StreamProxy.TCP = []config.StreamListener{{IP: "127.0.0.1"}, {IP: "127.0.0.1", ProxyProtocol: true}}
	a.StreamProxy.UDP = []config.StreamListener{{IP: "127.0.0.1"}}
	o.Config.Nginx.HTTP.RealIP = config.RealIP{Header: "proxy_protocol", From: []string{"127.0.0.1"}}
	s := &o.Config.Nginx.Stream
	s.Enable, s.Path, s.From = true, filepath.Join(dir, "stream.log"), []string{"127.0.0.1"}
	o.Config.Deployment.Admin.KeyRequired = false
	g := start(t, o)
	node, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		for {
			c, err := node.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 5)
			if _, err := io.ReadFull(c, b); err == nil {
				fmt.Fprintf(c, "got %s", b)
			}
			c.Close()
		}
	}()
	streams := g.Streams()
	write(t, g, "stream_routes/1", fmt.Sprintf(`{"plugins":{"ip-restriction":{"blacklist":["192.0.2.7"]}},"upstream":{"type":"roundrobin","nodes":{"%s":1}}}`, node.Addr()))
	write(t, g, "routes/1", `{"uri":"/*","remote_addr":"192.0.2.1","plugins":{"mocking":{"response_example":"passed"}}}`)
	for _, c := range []struct {
		at         net.Addr
		sent, want string
	}{
		{streams[0], "hello", "got hello"},
		{streams[1], "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nhello", "got hello"},
		{streams[1], "PROXY TCP4 192.0.2.7 192.0.2.2 1 2\r\nhello", ""},
		{streams[1], "hello, there is no header", ""},
		{proxied, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.0\r\n\r\n", "passed"},
		{proxied, "PROXY TCP4 192.0.2.7 192.0.2.2 1 2\r\nGET / HTTP/1.0\r\n\r\n", `{"error_msg":"404 Route Not Found"}`},
		{proxied, "GET / HTTP/1.0\r\n\r\n", ""},
	} {
		got := say(t, c.at, c.sent)
		if _, body, isHTTP := strings.Cut(got, "\r\n\r\n"); isHTTP {
			got = strings.TrimSpace(body)
		}
		if got != c.want {
			t.Errorf("%q: %q", c.sent, got)
		}
	}
	if code, body := get(t, "http://"+g.Admin().String()+"/apisix/admin/plugins/list?subsystem=stream"); code != 200 || !strings.HasPrefix(body, `["ip-restriction","limit-conn","mqtt-proxy"`) {
		t.Errorf("%d %s", code, body)
	}
	if streams[2].Network() != "udp" {
		t.Errorf("%v", streams)
	}
	node.Close()
	<-answers
	stop(t, g)
	log, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"127.0.0.1 [", " TCP 200 9 5 0.", "192.0.2.1 [", "192.0.2.7 [", " TCP 403 0 0 0."} {
		if !strings.Contains(string(log), want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
}

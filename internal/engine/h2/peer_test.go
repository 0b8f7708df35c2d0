package h2

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"weir/internal/plugin"
	"weir/internal/proxyproto"
)

// whoPlugin answers with what is known of the client.
var whoPlugin = plugin.Define(
	plugin.Meta{Name: "who", Doc: "Test plugin."},
	func(*struct{}, plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{Access: func(c *plugin.Ctx) *plugin.Reply {
			shown := "plain"
			if c.TLS != nil {
				shown = fmt.Sprint(len(c.TLS.PeerCertificates), " ", c.TLS.ServerName)
			}
			return plugin.Text(200, fmt.Sprint(c.Proxied, " ", shown))
		}}, nil
	},
)

// behind makes every connection of a listener one that a proxy has made.
type behind struct{ net.Listener }

func (b behind) Accept() (net.Conn, error) {
	return (&proxyproto.Listener{Listener: b.Listener}).Accept()
}

// TestPeer: plugins see the handshake and the PROXY header, whatever the protocol.
func TestPeer(t *testing.T) {
	g := start(t, whoPlugin)
	_, _, c, k := issue(t, "a.test", []string{"a.test"}, nil)
	g.ssl("1", c, k, `,"sni":"a.test"`)
	g.route("/a", "127.0.0.1:1", `,"plugins":{"who":{}}`)
	plain, secure := listen(t), listen(t)
	g.wg.Go(func() { g.engine.Serve(behind{plain}) })
	g.wg.Go(func() { g.engine.ServeTLS(behind{secure}) })
	t.Cleanup(func() { plain.Close(); secure.Close() })
	trusting := &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"}
	for _, tc := range []struct {
		protocol int
		tls      *tls.Config
		header   string
		want     string
	}{
		{1, nil, "", "invalid AddrPort plain"},
		{2, nil, "", "invalid AddrPort plain"},
		{1, trusting, "", "invalid AddrPort 0 a.test"},
		{2, trusting, "", "invalid AddrPort 0 a.test"},
		{1, nil, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "192.0.2.1:1 plain"},
		{2, nil, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "192.0.2.1:1 plain"},
		{1, trusting, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "192.0.2.1:1 0 a.test"},
		{2, trusting, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "192.0.2.1:1 0 a.test"},
		{1, nil, "PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "[2001:db8::1]:1 plain"},
		{1, nil, "PROXY UNKNOWN\r\n", "invalid AddrPort plain"},
	} {
		client, scheme := g.client(tc.protocol, tc.tls.Clone()), "http"
		if tc.tls != nil {
			scheme = "https"
		}
		if tc.header != "" {
			to := plain
			if tc.tls != nil {
				to = secure
			}
			client = g.dialing(tc.protocol, tc.tls.Clone(), func() (net.Conn, error) {
				nc, err := net.Dial("tcp", to.Addr().String())
				if err == nil {
					_, err = nc.Write([]byte(tc.header))
				}
				return nc, err
			})
		}
		if _, body := ask(t, client, scheme+"://a.test/a"); body != tc.want {
			t.Errorf("%d %q: %q, want %q", tc.protocol, tc.header, body, tc.want)
		}
	}
}

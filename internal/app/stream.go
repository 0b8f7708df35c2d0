package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"weir/internal/accesslog"
	"weir/internal/config"
	"weir/internal/engine/l4"
	"weir/internal/expr"
	"weir/internal/meter"
	"weir/internal/plugin"
)

// openStream starts the proxying of TCP and UDP, if apisix.proxy_mode asks for it.
// Like the data plane for HTTP it opens when a whole state is applied.
func (g *Gateway) openStream(ctx context.Context) error {
	a := &g.Config.APISIX
	if g.Config.Deployment.Role == "control_plane" || a.HTTP.ProxyMode == "http" || g.Config.Deployment.Provider() == config.NoProvider {
		return nil
	}
	n := &g.Config.Nginx.Stream
	trusted, err := expr.CompileNetworks(n.From)
	if err != nil {
		return fmt.Errorf("nginx_config.stream.real_ip_from: %w", err)
	}
	cfg := l4.Config{State: g.state, Log: g.log, Room: g.room, FallbackSNI: a.SSL.FallbackSNI, Trusted: func(who netip.Addr) bool {
		return len(n.From) > 0 && trusted.ContainAddr(who)
	}}
	if err := g.openStreamLog(n); err != nil {
		return err
	}
	if g.streamLog != nil {
		cfg.AccessLog = func(c *plugin.StreamCtx) { g.streamLog.Write(&c.Ctx) }
	}
	g.streams = l4.New(cfg)
	var listeners []net.Listener
	g.onStop(func(ctx context.Context) error { return g.streams.Shutdown(ctx, listeners...) })
	for _, s := range a.StreamProxy.TCP {
		port := l4.Port{
			TLS:             s.TLS,
			Proxy:           s.ProxyProtocol || a.ProxyProtocol.TCP,
			ProxyToUpstream: s.ProxyProtocolToUpstream || a.ProxyProtocol.TCPToUpstream,
		}
		for _, addr := range streamAddrs(s) {
			l, err := g.sockets.Listen(ctx, "tcp"+family(s.IP), addr)
			if err != nil {
				return fmt.Errorf("stream: %w", err)
			}
			listeners = append(listeners, l)
			g.streamAddrs = append(g.streamAddrs, l.Addr())
			g.background.Go(func() { g.failStream(l.Addr(), g.streams.Serve(l, port)) })
		}
	}
	for _, s := range a.StreamProxy.UDP {
		for _, addr := range streamAddrs(s) {
			socket, err := g.sockets.ListenPacket(ctx, "udp"+family(s.IP), addr)
			if err != nil {
				return fmt.Errorf("stream: %w", err)
			}
			g.streamAddrs = append(g.streamAddrs, socket.LocalAddr())
			g.background.Go(func() { g.failStream(socket.LocalAddr(), g.streams.ServeUDP(socket.(*net.UDPConn))) })
		}
	}
	return nil
}

func (g *Gateway) failStream(addr net.Addr, err error) {
	if err != nil {
		g.fail(fmt.Errorf("stream %s: %w", addr, err))
	}
}

// family ends the name of a network: an entry without an address is about IPv4,
// as in APISIX.
func family(ip string) string {
	if strings.Contains(ip, ":") {
		return "6"
	}
	return "4"
}

// streamAddrs are the addresses of one entry of stream_proxy.
func streamAddrs(s config.StreamListener) []string {
	ip := s.IP
	if ip == "" {
		ip = "0.0.0.0"
	}
	var addrs []string
	for port := s.From; port <= s.To; port++ {
		addrs = append(addrs, net.JoinHostPort(ip, strconv.Itoa(port)))
	}
	return addrs
}

// streamVariables are what a log format for streams has beside the variables
// that requests have, too.
var streamVariables = []string{
	"protocol", "session_time", "bytes_received", "upstream_bytes_sent", "upstream_bytes_received",
	"ssl_server_name", "ssl_preread_server_name", "proxy_protocol_addr", "mqtt_client_id",
}

func (g *Gateway) openStreamLog(n *config.NginxStream) (err error) {
	if !n.Enable {
		return nil
	}
	g.streamLog, err = accesslog.Open(accesslog.Config{
		Path: n.Path, Format: n.Format, Escape: n.Escape, Log: g.log, Variables: streamVariables,
	})
	if err != nil {
		return fmt.Errorf("nginx_config.stream: %w", err)
	}
	g.onStop(func(context.Context) error { return g.streamLog.Close() })
	return nil
}

// Streams are the addresses that serve TCP and UDP.
func (g *Gateway) Streams() []net.Addr { return g.streamAddrs }

// describeStreams makes the numbers of the ports known.
func (g *Gateway) describeStreams() {
	if g.streams == nil {
		return
	}
	g.meter.Func(gauge("stream_active_connections", "Number of stream sessions", "listen_addr"), func(emit func(float64, ...string)) {
		for _, p := range g.streams.Stats() {
			emit(float64(p.Active), p.Addr)
		}
	})
	g.meter.Func(meter.Desc{
		Name: "stream_bandwidth", Help: "Total bandwidth in bytes of stream sessions", Labels: []string{"listen_addr", "type", "side"},
	}, func(emit func(float64, ...string)) {
		for _, p := range g.streams.Stats() {
			emit(float64(p.FromClients), p.Addr, "ingress", "downstream")
			emit(float64(p.ToClients), p.Addr, "egress", "downstream")
			emit(float64(p.FromNodes), p.Addr, "ingress", "upstream")
			emit(float64(p.ToNodes), p.Addr, "egress", "upstream")
		}
	})
}

package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A Secret is a text that is never printed.
type Secret string

const hidden = "(hidden)"

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string { return hidden }

// GoString hides the text.
func (s Secret) GoString() string { return hidden }

// MarshalText hides the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Size is a number of bytes, written as in nginx: 512, 16k, 50m, 1G.
type Size int64

func (s *Size) decode(n *node, path string) error {
	if n.kind != number && n.kind != text {
		return mismatch("", path, "number", n)
	}
	digits, factor := n.text, int64(1)
	if i := len(digits) - 1; i >= 0 {
		if shift := strings.IndexByte("kmg", digits[i]|0x20); shift >= 0 {
			digits, factor = digits[:i], 1<<(10*(shift+1))
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v < 0 || v > 1<<62/factor {
		return invalid(path, n, "is not a size such as 16384, 16k, 50m or 1G")
	}
	*s = Size(v * factor)
	return nil
}

// Auto is a number, 0 for "auto".
type Auto int

func (a *Auto) decode(n *node, path string) error {
	if n.text == "auto" {
		*a = 0
		return nil
	}
	v, err := strconv.Atoi(n.text)
	if n.kind != number || err != nil || v < 1 {
		return invalid(path, n, "is neither auto nor a number above 0")
	}
	*a = Auto(v)
	return nil
}

// Keyring are AES keys of 16 or 32 bytes; one may be written without a list. nil,
// null in the file, is none: nothing is encrypted.
type Keyring []Secret

func (k *Keyring) decode(n *node, path string) error {
	elements := []*node{n}
	if n.kind == list {
		elements = n.nodes
	}
	*k = Keyring{}
	for i, e := range elements {
		if e.kind != text && e.kind != number {
			return mismatch("", join(path, strconv.Itoa(i+1)), "string", e)
		}
		if n := len(e.text); n != 16 && n != 32 {
			return fmt.Errorf("path[%s]: a key has %d bytes instead of 16 or 32", path, n)
		}
		*k = append(*k, Secret(e.text))
	}
	return nil
}

// A Listener is one entry of node_listen or ssl.listen.
type Listener struct {
	IP    string // empty: every address
	Port  int    // 0: any free one
	HTTP3 bool   // ssl.listen only
}

// Listeners are written as a number, a list of numbers, or a list of tables
// with ip and port.
type Listeners []Listener

func (l *Listeners) decode(n *node, path string) error {
	elements := []*node{n}
	if n.kind == list {
		elements = n.nodes
	}
	*l = nil
	for i, e := range elements {
		at := path
		if n.kind == list {
			at = join(path, strconv.Itoa(i+1))
		}
		one, err := decodeListener(e, at)
		if err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

func decodeListener(n *node, path string) (l Listener, err error) {
	if n.kind != table {
		l.Port, err = decodePort(n, path)
		return l, err
	}
	for i, key := range n.keys {
		v, at := n.nodes[i], join(path, key)
		switch key {
		case "port":
			l.Port, err = decodePort(v, at)
		case "ip":
			if net.ParseIP(strings.Trim(v.text, "[]")) == nil {
				err = invalid(at, v, "is not an IP address")
			}
			l.IP = strings.Trim(v.text, "[]")
		case "enable_http3":
			l.HTTP3 = v.text == "true"
		case "enable_http2":
			err = fmt.Errorf("path[%s]: port level enable_http2 is deprecated, use apisix.enable_http2", at)
		default:
			err = fmt.Errorf("path[%s]: a listener has only ip, port and enable_http3", at)
		}
		if err != nil {
			return l, err
		}
	}
	if n.get("port") == nil {
		err = fmt.Errorf("path[%s]: port is missing%s", path, place(n))
	}
	return l, err
}

func decodePort(n *node, path string) (int, error) {
	if n.kind != number {
		return 0, mismatch("", path, "number", n)
	}
	p, err := strconv.Atoi(n.text)
	if err != nil || p < 0 || p > 65535 {
		return 0, invalid(path, n, "is not a port")
	}
	return p, nil
}

// A StreamListener is one entry of stream_proxy: a number, "ip:port", a range
// "2000-2100" or, for TCP, a table.
type StreamListener struct {
	IP                      string // empty: every address
	From, To                int    // ports, both included
	TLS                     bool
	ProxyProtocol           bool
	ProxyProtocolToUpstream bool
}

func (s *StreamListener) decode(n *node, path string) error {
	addr := n
	if n.kind == table {
		if addr = n.get("addr"); addr == nil {
			return fmt.Errorf("path[%s]: addr is missing%s", path, place(n))
		}
		is := func(key string) bool { v := n.get(key); return v != nil && v.text == "true" }
		s.TLS, s.ProxyProtocol, s.ProxyProtocolToUpstream = is("tls"), is("proxy_protocol"), is("proxy_protocol_to_upstream")
	}
	if addr.kind != number && addr.kind != text {
		return mismatch("", path, "string", addr)
	}
	ports := addr.text
	if i := strings.LastIndexByte(ports, ':'); i >= 0 {
		s.IP, ports = strings.Trim(ports[:i], "[]"), ports[i+1:]
	}
	from, to, isRange := strings.Cut(ports, "-")
	if !isRange {
		to = from
	}
	var err1, err2 error
	s.From, err1 = strconv.Atoi(from)
	s.To, err2 = strconv.Atoi(to)
	if err1 != nil || err2 != nil || s.From < 0 || s.From > s.To || s.To > 65535 {
		return invalid(path, addr, "is not a port, ip:port or range of ports")
	}
	return nil
}

// String is the endpoint as net.Listen takes it.
func (e Endpoint) String() string {
	return net.JoinHostPort(strings.Trim(e.IP, "[]"), strconv.Itoa(e.Port))
}

// A Socket is one address to listen on.
type Socket struct {
	Network string // tcp4 or tcp6, as net.Listen takes it
	Addr    string
	TLS     bool
	HTTP2   bool // over TLS by ALPN, in plain by prior knowledge
	HTTP3   bool // on the UDP port of the same number as well
	Proxy   bool // connections begin with a PROXY header

	// Optional: the address comes with enable_ipv6, not from the user; a host
	// without IPv6 does without it.
	Optional bool
}

// Sockets lists where the data plane listens.
func (a *APISIX) Sockets() []Socket {
	var out []Socket
	if a.HTTP.ProxyMode == "stream" {
		return nil
	}
	out = a.appendSockets(out, a.HTTP.NodeListen, Socket{})
	if p := a.ProxyProtocol.HTTPPort; p != 0 {
		out = a.appendSockets(out, Listeners{{Port: p}}, Socket{Proxy: true})
	}
	if !a.SSL.Enable {
		return out
	}
	out = a.appendSockets(out, a.SSL.Listen, Socket{TLS: true})
	if p := a.ProxyProtocol.HTTPSPort; p != 0 {
		out = a.appendSockets(out, Listeners{{Port: p}}, Socket{TLS: true, Proxy: true})
	}
	return out
}

func (a *APISIX) appendSockets(out []Socket, listeners Listeners, s Socket) []Socket {
	s.HTTP2 = a.HTTP.EnableHTTP2
	for _, l := range listeners {
		s.HTTP3, s.Optional, s.Network = l.HTTP3, false, "tcp4"
		ip := l.IP
		switch {
		case ip == "":
			ip = "0.0.0.0"
		case strings.Contains(ip, ":"):
			s.Network = "tcp6"
		}
		s.Addr = net.JoinHostPort(ip, strconv.Itoa(l.Port))
		out = append(out, s)
		if l.IP == "" && l.Port != 0 && a.HTTP.EnableIPv6 {
			s.Network, s.Optional, s.Addr = "tcp6", true, net.JoinHostPort("::", strconv.Itoa(l.Port))
			out = append(out, s)
		}
	}
	return out
}

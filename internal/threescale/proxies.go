package threescale

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// A Proxy is a forward proxy.
type Proxy struct {
	Host          string // name or address, IPv6 without brackets
	Port          int
	Authorization string // Proxy-Authorization; empty: none

	user *url.Userinfo
}

// NewProxy reads the URL of a forward proxy; an empty one is none.
func NewProxy(raw string) (*Proxy, error) {
	if raw == "" {
		return nil, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return nil, errProxy(raw)
	}
	p := &Proxy{Host: u.Hostname(), Port: 80}
	if u.Port() != "" {
		if p.Port, err = strconv.Atoi(u.Port()); err != nil || p.Port < 1 || p.Port > 65535 {
			return nil, errProxy(raw)
		}
	}
	if u.User != nil {
		p.user = u.User
		password, _ := u.User.Password()
		p.Authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

func errProxy(raw string) error {
	return fmt.Errorf("%q is not the http URL of a forward proxy", withoutUser(raw))
}

// Proxies are the forward proxies for upstreams, by scheme; nil: none.
type Proxies struct {
	HTTP, HTTPS *Proxy

	// Absolute sends requests for https upstreams to the proxy as they are, over
	// TLS, instead of asking it for a tunnel (policy camel).
	Absolute bool
}

// NewProxies reads the URLs of forward proxies; all stands for those that are
// missing or cannot be used. The error says what cannot be used; the rest can.
func NewProxies(http, https, all string) (*Proxies, error) {
	h, herr := NewProxy(http)
	s, serr := NewProxy(https)
	a, aerr := NewProxy(all)
	return &Proxies{HTTP: cmp.Or(h, a), HTTPS: cmp.Or(s, a)}, errors.Join(herr, serr, aerr)
}

// For is the proxy for an upstream, or nil.
func (p *Proxies) For(u *Upstream) *Proxy {
	switch {
	case p == nil || u.Websocket:
		return nil
	case u.Scheme == "https":
		return p.HTTPS
	}
	return p.HTTP
}

// direct says that no_proxy has a host reached without a proxy: it names the host
// or a domain that it belongs to, or "*".
func (s *Settings) direct(host string) bool {
	if s.NoProxy == "*" {
		return true
	}
	for name := range strings.SplitSeq(s.NoProxy, ",") {
		name = strings.TrimPrefix(strings.TrimSpace(name), ".")
		rest, ok := strings.CutSuffix(host, name)
		if ok && name != "" && (rest == "" || strings.HasSuffix(rest, ".") && strings.Contains(name, ".")) {
			return true
		}
	}
	return false
}

// proxyFor is the proxy that leads to an upstream; nil: none.
func (rt *Runtime) proxyFor(u *Upstream, chosen *Proxies) *Proxy {
	if chosen != nil {
		return chosen.For(u)
	}
	if rt.direct(u.Host) {
		return nil
	}
	return rt.proxies.For(u)
}

// address is host:port.
func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

package threescale

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// An Upstream is a URL that requests may go to.
type Upstream struct {
	Scheme string // http, https; ws and wss are those
	Host   string // name or address, IPv6 without brackets
	Port   int
	Path   string // before the request's; without a slash at its end, perhaps empty
	Root   string // the path of a request for "/"; empty: that
	Query  string // replaces the request's; empty: it does not

	// Websocket says that the URL is one of ws or wss, which no forward proxy of
	// the environment is for.
	Websocket bool

	// Header is the Host header: with the port, if that is not the scheme's.
	Header string
}

// NewUpstream reads the URL of an upstream.
func NewUpstream(raw string) (*Upstream, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errURL(raw)
	}
	up := &Upstream{Scheme: u.Scheme, Host: u.Hostname(), Root: u.EscapedPath(), Query: u.RawQuery}
	up.Path = strings.TrimRight(up.Root, "/")
	up.Websocket = u.Scheme == "ws" || u.Scheme == "wss"
	standard := 80
	switch u.Scheme {
	case "http", "ws":
		up.Scheme = "http"
	case "https", "wss":
		up.Scheme, standard = "https", 443
	default:
		return nil, errURL(raw)
	}
	up.Port = standard
	if p := u.Port(); p != "" {
		if up.Port, err = strconv.Atoi(p); err != nil || up.Port < 1 || up.Port > 65535 {
			return nil, errURL(raw)
		}
	}
	if up.Host == "" {
		return nil, errURL(raw)
	}
	up.Header = up.Host
	if strings.Contains(up.Host, ":") {
		up.Header = "[" + up.Host + "]"
	}
	if up.Port != standard {
		up.Header += ":" + strconv.Itoa(up.Port)
	}
	return up, nil
}

func errURL(raw string) error {
	return fmt.Errorf("%q is not the http or https URL of an upstream", withoutUser(raw))
}

// withoutUser is what is meant to be a URL, for messages: what stands before its
// host may be a password.
func withoutUser(raw string) string {
	if at := strings.LastIndexByte(raw, '@'); at >= 0 {
		raw = "..." + raw[at:]
	}
	return raw
}

// Connect is how an upstream is reached, where policies say so; the zero Connect
// is the process's way. It is comparable: requests with equal ones share
// connections.
type Connect struct {
	// Proxies are forward proxies in place of the environment's; nil: those.
	Proxies *Proxies

	// TLS is the client's side of TLS; nil: the process's.
	TLS *ClientTLS

	// HTTP2 speaks HTTP/2 over TLS (policy grpc).
	HTTP2 bool
}

// ClientTLS is the gateway's side of TLS to upstreams.
type ClientTLS struct {
	Certificate, Key string // PEM; empty: no certificate
	CAs              string // PEM; empty: the system's
	Verify           bool
}

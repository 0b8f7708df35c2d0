package threescale

import (
	"net/url"
)

// ProxyURL is the forward proxy of the environment for a request of the gateway's
// own; nil: none.
func (rt *Runtime) ProxyURL(to *url.URL) *url.URL {
	u, err := NewUpstream(to.Scheme + "://" + to.Host)
	if err != nil {
		return nil
	}
	p := rt.proxyFor(u, nil)
	if p == nil {
		return nil
	}
	return &url.URL{Scheme: "http", Host: address(p.Host, p.Port), User: p.user}
}

package control

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Local keeps pages in a browser on this machine away from an API on loopback: what
// changes something is refused to pages of other origins, and a request for a name that
// DNS may lead here (rebinding), under which a page could read the answer. name is what
// refusals call the API.
func Local(name string, api http.Handler) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			answer(w, http.StatusForbidden, failure{"the " + name + " is on loopback: ask for it by address or as localhost"})
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// isLocal says whether a Host is an address or a name that nobody can register.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost")
}

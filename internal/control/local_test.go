package control

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Pages in a browser neither read nor change what is on loopback.
func TestLocal(t *testing.T) {
	api := Local("Control API", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, c := range []struct {
		method, host, origin, site string
		want                       int
	}{
		{"GET", "127.0.0.1:9090", "", "", 204}, {"GET", "[::1]:9090", "", "", 204}, {"GET", "localhost:9090", "", "", 204}, {"GET", "LocalHost.", "", "", 204},
		{"GET", "", "", "", 204}, {"GET", "gateway", "", "", 204}, {"GET", "a.localhost:1", "", "", 204}, {"POST", "127.0.0.1:9090", "", "", 204},
		{"POST", "127.0.0.1:9090", "http://127.0.0.1:9090", "same-origin", 204},
		{"GET", "evil.test:9090", "", "", 403}, {"GET", "localhost.evil.test", "", "", 403}, {"GET", "127.0.0.1.evil.test", "", "", 403}, {"GET", "evil.test.", "", "", 403},
		{"POST", "127.0.0.1:9090", "http://evil.test", "", 403}, {"PUT", "localhost:9090", "http://evil.test", "cross-site", 403}, {"POST", "127.0.0.1:9090", "null", "", 403},
	} {
		r := httptest.NewRequest(c.method, "/v1/plugins/reload", nil)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %q from %q (%s): %d, want %d", c.method, c.host, c.origin, c.site, w.Code, c.want)
		}
	}
}

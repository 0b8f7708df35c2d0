package echo

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	s := httptest.NewServer(Plain())
	defer s.Close()
	for _, c := range []struct {
		host, method, path, body string
		status                   int
		want                     string
	}{
		{"backend", "GET", "/transactions/authrep.xml?x=1", "", 200, "transactions authrep!\n"},
		{"backend", "GET", "/transactions/oauth_authrep.xml", "", 200, "transactions oauth_authrep!\n"},
		{"backend", "GET", "/transactions/authorize.xml?delay=0.001", "", 200, "transactions authorize!\n"},
		{"backend", "GET", "/other", "", 404, ""},
		{"x", "GET", "/config/", "", 200, "{}\n"},
		{"x", "GET", "/a?b=c", "", 200, "GET /a?b=c HTTP/1.1\nHost: x\nX-One: 1\n"},
		{"x", "POST", "/a", "body", 200, "POST /a HTTP/1.1\nHost: x\nContent-Length: 4\nX-One: 1\n\nbody\n"},
	} {
		r, err := http.NewRequest(c.method, s.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		r.Header = http.Header{"X-One": {"1"}, "User-Agent": nil, "Accept-Encoding": nil}
		res, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		text := strings.ReplaceAll(string(got), "Connection: close\n", "")
		if err != nil || res.StatusCode != c.status || text != c.want {
			t.Errorf("%s %s %s: %d %q, want %d %q", c.host, c.method, c.path, res.StatusCode, text, c.status, c.want)
		}
	}
}

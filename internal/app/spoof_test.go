package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// received returns the values of a field in what a witness received.
func received(body, name string) (values []string) {
	for line := range strings.Lines(body) {
		n, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if strings.EqualFold(n, name) {
			values = append(values, v)
		}
	}
	return values
}

// The rows of docs/headers.md for routes: what a client sends, and what its
// upstream gets under that name. An underscore is in the place of any dash that a
// backend could take it for.
func TestSpoofedHeaders(t *testing.T) {
	for _, trusting := range []bool{false, true} {
		t.Run(fmt.Sprint("trusted=", trusting), func(t *testing.T) { testSpoofed(t, trusting) })
	}
}

func testSpoofed(t *testing.T, trusting bool) {
	s := newSiteWith(t, "", func(o *Options) {
		o.Config.Nginx.HTTP.RealIP.From = nil
		if trusting {
			o.Config.Nginx.HTTP.RealIP.From = []string{"127.0.0.1"}
			o.Config.APISIX.TrustedAddresses = []string{"127.0.0.0/8"}
		}
	})
	s.put("consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"jack"},"basic-auth":{"username":"jack","password":"p"}}}`)
	up := s.witness()
	for path, plugins := range map[string]string{"open": "", "key": `"key-auth":{}`, "hide": `"key-auth":{"hide_credentials":true}`, "basic": `"basic-auth":{}`, "hidebasic": `"basic-auth":{"hide_credentials":true}`} {
		s.put("routes/"+path, s.route("/"+path, up, `,"plugins":{`+plugins+`}`))
	}
	const basic = "Authorization: Basic amFjazpw"
	_, port, _ := strings.Cut(strings.TrimPrefix(s.proxy, "http://"), ":")
	only := func(values ...string) []string { return values }
	for _, c := range []struct {
		path, sent, name string
		want, trusted    []string // trusted nil: the same
	}{
		{"/open", "X-Forwarded-For: 9.9.9.9", "X-Forwarded-For", only("9.9.9.9, 127.0.0.1"), nil},
		{"/open", "X_Forwarded_For: 9.9.9.9", "X-Forwarded-For", only("127.0.0.1"), nil},
		{"/open", "X_Forwarded_For: 9.9.9.9", "X_Forwarded_For", nil, nil},
		{"/open", "X-Forwarded-Proto: https", "X-Forwarded-Proto", only("http"), only("https")},
		{"/open", "X-Forwarded_Proto: https", "X-Forwarded-Proto", only("http"), nil},
		{"/open", "X-Forwarded_Proto: https", "X-Forwarded_Proto", nil, nil},
		{"/open", "X-Forwarded-Port: 1", "X-Forwarded-Port", only(port), only("1")},
		{"/open", "X-Forwarded-Host: evil.test", "X-Forwarded-Host", only("a.test"), only("evil.test")},
		{"/open", "Forwarded: for=9.9.9.9", "Forwarded", nil, only("for=9.9.9.9")},
		{"/open", "X-Real-IP: 9.9.9.9", "X-Real-IP", only("127.0.0.1"), only("9.9.9.9")},
		{"/open", "X_Real-IP: 9.9.9.9", "X_Real-IP", nil, nil},
		{"/open", "X-Consumer-Username: root", "X-Consumer-Username", only("root"), nil},
		{"/open", "X_Consumer_Username: root", "X_Consumer_Username", nil, nil},
		{"/open", "X-Credential-Identifier: root", "X-Credential-Identifier", only("root"), nil},
		{"/open", "X-Consumer-Custom-ID: root", "X-Consumer-Custom-ID", only("root"), nil},
		{"/key", "X-Consumer-Username: root", "X-Consumer-Username", only("jack"), nil},
		{"/key", "X-Credential-Identifier: root", "X-Credential-Identifier", nil, nil},
		{"/key", "X-Consumer-Custom-ID: root", "X-Consumer-Custom-ID", nil, nil},
		{"/key", "", "apikey", only("jack"), nil},
		{"/hide", "", "apikey", nil, nil},
		{"/open", "Authorization: Bearer x", "Authorization", only("Bearer x"), nil},
		{"/basic", basic, "Authorization", only("Basic amFjazpw"), nil},
		{"/hidebasic", basic, "Authorization", nil, nil},
		{"/open", "Connection: X-Real-IP, X-Forwarded-For, X-Mine\r\nX-Mine: 1", "X-Mine", nil, nil},
		{"/open", "Connection: X-Real-IP, X-Forwarded-For", "X-Real-IP", only("127.0.0.1"), nil},
		{"/open", "Connection: keep-alive", "Connection", nil, nil},
		{"/open", "TE: gzip", "TE", nil, nil},
		{"/open", "Keep-Alive: 1", "Keep-Alive", nil, nil},
		{"/open", "Proxy-Authorization: Basic x", "Proxy-Authorization", nil, nil},
		{"/open", "Proxy-Connection: keep-alive", "Proxy-Connection", nil, nil},
	} {
		lines := []string{"apikey: jack"}
		if c.sent != "" {
			lines = append(lines, strings.Split(c.sent, "\r\n")...)
		}
		res, body := s.send(c.path, lines...)
		want := c.want
		if trusting && c.trusted != nil {
			want = c.trusted
		}
		if got := received(body, c.name); res.StatusCode != 200 || !slices.Equal(got, want) {
			t.Errorf("%s, %q: %d, %s: %q, want %q", c.path, c.sent, res.StatusCode, c.name, got, want)
		}
	}
}

// The rows for products of 3scale.
func TestSpoofedProductHeaders(t *testing.T) {
	w := newThreescaleWorld(t)
	for secret, want := range map[string]string{"s3": "s3", "": ""} {
		doc := strings.Replace(w.product("one.test", w.apiURL, ""), `"secret_token":"s3"`, `"secret_token":"`+secret+`"`, 1)
		g := productGateway(t, doc)
		_, body := send(t, g, "GET", "one.test", "/?user_key=k", "", http.Header{
			"X-3scale-Proxy-Secret-Token": {"forged"}, "X-3scale-Debug": {"x"}, "X-Real-Ip": {"9.9.9.9"}, "X-Forwarded-For": {"9.9.9.9"}, "Proxy-Authorization": {"Basic x"},
		})
		for _, part := range []string{"secret " + want + " real ", `proxy ""`, `forwarded "9.9.9.9"`} {
			if !strings.Contains(body, part) {
				t.Errorf("secret %q: no %q in %s", secret, part, body)
			}
		}
		if strings.Contains(body, "real 9.9.9.9") || strings.Contains(body, "forged") {
			t.Error(body)
		}
		stop(t, g)
	}
}

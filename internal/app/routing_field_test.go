package app

// Tests of the field reports about routing, headers, authentication and the
// merging of plugins, in a whole gateway.

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// witness starts an upstream that answers with the request as it came: its line,
// its host and its header fields in order of their names. headers are fields of
// the answer.
func (s *site) witness(headers ...string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		fields := []string{"Host: " + r.Host}
		for name, values := range r.Header {
			for _, v := range values {
				fields = append(fields, name+": "+v)
			}
		}
		slices.Sort(fields)
		fmt.Fprintf(w, "%s %s\n%s\n", r.Method, r.RequestURI, strings.Join(fields, "\n"))
	}))
	s.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// send sends GET with the target and the header lines as they are, and returns
// the answer and its body.
func (s *site) send(target string, lines ...string) (*http.Response, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.proxy, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Host:") }) {
		lines = append([]string{"Host: a.test"}, lines...)
	}
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\n%s\r\n\r\n", target, strings.Join(lines, "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatalf("GET %s: %v", target, err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("GET %s: %v", target, err)
	}
	return res, string(b)
}

// reached is the name of the upstream that a request got to, or the status.
func (s *site) reached(target string, lines ...string) string {
	s.t.Helper()
	res, body := s.send(target, lines...)
	if res.StatusCode != 200 {
		return res.Status[:3]
	}
	return body
}

// forwarded is the target that the witness got, or the status.
func (s *site) forwarded(target string, lines ...string) string {
	s.t.Helper()
	res, body := s.send(target, lines...)
	if res.StatusCode != 200 {
		return res.Status[:3]
	}
	line, _, _ := strings.Cut(body, "\n")
	return strings.TrimPrefix(line, "GET ")
}

// Cases 105, 106, 108, 109, 111 and 123: which of two routes serves.
func TestFieldWhichRoute(t *testing.T) {
	type route struct{ id, match string }
	for _, c := range []struct {
		name, router string
		routes       []route
		target, host string
		want         string
	}{
		{"105 path before host", "radixtree_uri", []route{
			{"1", `"uri":"/*","host":"a.test","priority":9999`}, {"2", `"uri":"/v2/*"`},
		}, "/v2/x", "a.test", "2"},
		{"106 host before path", "", []route{
			{"1", `"uri":"/*","host":"a.test","priority":9999`}, {"2", `"uri":"/v2/*"`},
		}, "/v2/x", "a.test", "1"},
		{"108 exact host before priority", "", []route{
			{"1", `"uri":"/x","host":"b.a.test","priority":1`}, {"2", `"uri":"/x","host":"*.a.test","priority":10`},
		}, "/x", "b.a.test", "1"},
		{"109 host before a longer path", "", []route{
			{"1", `"uri":"/api/user/*","host":"t.test"`}, {"2", `"uri":"/api/user/test"`},
		}, "/api/user/test", "t.test", "1"},
		{"111 priority", "", []route{
			{"1", `"uri":"/x","host":"t.test","priority":1,"vars":[["arg_a","==","1"]]`},
			{"2", `"uri":"/x","host":"t.test","priority":10,"vars":[["arg_b","==","1"]]`},
		}, "/x?a=1&b=1", "t.test", "2"},
		{"123 port and case of the host", "", []route{{"1", `"uri":"/x","host":"svc.test"`}}, "/x", "SVC.test:8080", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSiteWith(t, "", func(o *Options) { o.Config.APISIX.Router.HTTP = cmp.Or(c.router, "radixtree_host_uri") })
			for _, r := range c.routes {
				s.put("routes/"+r.id, fmt.Sprintf(`{%s,"upstream":{"nodes":{%q:1}}}`, r.match, s.upstream(r.id)))
			}
			s.expect(c.want, s.reached(c.target, "Host: "+c.host))
		})
	}
}

// Cases 112, 119, 120, 122 and 125: what of a path counts for matching, and what
// goes upstream.
func TestFieldPaths(t *testing.T) {
	params := func(encodedSlash bool) func(*Options) {
		return func(o *Options) {
			o.Config.APISIX.Router.HTTP = "radixtree_uri_with_parameter"
			o.Config.APISIX.URI.MatchEncodedSlash = encodedSlash
		}
	}
	for _, c := range []struct {
		name        string
		change      func(*Options)
		uri, target string
		want        string
	}{
		{"112 encoded slash", params(false), "/v1/:id/products/:type/list", "/v1/te%2Fst/products/e/list", "404"},
		{"112 encoded slash matched", params(true), "/v1/:id/products/:type/list", "/v1/te%2Fst/products/e/list", "/v1/te%2Fst/products/e/list"},
		{"119 and 125 repeated slashes", func(*Options) {}, "/a/b", "/a//b", "/a/b"},
		{"119 repeated slashes kept", func(o *Options) { o.Config.Weir.MergeSlashes = false }, "/a/b", "/a//b", "404"},
		{"120 base64 in a path", func(o *Options) { o.Config.Weir.MergeSlashes = false }, "/ocsp/*", "/ocsp/MFEw//SjAJBg==", "/ocsp/MFEw//SjAJBg=="},
		{"122 as it came", func(*Options) {}, "/t/*", "/t/a_%2F_b%7e?x=%2F", "/t/a_%2F_b%7e?x=%2F"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSiteWith(t, "", c.change)
			s.put("routes/1", s.route(c.uri, s.witness(), ""))
			s.expect(c.want, s.forwarded(c.target))
		})
	}
}

// Cases 113, 115 and 116: what proxy-rewrite makes of a path.
func TestFieldRewrittenPaths(t *testing.T) {
	s := newSite(t, "")
	node := s.witness()
	for i, c := range []struct{ name, uri, conf, target, want string }{
		{"113", "/p/*", `{"use_real_request_uri_unsafe":true}`, "/p/a%2Fb", "/p/a%2Fb"},
		{"115", "/api/*", `{"regex_uri":["^/api(/.*)","$1"]}`, "/api/v1/%3CN%3E", "/v1/%3CN%3E"},
		{"116 literally", "/w1/*", `{"regex_uri":["/w1","/"]}`, "/w1/t", "//t"},
		{"116 as advised", "/w2/*", `{"regex_uri":["^/w2/?(.*)","/$1"]}`, "/w2/t", "/t"},
	} {
		s.put(fmt.Sprint("routes/", i), s.route(c.uri, node, `,"plugins":{"proxy-rewrite":`+c.conf+`}`))
		if got := s.forwarded(c.target); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Case 118: there is one view of a path; encoding it does not lead around a guard.
func TestFieldOneViewOfAPath(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/guarded", s.route("/admin/*", s.echo, `,"plugins":{"key-auth":{}}`))
	s.put("routes/open", s.route("/*", s.echo, ""))
	for _, target := range []string{"/admin/x", "/admin%2Fx", "/%61dmin/x", "/b/../admin/x", "/b/%2e%2e/admin/x", "//admin//x", "/b%2f..%2fadmin%2fx"} {
		if got := s.reached(target); got != "401" {
			t.Errorf("%s: %s, want 401", target, got)
		}
	}
	s.expect("ok", s.reached("/administer"))
}

// Cases 132, 133 and 134: what clients cannot say in the gateway's place, and
// what they may.
func TestFieldRequestHeaders(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/1", s.route("/a", s.witness(), `,"plugins":{"key-auth":{}}`))
	s.put("consumers/jack", consumer("jack", "k"))
	for _, c := range []struct {
		name      string
		lines     []string
		has, none []string // lines of what reaches the upstream
	}{
		{
			"132 nominated", []string{"Connection: x-real-ip, x-forwarded-for, x-consumer-username, x-mine", "X-Mine: 1"},
			[]string{"X-Real-Ip: 127.0.0.1", "X-Forwarded-For: 127.0.0.1", "X-Consumer-Username: jack"},
			[]string{"X-Mine: 1"},
		},
		{
			"133 underscores", []string{"X_Forwarded_For: 1.1.1.1", "X_Real_IP: 1.1.1.1", "X_Consumer_Username: root", "X_Own: 1"},
			[]string{"X-Forwarded-For: 127.0.0.1", "X-Consumer-Username: jack", "X_own: 1"},
			[]string{"1.1.1.1", "root"},
		},
		{
			"134 twice", []string{"X-Forwarded-Proto: https", "X-Forwarded-Proto: https"},
			[]string{"X-Forwarded-Proto: http\n"},
			[]string{"X-Forwarded-Proto: https"},
		},
	} {
		_, body := s.send("/a", append(c.lines, "apikey: k")...)
		for _, line := range c.has {
			if strings.Count(body, line) != 1 {
				t.Errorf("%s: not once %q in\n%s", c.name, line, body)
			}
		}
		for _, line := range c.none {
			if strings.Contains(body, line) {
				t.Errorf("%s: %q in\n%s", c.name, line, body)
			}
		}
	}
}

// Cases 136, 137 and 139: fields of answers that stand there once, or twice.
func TestFieldAnswerHeaders(t *testing.T) {
	s := newSite(t, "")
	node := s.witness("Server", "x", "Access-Control-Allow-Origin", "http://up.test", "Access-Control-Allow-Methods", "GET")
	s.put("routes/1", s.route("/a", node, ""))
	s.put("routes/2", s.route("/cors", node, `,"plugins":{"cors":{}}`))
	s.put("routes/3", s.route("/cookies", node, `,"plugins":{"response-rewrite":{"headers":{"add":["Set-Cookie: a=1","Set-Cookie: b=2"]}}}`))
	for _, c := range []struct {
		name, target, field string
		want                []string
	}{
		{"136", "/a", "Server", []string{"Weir"}},
		{"137", "/cors", "Access-Control-Allow-Origin", []string{"*"}},
		{"137", "/cors", "Access-Control-Allow-Methods", []string{"*"}},
		{"139", "/cookies", "Set-Cookie", []string{"a=1", "b=2"}},
	} {
		res, _ := s.send(c.target, "Origin: http://o.test")
		if got := res.Header.Values(c.field); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s: %q, want %q", c.name, c.field, got, c.want)
		}
	}
}

// Case 83: each of many consumers is found. Case 84: a reference to a secret that
// is not there opens nothing, and the error log tells of it.
func TestFieldKeys(t *testing.T) {
	var log string
	s := newSiteWith(t, "", func(o *Options) { log = o.Config.Nginx.ErrorLog })
	s.put("routes/1", s.route("/a", s.witness(), `,"plugins":{"key-auth":{}}`))
	for i := range 20 {
		name := fmt.Sprint("consumer", i+1)
		s.put("consumers/"+name, consumer(name, fmt.Sprint("auth-", i+1)))
	}
	for i := range 20 {
		want := fmt.Sprintf("X-Consumer-Username: consumer%d\n", i+1)
		if _, body := s.send("/a", fmt.Sprint("apikey: auth-", i+1)); !strings.Contains(body, want) {
			t.Errorf("auth-%d: no %q in\n%s", i+1, want, body)
		}
	}
	s.put("consumers/missing", consumer("missing", "$ENV://WEIR_NOT_THERE"))
	s.put("consumers/unknown", consumer("unknown", "$secret://vault/none/key"))
	for _, key := range []string{"$ENV://WEIR_NOT_THERE", "$secret://vault/none/key", ""} {
		s.expect("401", s.reached("/a", "apikey: "+key))
	}
	said, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"consumers/missing", "consumers/unknown"} {
		if line := regexp.MustCompile(`(?m)^.*` + name + `.*$`).FindString(string(said)); !strings.Contains(line, "reference of its key is not resolved") {
			t.Errorf("%s is not in the error log:\n%s", name, said)
		}
	}
}

// Cases 97, 99, 101, 102 and 104: what is merged, and what is not.
func TestFieldMerge(t *testing.T) {
	s := newSite(t, "")
	limit := func(n int) string { return fmt.Sprintf(`"limit-count":{"count":%d,"time_window":600}`, n) }

	// One plugin of two objects: the nearer one's alone is seen.
	s.put("routes/97", s.route("/97", s.echo, `,"plugins":{"key-auth":{},"response-rewrite":{"headers":{"set":{"X-Route":"1"}}}}`))
	s.put("consumers/jill", `{"username":"jill","plugins":{"key-auth":{"key":"jill"},"response-rewrite":{"headers":{"set":{"X-Consumer":"1"}}}}}`)
	res, _ := s.send("/97", "apikey: jill")
	s.expect("[] [1]", fmt.Sprint(res.Header.Values("X-Route"), " ", res.Header.Values("X-Consumer")))

	s.put("plugin_configs/99", `{"plugins":{`+limit(4)+`}}`)
	s.put("routes/99", s.route("/99", s.echo, `,"plugin_config_id":"99","plugins":{`+limit(3)+`}`))
	s.expect("200 2 of 3", s.quota("/99", true))

	s.put("routes/101", s.route("/101", s.echo, `,"plugins":{"key-auth":{},`+limit(3)+`}`))
	s.put("consumers/jack", `{"username":"jack","plugins":{"key-auth":{"key":"jack"},`+limit(5)+`}}`)
	for i := range 5 {
		s.expect(fmt.Sprint("200 ", 4-i), s.quota("/101", false, "apikey", "jack"))
	}
	s.expect("503 0", s.quota("/101", false, "apikey", "jack"))

	s.put("upstreams/ws", `{"nodes":{"`+s.upgrades()+`":1},"enable_websocket":true}`)
	s.put("routes/102", `{"uri":"/102","upstream_id":"ws"}`)
	if res, _ := s.send("/102", "Connection: Upgrade", "Upgrade: websocket"); res.StatusCode != 101 {
		t.Errorf("102: %s", res.Status)
	}

	s.put("plugin_configs/b", `{"plugins":{}}`)
	if status := s.call("PUT", "routes/104", s.route("/104", s.echo, `,"plugin_config_id":"99,b"`)); status != 400 {
		t.Errorf("104: %d", status)
	}
}

// upgrades starts an upstream that switches protocols and says no more.
func (s *site) upgrades() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			s.t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
	}))
	s.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

package forwardauth

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type h = map[string]string

// serve runs an authorization service; its URL stands for URI in configurations.
func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL + "/auth"
}

// echo is a service that reports in its answer what it was asked.
func echo(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	q.Header.Set("Host", q.Host)
	q.Header.Del("Content-Length")
	var lines []string
	for name, values := range q.Header {
		lines = append(lines, fmt.Sprintf("%s: %s\n", name, strings.Join(values, "|")))
	}
	slices.Sort(lines)
	w.WriteHeader(400)
	fmt.Fprintf(w, "%s %s %d\n%s\n%s", q.Method, q.URL, q.ContentLength, strings.Join(lines, ""), body)
}

func cases(t *testing.T, url string, list []plugintest.Case) {
	t.Helper()
	for i := range list {
		list[i].Config = strings.ReplaceAll(list[i].Config, "URI", url)
	}
	plugintest.Run(t, Plugin, list)
}

func TestQuestion(t *testing.T) {
	url := serve(t, echo)
	const always = "User-Agent: Weir\nX-Forwarded-For: 10.1.1.1\nX-Forwarded-Host: example.com\nX-Forwarded-Method: %s\nX-Forwarded-Proto: http\nX-Forwarded-Uri: %s\n"
	host := "Host: " + strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/auth") + "\n"
	cases(t, url, []plugintest.Case{
		{Name: "plain", Config: `{"uri":"URI"}`, Requests: []plugintest.Request{
			{
				Client: "10.1.1.1", Target: "/hello?a=1", Header: h{"Authorization": "x", "X-Forwarded-Host": "forged", "Content-Encoding": "gzip"},
				Status: 400, Body: "GET /auth 0\n" + host + fmt.Sprintf(always, "GET", "/hello?a=1") + "\n",
			},
			{
				Client: "10.1.1.1", Method: "POST", Target: "/a\nb", Payload: "body",
				Status: 400, Body: "GET /auth 0\n" + host + fmt.Sprintf(always, "POST", "/a%0Ab") + "\n",
			},
		}},
		{Name: "post", Config: `{"uri":"URI","request_method":"POST","max_req_body_size":4}`, Requests: []plugintest.Request{
			{Client: "10.1.1.1", Status: 400, Body: "POST /auth 0\n" + host + fmt.Sprintf(always, "GET", "/") + "\n"},
			{
				Client: "10.1.1.1", Method: "PUT", Payload: "body", Header: h{"content-encoding": "gzip", "Transfer-Encoding": "chunked"},
				Status: 400, Body: "POST /auth 4\nContent-Encoding: gzip\n" + host + fmt.Sprintf(always, "PUT", "/") + "\nbody",
			},
			{Payload: "bodyb", Status: 413},
		}},
		{Name: "headers", Config: `{"uri":"URI","request_headers":["Authorization","X-Forwarded-Host","x-none","Connection","X-Both","user-agent"],"extra_headers":{"X-Id":"$arg_id-$request_method","X-Both":"extra","Host":"auth.example","Upgrade":"x"}}`, Requests: []plugintest.Request{
			{
				Client: "10.1.1.1", Query: h{"id": "7"},
				Header: h{"authorization": "key", "X-Forwarded-Host": "forged", "X-Both": "client", "User-Agent": "curl", "X-Other": "o", "Connection": "close"},
				Status: 400, Body: "GET /auth 0\nAuthorization: key\nHost: auth.example\nUser-Agent: curl\nX-Both: extra\nX-Forwarded-For: 10.1.1.1\nX-Forwarded-Host: example.com\n" +
					"X-Forwarded-Method: GET\nX-Forwarded-Proto: http\nX-Forwarded-Uri: /?id=7\nX-Id: 7-GET\n\n",
			},
		}},
		{Name: "injection", Config: `{"uri":"URI","allow_degradation":true,"status_on_error":401,"extra_headers":{"X-User":"$arg_user"}}`, Requests: []plugintest.Request{
			{Target: "/?user=guest%0d%0ax-user1:%20admin", Status: 401},
			{Target: "/?user=guest%7f", Status: 401},
		}},
	})
}

func TestAnswer(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header()["X-User-Id"] = []string{"one", "two"}
		w.Header().Set("X-Other", "o")
		w.Header().Set("Location", "http://example.com/login")
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		switch q.Header.Get("Authorization") {
		case "yes":
			fmt.Fprint(w, strings.Repeat("long", 1000))
		case "nothing":
			w.Header().Del("X-User-Id")
			w.WriteHeader(204)
		case "login":
			w.WriteHeader(302)
		case "large":
			w.WriteHeader(403)
			for range maxAnswer >> 20 {
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
			}
			fmt.Fprint(w, "y")
		default:
			w.WriteHeader(401)
			fmt.Fprint(w, "who are you")
		}
	})
	const conf = `{"uri":"URI","request_headers":["Authorization"],"upstream_headers":["X-User-ID","Connection","Host"],"client_headers":["Location","Set-Cookie","X-None"],"allow_degradation":true`
	cases(t, url, []plugintest.Case{
		{Name: "allowed", Config: conf + `}`, Requests: []plugintest.Request{
			{Header: h{"Authorization": "yes", "x_user_id": "admin", "Connection": "x"}, Upstream: h{"X-User-ID": "one", "x_user_id": "", "Connection": "x", "X-Other": ""}},
			{Header: h{"Authorization": "nothing", "X-User-ID": "admin", "X_User_Id": "admin"}, Gone: []string{"X-User-ID", "X_User_Id"}},
		}},
		{Name: "refused", Config: conf + `}`, Requests: []plugintest.Request{
			{Status: 401, Body: "who are you", Reply: h{
				"Location": "http://example.com/login", "X-User-Id": "", "Content-Type": "",
			}},
			{Header: h{"Authorization": "login"}, Status: 302, Reply: h{"Location": "http://example.com/login"}},
			{Header: h{"Authorization": "large"}, Status: 403}, // whatever is wrong with it, it is a refusal
		}},
	})
	ph, err := Plugin.Compile([]byte(`{"uri":"`+url+`","client_headers":["set-cookie"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	reply := plugintest.Send(ph, plugintest.NewCtx("/"))
	if want := [][2]string{{"set-cookie", "a=1"}, {"set-cookie", "b=2"}}; reply == nil || !slices.Equal(reply.Header, want) {
		t.Errorf("got %v", reply)
	}
}

// TestHopByHop: what belongs to the connection to the service stays there, even
// if it is asked for.
func TestHopByHop(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(buf, "HTTP/1.1 302 Found\r\nLocation: /login\r\nConnection: keep-alive, X-Hop\r\nX-Hop: h\r\nKeep-Alive: timeout=5\r\n"+
			"Proxy-Authenticate: Basic\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n")
		_ = buf.Flush()
	})
	const all = `["Location","Connection","X-Hop","keep-alive","Proxy-Authenticate","Upgrade","Transfer-Encoding","Content-Length","Trailer","TE"]`
	ph, err := Plugin.Compile([]byte(`{"uri":"`+url+`","client_headers":`+all+`}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	reply := plugintest.Send(ph, plugintest.NewCtx("/"))
	if reply == nil || reply.Status != 302 || string(reply.Body) != "ok" || !slices.Equal(reply.Header, [][2]string{{"Location", "/login"}}) {
		t.Errorf("got %v", reply)
	}
}

// TestNoBody: an empty refusal is the service's, not the gateway's own page.
func TestNoBody(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) })
	ph, err := Plugin.Compile([]byte(`{"uri":"`+url+`"}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	if reply := plugintest.Send(ph, plugintest.NewCtx("/")); reply == nil || reply.Body == nil || len(reply.Body) > 0 {
		t.Errorf("got %v", reply)
	}
}

func TestOutage(t *testing.T) {
	closed := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	release := make(chan struct{})
	slow := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	const conf = `{"uri":"URI","timeout":50,"upstream_headers":["X-User"]`
	for _, url := range []string{closed, slow, "http://127.0.0.1:1/"} {
		cases(t, url, []plugintest.Case{
			{Name: "refuse", Config: conf + `}`, Requests: []plugintest.Request{{Status: 403}}},
			{Name: "status", Config: conf + `,"status_on_error":503}`, Requests: []plugintest.Request{{Status: 503}}},
			{Name: "degrade", Config: conf + `,"allow_degradation":true}`, Requests: []plugintest.Request{
				{Header: h{"X-User": "admin", "X-Other": "o"}, Gone: []string{"X-User"}, Upstream: h{"X-Other": "o"}},
			}},
			{Name: "large", Config: conf + `,"allow_degradation":true,"request_method":"POST","max_req_body_size":1}`, Requests: []plugintest.Request{{Payload: "ab", Status: 413}}},
		})
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	cases(t, s.URL, []plugintest.Case{
		{Name: "verified", Config: `{"uri":"URI"}`, Requests: []plugintest.Request{{Status: 403}}},
		{Name: "not verified", Config: `{"uri":"URI","ssl_verify":false}`, Requests: []plugintest.Request{{}}},
	})
}

// TestConnections: connections are used again, or not.
func TestConnections(t *testing.T) {
	var seen []string
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		seen = append(seen, q.RemoteAddr)
		fmt.Fprint(w, "ok")
	})
	for conf, want := range map[string]int{`{"uri":"URI"}`: 1, `{"uri":"URI","keepalive":false}`: 3} {
		seen = nil
		cases(t, url, []plugintest.Case{{Name: conf, Config: conf, Requests: make([]plugintest.Request, 3)}})
		slices.Sort(seen)
		if got := len(slices.Compact(seen)); got != want {
			t.Errorf("%s: %d connections, want %d", conf, got, want)
		}
	}
}

// TestReadError: what happens to the client's body opens no door.
func TestReadError(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	ph, err := Plugin.Compile([]byte(`{"uri":"`+url+`","request_method":"POST","allow_degradation":true}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	defer ph.Close()
	ctx := plugintest.NewCtx("/")
	ctx.Buffer = broken{}
	if plugintest.Send(ph, ctx) == nil {
		t.Error("passed")
	}
}

type broken struct{ plugin.Bufferer }

func (broken) Body(int64) ([]byte, error) { return nil, io.ErrUnexpectedEOF }

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "absent", Config: `{"request_headers":["test"]}`, Invalid: `property "uri" is required`},
		{Name: "type", Config: `{"uri":3233}`, Invalid: `property "uri" validation failed: wrong type: expected string, got number`},
		{Name: "list", Config: `{"uri":"http://a","request_headers":"test"}`, Invalid: `property "request_headers" validation failed: wrong type: expected array, got string`},
		{Name: "method", Config: `{"uri":"http://a","request_method":"PUT"}`, Invalid: `property "request_method" validation failed: matches none of the enum values`},
		{Name: "no url", Config: `{"uri":"127.0.0.1:8199"}`, Invalid: "invalid uri: "},
		{Name: "no scheme", Config: `{"uri":"a/b"}`, Invalid: `invalid uri: it is no URL of http or https`},
		{Name: "scheme", Config: `{"uri":"ftp://a"}`, Invalid: `invalid uri: it is no URL of http or https`},
		{Name: "extra", Config: `{"uri":"http://a","extra_headers":{"x y":"1"}}`, Invalid: `invalid extra_headers: "x y" is no name of a header`},
		{Name: "extra number", Config: `{"uri":"http://a","extra_headers":{"x":1}}`, Invalid: `property "extra_headers" validation failed: failed to validate x (matching "^[^:]+$"): wrong type: expected string, got number`},
		{Name: "no extra", Config: `{"uri":"http://a","extra_headers":{}}`, Invalid: `property "extra_headers" validation failed: expect object to have at least 1 properties`},
	})
}

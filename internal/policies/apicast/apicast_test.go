package apicast

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/policies/caching"
	"weir/internal/policies/defaultcredentials"
	"weir/internal/policies/ratelimitheaders"
	"weir/internal/policies/referrer"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A chain is the policies of one product, with its backend.
type chain struct {
	t       testing.TB
	backend *threescaletest.Backend
	product *threescale.Product
	phases  []plugin.Phases
}

// policy is an element of a chain.
type policy struct {
	spec plugin.Spec
	conf string
}

// newChain makes the chain of a product; proxy are members of its proxy beside a
// mapping rule for all, service those of the service.
func newChain(t testing.TB, s threescale.Settings, service, proxy, oidc string, policies ...policy) *chain {
	t.Helper()
	c := &chain{t: t, backend: threescaletest.NewBackend(t)}
	if s.UserAgent == "" {
		s.UserAgent = "APIcast/test"
	}
	rt := threescaletest.RuntimeOf(s, time.Now)
	t.Cleanup(rt.Close)
	doc := fmt.Sprintf(`{"id":42,"system_name":"orders","backend_authentication_type":"service_token","backend_authentication_value":"token",%s
		"proxy":{"api_backend":"http://api.test","backend":{"endpoint":%q,"host":"su1.test"}%s}}`, service, c.backend.URL, proxy)
	c.product = threescaletest.Product(t, rt, doc, oidc)
	env := threescaletest.Reaching(t, c.product)
	if len(policies) == 0 {
		policies = []policy{{Policy, "{}"}}
	}
	for _, p := range policies {
		ph, err := p.spec.Compile([]byte(p.conf), env)
		if err != nil {
			t.Fatal(err)
		}
		c.phases = append(c.phases, ph)
	}
	return c
}

const (
	hits    = `,"proxy_rules":[{"http_method":"GET","pattern":"/","metric_system_name":"hits","delta":1}]`
	byKey   = `"backend_version":1,`
	byAppID = `"backend_version":"2",`
)

// A call is a request on its way through the chain.
type call struct {
	*plugin.Ctx
	reply *plugin.Reply
}

func (c *chain) send(x *plugin.Ctx) *call {
	c.product.Begin(x)
	k := &call{x, nil}
	for _, phase := range [...]func(*plugin.Phases) func(*plugin.Ctx) *plugin.Reply{
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Rewrite },
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Access },
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Content },
	} {
		for i := range c.phases {
			if f := phase(&c.phases[i]); f != nil && k.reply == nil {
				k.reply = f(x)
			}
		}
	}
	if x.Sent.Status = 200; k.reply != nil {
		x.Sent.Status = k.reply.Status
	}
	for i := range c.phases {
		if f := c.phases[i].Log; f != nil {
			f(x)
		}
	}
	threescale.End(x)
	return k
}

func (c *chain) get(target string, fields ...[2]string) *call {
	return c.send(plugintest.NewCtx(target, fields...))
}

// status is that of the answer, 200 if the request went upstream.
func (k *call) status() int {
	if k.reply == nil {
		return 200
	}
	return k.reply.Status
}

func (k *call) replyHeader(name string) string {
	for _, h := range k.ReplyHeader() {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

// settled waits until what is reported after the answers has been.
func (c *chain) settled(n int) []threescaletest.Call {
	c.t.Helper()
	calls := c.backend.Wait(c.t, n)
	time.Sleep(20 * time.Millisecond) // the answer must be taken in, too
	return append(calls, c.backend.Calls()...)
}

func TestAuthRep(t *testing.T) {
	c := newChain(t, threescale.Settings{}, byAppID, hits, "")
	k := c.get("/a?app_id=an%20id&app_key=k&x=1")
	if k.status() != 200 || k.To.Upstream == nil || k.To.Host != "api.test" {
		t.Fatalf("%d %+v", k.status(), k.To)
	}
	calls := c.backend.Calls()
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	got := calls[0]
	// The argument goes on as it came, encoded once more, as in APIcast.
	want := url.Values{"service_id": {"42"}, "service_token": {"token"}, "usage[hits]": {"1"}, "app_id": {"an%20id"}, "app_key": {"k"}}
	if got.Method != "GET" || got.Path != "/transactions/authrep.xml" || got.Query.Encode() != want.Encode() {
		t.Errorf("%s %s %v", got.Method, got.Path, got.Query)
	}
	if got.Host != "su1.test" || got.Header.Get("User-Agent") != "APIcast/test" ||
		got.Header.Get("3scale-options") != "rejection_reason_header=1&limit_headers=1&no_body=1" {
		t.Errorf("%s %v", got.Host, got.Header)
	}
}

func TestBackendOverride(t *testing.T) {
	other := threescaletest.NewBackend(t)
	c := newChain(t, threescale.Settings{BackendOverride: other.URL + "/base/"}, byKey, hits, "")
	c.get("/?user_key=k")
	if calls := other.Calls(); len(calls) != 1 || calls[0].Path != "/base/transactions/authrep.xml" || calls[0].Host != "127.0.0.1" {
		t.Errorf("%+v", calls)
	}
	if len(c.backend.Calls()) != 0 {
		t.Error("the product's own backend was asked")
	}
}

// Credentials of all kinds and from all places (apicast.md §4.1).
func TestCredentials(t *testing.T) {
	const missing = 401
	form := [2]string{"Content-Type", "Application/X-WWW-Form-Urlencoded; charset=utf-8"}
	basic := func(text string) [2]string { return [2]string{"Authorization", "Basic " + text} }
	header, authorization := `,"credentials_location":"headers"`, `,"credentials_location":"authorization"`
	for _, tc := range []struct {
		name, service, proxy, target string
		fields                       [][2]string
		method, body                 string
		want                         string // what the backend is shown; empty: it is not asked
	}{
		{"key", byKey, "", "/?user_key=k", nil, "", "", "user_key=k"},
		{"key by another name", byKey, `,"auth_user_key":"API-Key"`, "/?api-key=k", nil, "", "", "user_key=k"},
		{"key in another case", byKey, "", "/?USER_KEY=k", nil, "", "", "user_key=k"},
		{"first of two", byKey, "", "/?user_key=a&user_key=b", nil, "", "", "user_key=a"},
		{"empty key", byKey, "", "/?user_key=", nil, "", "", "user_key="},
		{"argument without value", byKey, "", "/?user_key", nil, "", "", ""},
		{"no key", byKey, "", "/?other=1", [][2]string{{"user_key", "k"}}, "", "", ""},
		{"key in a form", byKey, "", "/", [][2]string{form}, "POST", "x=1&user%5Fkey=a+b", "user_key=a+b"},
		{"key in a form of another type", byKey, "", "/", [][2]string{{"Content-Type", "text/plain"}}, "POST", "user_key=k", ""},
		{"key in a form of another method", byKey, "", "/", [][2]string{form}, "DELETE", "user_key=k", ""},
		{"key in a long form", byKey, "", "/", [][2]string{form}, "POST", "user_key=k" + strings.Repeat("1", 16<<10), ""},
		{"id in the query, key in the form", byAppID, "", "/?app_id=i", [][2]string{form}, "PUT", "app_key=k&app_id=j", "app_id=i&app_key=k"},
		{"id alone", byAppID, "", "/?app_id=i", nil, "", "", ""},
		{"key alone", byAppID, "", "/?app_key=i", nil, "", "", ""},
		{"header", byKey, header, "/", [][2]string{{"User-Key", "k"}}, "", "", "user_key=k"},
		{"header by another name", byKey, header + `,"auth_user_key":"X-API-Key"`, "/", [][2]string{{"x_api-key", "k"}}, "", "", "user_key=k"},
		{"not in the query", byKey, header, "/?user_key=k", nil, "", "", ""},
		{"headers", byAppID, header, "/", [][2]string{{"app_id", "i"}, {"App-Key", "k"}}, "", "", "app_id=i&app_key=k"},
		{"Basic", byKey, authorization, "/", [][2]string{basic("dmFsdWU6Cg==")}, "", "", "user_key=value"},
		{"Basic without padding", byKey, authorization, "/", [][2]string{basic("dmFsdWU6Cg")}, "", "", "user_key=value"},
		{"Basic of a key and a password", byKey, authorization, "/", [][2]string{basic("YTpiOmM=")}, "", "", "user_key=a:b"},
		{"Basic of a password", byKey, authorization, "/", [][2]string{basic("OnNlY3JldA==")}, "", "", "user_key="},
		{"Basic without a colon", byKey, authorization, "/", [][2]string{basic("dmFsdWU=")}, "", "", ""},
		{"Basic, broken", byKey, authorization, "/", [][2]string{basic("!123!")}, "", "", ""},
		{"Bearer", byKey, authorization, "/", [][2]string{{"Authorization", "Bearer  k"}}, "", "", "user_key=k"},
		{"bearer", byKey, authorization, "/", [][2]string{{"Authorization", "bearer k"}}, "", "", ""},
		{"Basic of both", byAppID, authorization, "/", [][2]string{basic("aTprOms=")}, "", "", "app_id=i:k&app_key=k"},
		{"Bearer of an id", byAppID, authorization, "/", [][2]string{{"Authorization", "Bearer i"}}, "", "", ""},
		{"another place", byKey, `,"credentials_location":"cookie"`, "/?user_key=k", nil, "", "", ""},
		{"another version", `"backend_version":"3",`, "", "/?user_key=k", nil, "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newChain(t, threescale.Settings{}, tc.service, `,"proxy_rules":[{"http_method":"ANY","pattern":"/","metric_system_name":"hits","delta":1}]`+tc.proxy, "")
			x := plugintest.NewCtx(tc.target, tc.fields...)
			if tc.method != "" {
				x.Request.Method = tc.method
				x.Request.Length, x.Buffer = int64(len(tc.body)), body(tc.body)
			}
			k := c.send(x)
			calls := c.backend.Calls()
			if tc.want == "" {
				if len(calls) != 0 || k.status() != missing || string(k.reply.Body) != "Authentication parameters missing" {
					t.Errorf("%d calls, %d", len(calls), k.status())
				}
				return
			}
			if k.status() != 200 || len(calls) != 1 {
				t.Fatalf("%d calls, %d", len(calls), k.status())
			}
			q := calls[0].Query
			for _, n := range []string{"service_id", "service_token", "usage[hits]"} {
				q.Del(n)
			}
			want, err := url.ParseQuery(strings.ReplaceAll(tc.want, "+", "%20"))
			if err != nil || q.Encode() != want.Encode() {
				t.Errorf("the backend is shown %v", q)
			}
		})
	}
}

type body string

func (b body) Body(limit int64) ([]byte, error) {
	if int64(len(b)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	return []byte(b), nil
}

// HTTP/2 has no arguments in its bodies, as in APIcast.
func TestCredentialsInForms(t *testing.T) {
	c := newChain(t, threescale.Settings{}, byKey, hits, "")
	x := plugintest.NewCtx("/", [2]string{"Content-Type", "application/x-www-form-urlencoded"})
	x.Request.Method, x.Request.Proto, x.Request.Length, x.Buffer = "POST", wire.HTTP2, 10, body("user_key=k")
	if k := c.send(x); k.status() != 401 {
		t.Error(k.status())
	}
}

func TestUsage(t *testing.T) {
	rules := `,"proxy_rules":[
		{"http_method":"GET","pattern":"/a","metric_system_name":"a","delta":2},
		{"http_method":"ANY","pattern":"/a/{id}$","metric_system_name":"hits","delta":1},
		{"http_method":"GET","pattern":"/a?n={n}","querystring_parameters":{"n":"{n}"},"metric_system_name":"a","delta":3},
		{"http_method":"GET","pattern":"/last","metric_system_name":"x y","delta":1,"last":true},
		{"http_method":"GET","pattern":"/last","metric_system_name":"never","delta":1},
		{"http_method":"POST","pattern":"/p","querystring_parameters":{"n":"1"},"metric_system_name":"p","delta":1},
		{"http_method":"GET","pattern":"/zero","metric_system_name":"zero"}]`
	for _, tc := range []struct{ method, target, body, want string }{
		{"GET", "/a", "", "usage[a]=2"},
		{"GET", "/a/1", "", "usage[a]=2&usage[hits]=1"},
		{"PUT", "/a/1", "", "usage[hits]=1"},
		{"GET", "/a?n=", "", "usage[a]=5"},
		{"GET", "/last", "", "usage[x y]=1"},
		{"GET", "/zero", "", ""},
		{"GET", "/b/a", "", ""},
		{"POST", "/p", "n=1", "usage[p]=1"},
		{"POST", "/p?n=1", "m=1", "usage[p]=1"},
		{"POST", "/p?n=1", "n=2", ""}, // the form's shadows the query's
		{"POST", "/p?n=2", "n=2&n=1", "usage[p]=1"},
	} {
		c := newChain(t, threescale.Settings{}, byKey, rules, "")
		target := tc.target + "?user_key=k"
		if strings.Contains(tc.target, "?") {
			target = tc.target + "&user_key=k"
		}
		x := plugintest.NewCtx(target, [2]string{"Content-Type", "application/x-www-form-urlencoded"})
		x.Request.Method, x.Request.Length, x.Buffer = tc.method, int64(len(tc.body)), body(tc.body)
		k := c.send(x)
		calls := c.backend.Calls()
		if tc.want == "" {
			if k.status() != 404 || string(k.reply.Body) != "No Mapping Rule matched" || len(calls) != 0 {
				t.Errorf("%s %s %s: %d, %d calls", tc.method, tc.target, tc.body, k.status(), len(calls))
			}
			continue
		}
		if len(calls) != 1 {
			t.Errorf("%s %s %s: %d, %d calls", tc.method, tc.target, tc.body, k.status(), len(calls))
			continue
		}
		q := calls[0].Query
		for _, n := range []string{"service_id", "service_token", "user_key"} {
			q.Del(n)
		}
		if got, _ := url.QueryUnescape(strings.ReplaceAll(q.Encode(), "+", "%20")); got != tc.want {
			t.Errorf("%s %s %s: %s, want %s", tc.method, tc.target, tc.body, got, tc.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	limits := map[string]string{"3scale-rejection-reason": "limits_exceeded", "3scale-limit-reset": "60", "3scale-limit-max-value": "10"}
	off := map[string]string{"3scale-rejection-reason": "limits_exceeded", "3scale-limit-reset": "60", "3scale-limit-max-value": "0"}
	own := `,"error_auth_failed":"no!","error_status_auth_failed":402,"error_headers_auth_failed":"text/html","error_limits_exceeded":"slow!","error_status_limits_exceeded":430`
	for _, tc := range []struct {
		status int
		header map[string]string
		proxy  string
		want   string
		retry  string
	}{
		{403, map[string]string{"3scale-rejection-reason": "user_key_invalid"}, "", "403 Authentication failed text/plain; charset=utf-8", ""},
		{409, nil, "", "403 Authentication failed text/plain; charset=utf-8", ""},
		{409, limits, "", "429 Limits exceeded text/plain; charset=utf-8", "60"},
		{409, off, "", "403 Authentication failed text/plain; charset=utf-8", ""},
		{409, map[string]string{"3scale-rejection-reason": "limits_exceeded"}, "", "429 Limits exceeded text/plain; charset=utf-8", ""},
		{202, nil, "", "403 Authentication failed text/plain; charset=utf-8", ""},
		{500, limits, "", "403 Authentication failed text/plain; charset=utf-8", ""},
		{0, nil, "", "403 Authentication failed text/plain; charset=utf-8", ""},
		{403, nil, own, "402 no! text/html", ""},
		{409, limits, own, "430 slow! text/plain; charset=utf-8", "60"},
	} {
		c := newChain(t, threescale.Settings{}, byKey, hits+tc.proxy, "")
		c.backend.Says(tc.status, tc.header)
		k := c.get("/?user_key=k")
		if k.reply == nil {
			t.Errorf("%d %v passes", tc.status, tc.header)
			continue
		}
		if got := fmt.Sprint(k.reply.Status, " ", string(k.reply.Body), " ", k.reply.Header[0][1]); got != tc.want || k.replyHeader("Retry-After") != tc.retry {
			t.Errorf("%d %v: %s, Retry-After %q", tc.status, tc.header, got, k.replyHeader("Retry-After"))
		}
	}
}

// The backend is down, and was never asked about these callers (field case 91) or
// had said yes (88, apicast.md §4.4).
func TestBackendDown(t *testing.T) {
	for _, tc := range []struct {
		caching  string
		settings threescale.Settings
		first    int // what the backend says of the first request; -1: nothing was asked
		want     string
	}{
		{"", threescale.Settings{}, -1, "403 403 403"},
		{"", threescale.Settings{}, 200, "200 403 403"},
		{"", threescale.Settings{Resilient: true}, 200, "200 200 200"},
		{"", threescale.Settings{Resilient: true}, -1, "403 403 403"},
		{"strict", threescale.Settings{Resilient: true}, 200, "200 403 403"},
		{"resilient", threescale.Settings{}, -1, "403 403 403"},
		{"resilient", threescale.Settings{}, 200, "200 200 200"},
		{"resilient", threescale.Settings{}, 409, "403 403 403"},
		{"allow", threescale.Settings{}, -1, "200 200 200"},
		{"allow", threescale.Settings{}, 409, "403 403 403"},
		{"none", threescale.Settings{}, 200, "403 403 403"},
		{"nonsense", threescale.Settings{}, 200, "403 403 403"},
	} {
		for _, down := range []int{502, 0} {
			policies := []policy{{Policy, "{}"}}
			if tc.caching != "" { // it may stand anywhere
				policies = append(policies, policy{caching.Policy, fmt.Sprintf(`{"caching_type":%q}`, tc.caching)})
			}
			c := newChain(t, tc.settings, byKey, hits, "", policies...)
			if tc.first > 0 {
				c.backend.Says(tc.first, nil)
				c.get("/?user_key=k")
				c.backend.Calls()
			}
			c.backend.Says(down, nil)
			var got []string
			for range 3 {
				got = append(got, fmt.Sprint(c.get("/?user_key=k").status()))
				c.settled(1)
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("%s %+v, first %d, then %d: %s, want %s", tc.caching, tc.settings.Resilient, tc.first, down, s, tc.want)
			}
		}
	}
}

// What was authorized before is not asked again, but told after the answer.
func TestReports(t *testing.T) {
	c := newChain(t, threescale.Settings{ResponseCodes: true}, byKey, hits, "",
		policy{referrer.Policy, "{}"}, policy{Policy, "{}"})
	from := [2]string{"Referer", "https://a.test/?b=c"}
	c.get("/?user_key=k", from)
	if q := c.backend.Calls()[0].Query; q.Get("referrer") != from[1] || q.Has("log[code]") {
		t.Errorf("%v", q)
	}
	if k := c.get("/?user_key=k", from); k.status() != 200 {
		t.Fatal(k.status())
	}
	if q := c.settled(1)[0].Query; q.Get("log[code]") != "200" || q.Get("referrer") != from[1] || q.Get("usage[hits]") != "1" || q.Get("user_key") != "k" {
		t.Errorf("%v", q)
	}
	// What makes a difference to the backend is another authorization.
	c.backend.Says(409, nil)
	if k := c.get("/?user_key=k"); k.status() != 403 {
		t.Errorf("without a referrer: %d", k.status())
	}
	if k := c.get("/?user_key=K", from); k.status() != 403 {
		t.Errorf("another key: %d", k.status())
	}
	c.backend.Calls()
	// One more passes; then the refusal of its report counts.
	if k := c.get("/?user_key=k", from); k.status() != 200 {
		t.Error(k.status())
	}
	c.settled(1)
	if k := c.get("/?user_key=k", from); k.status() != 403 {
		t.Error(k.status())
	}
}

// What is answered by another policy after the authorization was used; what is
// answered before was not.
func TestReportsOfWhatIsAnswered(t *testing.T) {
	denies := func(phase string) plugin.Spec {
		return plugin.Define(plugin.Meta{Name: "denies"}, func(*struct{}, plugin.Env) (plugin.Phases, error) {
			deny := func(*plugin.Ctx) *plugin.Reply { return plugin.Text(418, "") }
			if phase == "rewrite" {
				return plugin.Phases{Rewrite: deny}, nil
			}
			return plugin.Phases{Access: deny}, nil
		})
	}
	allow := policy{caching.Policy, `{"caching_type":"allow"}`}
	for _, tc := range []struct {
		policies []policy
		want     int
	}{
		{[]policy{allow, {denies("rewrite"), "{}"}, {Policy, "{}"}}, 0},
		{[]policy{allow, {denies("access"), "{}"}, {Policy, "{}"}}, 0},
		{[]policy{allow, {Policy, "{}"}, {denies("access"), "{}"}}, 3},
	} {
		c := newChain(t, threescale.Settings{}, byKey, hits, "", tc.policies...)
		for range 3 {
			if k := c.get("/?user_key=k"); k.status() != 418 {
				t.Error(k.status())
			}
		}
		if got := len(c.settled(tc.want)); got != tc.want {
			t.Errorf("%d calls, want %d", got, tc.want)
		}
	}
}

func TestDebugHeaders(t *testing.T) {
	c := newChain(t, threescale.Settings{}, byAppID, `,"proxy_rules":[
		{"http_method":"GET","pattern":"/a?x={y}","querystring_parameters":{"x":"{y}"},"metric_system_name":"zed","delta":1},
		{"http_method":"GET","pattern":"/","metric_system_name":"hits","delta":2}]`, "")
	c.backend.Says(403, nil)
	k := c.get("/a?x=1&app_id=i&app_key=a%2Fb", [2]string{"X-3scale-Debug", "token"})
	for name, want := range map[string]string{
		"X-3scale-matched-rules": "/a?x={y}, /", "X-3scale-usage": "usage%5Bhits%5D=2&usage%5Bzed%5D=1", "X-3scale-service-id": "42",
		"X-3scale-credentials": "app_id=i&app_key=a%252Fb", "X-3scale-service-name": "orders",
	} {
		if got := k.replyHeader(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if k.replyHeader("X-3scale-hostname") == "" {
		t.Error("no hostname")
	}
	for _, wrong := range [][2]string{{"X-3scale-Debug", "other"}, {"X-3scale-Debug", ""}, {"X-Other", "token"}} {
		if k := c.get("/a?app_id=i&app_key=k", wrong); len(k.ReplyHeader()) != 0 {
			t.Errorf("%v is shown %v", wrong, k.ReplyHeader())
		}
	}
	if k := c.get("/?app_id=i", [2]string{"X-3scale-Debug", "token"}); len(k.ReplyHeader()) != 0 {
		t.Errorf("%v", k.ReplyHeader())
	}
}

func TestNoMatchSaysSo(t *testing.T) {
	c := newChain(t, threescale.Settings{}, byKey, `,"error_no_match":"none","error_status_no_match":412`, "")
	k := c.get("/?user_key=k")
	if k.status() != 412 || string(k.reply.Body) != "none" {
		t.Errorf("%+v", k.reply)
	}
	last := k.reply.Header[len(k.reply.Header)-1]
	if last != [2]string{"x-3scale-matched-rules", ""} {
		t.Errorf("%v", k.reply.Header)
	}
}

func TestDefaultCredentials(t *testing.T) {
	for _, tc := range []struct{ service, conf, target, want string }{
		{byKey, `{"auth_type":"user_key","user_key":"uk"}`, "/", "user_key=uk"},
		{byKey, `{"auth_type":"user_key","user_key":"uk"}`, "/?user_key=k", "user_key=k"},
		{byAppID, `{"auth_type":"app_id_and_app_key","app_id":"i","app_key":"k"}`, "/", "app_id=i&app_key=k"},
		{byAppID, `{"auth_type":"app_id_and_app_key","app_id":"i","app_key":"k"}`, "/?app_id=j", ""},
		{byAppID, `{"auth_type":"app_id_and_app_key","app_id":"i"}`, "/", ""},
		{byAppID, `{"user_key":"uk"}`, "/", ""},
		{`"backend_version":"oauth",`, `{"user_key":"uk"}`, "/", ""},
	} {
		c := newChain(t, threescale.Settings{}, tc.service, hits+`,"authentication_method":"x"`, "",
			policy{defaultcredentials.Policy, tc.conf}, policy{Policy, "{}"})
		k := c.get(tc.target)
		calls := c.backend.Calls()
		if tc.want == "" {
			if k.status() != 401 || len(calls) != 0 {
				t.Errorf("%+v: %d", tc, k.status())
			}
			continue
		}
		q := calls[0].Query
		for _, n := range []string{"service_id", "service_token", "usage[hits]"} {
			q.Del(n)
		}
		if q.Encode() != tc.want {
			t.Errorf("%+v: %v", tc, q)
		}
	}
}

func TestRateLimitHeaders(t *testing.T) {
	c := newChain(t, threescale.Settings{}, byKey, hits, "", policy{ratelimitheaders.Policy, "{}"}, policy{Policy, "{}"})
	show := func(k *call) string {
		return fmt.Sprint(k.replyHeader("RateLimit-Limit"), " ", k.replyHeader("RateLimit-Remaining"), " ", k.replyHeader("RateLimit-Reset"))
	}
	c.backend.Says(200, map[string]string{"3scale-limit-max-value": "10", "3scale-limit-remaining": "1", "3scale-limit-reset": "60"})
	if got := show(c.get("/?user_key=a")); got != "10 1 60" {
		t.Error(got)
	}
	c.backend.Says(200, nil) // the report changes nothing before it was answered
	for _, want := range []string{"10 0 60", "  "} {
		c.backend.Calls()
		if got := show(c.get("/?user_key=a")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		c.settled(1)
	}
	if got := show(c.get("/?user_key=b")); got != "  " {
		t.Error(got)
	}
}

func TestOAuthWithoutOpenID(t *testing.T) {
	c := newChain(t, threescale.Settings{}, `"backend_version":"oauth",`, hits, "")
	if k := c.get("/?access_token=t"); k.status() != 404 || len(k.reply.Body) != 0 || len(c.backend.Calls()) != 0 {
		t.Error(k.status())
	}
}

// A backend that cannot be is a fault of the guard, so that the product is closed.
func TestBrokenBackend(t *testing.T) {
	for _, endpoint := range []string{"ftp://backend.test", "http://", "nonsense"} {
		p := threescaletest.Product(t, nil, fmt.Sprintf(`{"id":1,"backend_version":1,"proxy":{"backend":{"endpoint":%q}}}`, endpoint), "")
		if _, err := Policy.Compile([]byte("{}"), threescaletest.Reaching(t, p)); err == nil || !strings.Contains(err.Error(), "backend") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	if !Policy.Guard {
		t.Error("apicast is no guard")
	}
}

// What was authorized before costs no call and no allocation.
func TestRememberedAllocatesNothing(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	c := newChain(t, threescale.Settings{}, byAppID, `,"proxy_rules":[
		{"http_method":"GET","pattern":"/v1/{kind}/{id}$","metric_system_name":"reads","delta":1},
		{"http_method":"GET","pattern":"/","metric_system_name":"hits","delta":1}]`, "",
		policy{caching.Policy, `{"caching_type":"resilient"}`}, policy{Policy, "{}"})
	var gone atomic.Bool
	c.backend.Answers(func(threescaletest.Call) (int, map[string]string) {
		gone.Store(true)
		return 200, nil
	})
	x := plugintest.NewCtx("/v1/orders/4711?app_id=application&app_key=secret", [2]string{"Accept", "*/*"})
	request := func() {
		x.Path, x.Client = "/v1/orders/4711", "127.0.0.1"
		c.product.Begin(x)
		for i := range c.phases {
			c.phases[i].Rewrite(x)
		}
		if reply := c.phases[1].Access(x); reply != nil {
			t.Fatal(reply.Status)
		}
		if reply := c.phases[1].Content(x); reply != nil {
			t.Fatal(reply.Status)
		}
		threescale.End(x)
		x.Reset()
	}
	request()
	gone.Store(false)
	if n := testing.AllocsPerRun(200, request); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if gone.Load() {
		t.Error("the backend was asked")
	}
}

// What another policy was to authorize, and did not, does not pass: a condition
// around it may have changed between the phases.
func TestDelegatedToNobody(t *testing.T) {
	delegates := plugin.Define(plugin.Meta{Name: "delegates"}, func(*struct{}, plugin.Env) (plugin.Phases, error) {
		return plugin.Phases{Rewrite: func(c *plugin.Ctx) *plugin.Reply {
			threescale.Of(c).Delegated = true
			return nil
		}}, nil
	})
	c := newChain(t, threescale.Settings{}, byKey, hits, "", policy{delegates, "{}"}, policy{Policy, "{}"})
	if k := c.get("/?user_key=k"); k.status() != 403 || k.To.Upstream != nil || len(c.backend.Calls()) != 0 {
		t.Error(k.status())
	}
}

func TestBackendHosts(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://backend.test:8089": "backend.test", "https://backend.test": "backend.test", "https://[::1]:8443/x": "[::1]",
	} {
		p := threescaletest.Product(t, nil, fmt.Sprintf(`{"id":1,"backend_version":1,"proxy":{"backend":{"endpoint":%q}}}`, endpoint), "")
		env := threescaletest.Reaching(t, p)
		client, err := threescale.NewClient(env)
		if err != nil {
			t.Fatal(err)
		}
		if got := client.Host(); got != want {
			t.Errorf("%s: %s, want %s", endpoint, got, want)
		}
	}
}

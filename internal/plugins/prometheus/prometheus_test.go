package prometheus

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"weir/internal/leaktest"
	"weir/internal/meter"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A gateway compiles configurations as one that runs does.
type gateway struct {
	t      testing.TB
	keeper plugin.Keeper
	env    plugin.Env

	mu   sync.Mutex
	gone map[string]bool // objects that are deleted
}

func newGateway(t testing.TB, attr string) *gateway {
	g := &gateway{t: t, env: plugintest.Env(time.Now), gone: map[string]bool{}}
	if attr != "" {
		g.env.Attr = json.RawMessage(attr)
	}
	g.env.Exists = func(object string) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return !g.gone[object]
	}
	t.Cleanup(g.keeper.Close)
	return g
}

func (g *gateway) remove(objects ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range objects {
		g.gone[o] = true
	}
}

// A route is a compiled configuration.
type route struct {
	plugin.Phases
	uses *plugin.Uses
}

func (r *route) close() { r.uses.Release() }

func (g *gateway) compile(conf, meta string) *route {
	g.t.Helper()
	env := g.env
	env.Keep = g.keeper.Uses()
	if meta != "" {
		env.Metadata = []byte(meta)
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		g.t.Fatal(err)
	}
	return &route{ph, env.Keep}
}

// text exposes everything, which Prometheus' parser must take.
func (g *gateway) text() string {
	g.t.Helper()
	var b strings.Builder
	if err := g.env.Meter.Expose(&b, "apisix_"); err != nil {
		g.t.Fatal(err)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := p.TextToMetricFamilies(strings.NewReader(b.String())); err != nil {
		g.t.Fatalf("%v in\n%s", err, b.String())
	}
	return b.String()
}

func (g *gateway) has(lines ...string) {
	g.t.Helper()
	all := g.text()
	for _, l := range lines {
		if !strings.Contains(all, l+"\n") {
			g.t.Errorf("no %s in\n%s", l, all)
		}
	}
}

func (g *gateway) lacks(texts ...string) {
	g.t.Helper()
	all := g.text()
	for _, s := range texts {
		if strings.Contains(all, s) {
			g.t.Errorf("%s in\n%s", s, all)
		}
	}
}

// finished is a request that took 12 ms, 10 of them upstream.
func finished(change func(*plugin.Ctx)) *plugin.Ctx {
	c := plugintest.NewCtx("/hello")
	c.MatchedPath, c.MatchedHost = "/hello", "*.test"
	c.Route = &plugin.Route{ID: "1", Name: "first", ServiceID: "7", ServiceName: "seven"}
	c.Consumer = &plugin.Consumer{Name: "jack"}
	c.Start = time.Unix(1000, 0)
	c.Sent = plugin.Outcome{
		Status: 200, Source: plugin.FromUpstream, Received: 100, Bytes: 300, End: c.Start.Add(12 * time.Millisecond),
		Tries: []plugin.Try{{Addr: "127.0.0.1:1980", Total: 10 * time.Millisecond, Status: 200}},
	}
	if change != nil {
		change(c)
	}
	return c
}

const (
	ids   = `route="1",service="7",consumer="jack",node="127.0.0.1",request_type="traditional_http",request_llm_model="",llm_model=""`
	names = `route="first",service="seven",consumer="jack",node="127.0.0.1",request_type="traditional_http",request_llm_model="",llm_model=""`
)

func TestCount(t *testing.T) {
	g := newGateway(t, "")
	r := g.compile(`{}`, "")
	for range 3 {
		r.Log(finished(nil))
	}
	r.Log(finished(func(c *plugin.Ctx) { c.Sent.Status = 404 }))
	status := `route="1",matched_uri="/hello",matched_host="*.test",service="7",consumer="jack",node="127.0.0.1",` +
		`request_type="traditional_http",request_llm_model="",llm_model="",response_source="upstream"`
	g.has(
		`# HELP apisix_http_status HTTP status codes per service in APISIX`,
		`# TYPE apisix_http_status counter`,
		`apisix_http_status{code="200",`+status+`} 3`,
		`apisix_http_status{code="404",`+status+`} 1`,
		`# TYPE apisix_http_latency histogram`,
		`apisix_http_latency_bucket{type="request",`+ids+`,le="10"} 0`,
		`apisix_http_latency_bucket{type="request",`+ids+`,le="20"} 4`,
		`apisix_http_latency_bucket{type="request",`+ids+`,le="+Inf"} 4`,
		`apisix_http_latency_sum{type="request",`+ids+`} 48`,
		`apisix_http_latency_count{type="request",`+ids+`} 4`,
		`apisix_http_latency_sum{type="upstream",`+ids+`} 40`,
		`apisix_http_latency_bucket{type="apisix",`+ids+`,le="1"} 0`,
		`apisix_http_latency_bucket{type="apisix",`+ids+`,le="2"} 4`,
		`apisix_bandwidth{type="ingress",`+ids+`} 400`,
		`apisix_bandwidth{type="egress",`+ids+`} 1200`,
		`apisix_nginx_metric_errors_total 0`,
	)
	r.close()
}

func TestLabels(t *testing.T) {
	g := newGateway(t, "")
	r := g.compile(`{}`, "")
	named := g.compile(`{"prefer_name":true}`, "")
	named.Log(finished(nil))
	named.Log(finished(func(c *plugin.Ctx) { c.Route = &plugin.Route{ID: "2"} }))
	r.Log(finished(func(c *plugin.Ctx) {
		c.Route, c.Consumer, c.Sent.Tries, c.MatchedPath, c.MatchedHost = nil, nil, nil, "", ""
	}))
	r.Log(finished(func(c *plugin.Ctx) { c.Sent.Tries[0].Addr = "[::1]:80" }))
	r.Log(finished(func(c *plugin.Ctx) {
		c.Sent.Tries = append(c.Sent.Tries, plugin.Try{Addr: "10.0.0.2:80", Total: time.Millisecond})
		c.Sent.Source = plugin.FromProxy
	}))
	g.has(
		`apisix_bandwidth{type="egress",`+names+`} 300`,
		`apisix_bandwidth{type="egress",route="2",service="",consumer="jack",node="127.0.0.1",request_type="traditional_http",request_llm_model="",llm_model=""} 300`,
		`apisix_http_status{code="200",route="",matched_uri="",matched_host="",service="",consumer="",node="",request_type="traditional_http",request_llm_model="",llm_model="",response_source="upstream"} 1`,
		`apisix_bandwidth{type="egress",`+strings.Replace(ids, "127.0.0.1", "::1", 1)+`} 300`,
		`apisix_http_latency_sum{type="upstream",`+strings.Replace(ids, "127.0.0.1", "10.0.0.2", 1)+`} 11`,
	)
	g.lacks(`type="upstream",route="",`)
	r.close()
	named.close()
}

func TestDisabledLabels(t *testing.T) {
	g := newGateway(t, "")
	r := g.compile(`{}`, `{"disabled_labels":{"http_status":["route","node"],"bandwidth":["node"]}}`)
	r.Log(finished(nil))
	r.Log(finished(func(c *plugin.Ctx) { c.Route.ID, c.Sent.Tries[0].Addr = "2", "127.0.0.2:80" }))
	g.has(
		`apisix_http_status{code="200",route="",matched_uri="/hello",matched_host="*.test",service="7",consumer="jack",node="",`+
			`request_type="traditional_http",request_llm_model="",llm_model="",response_source="upstream"} 2`,
		`apisix_http_latency_count{type="request",`+ids+`} 1`,
		`apisix_bandwidth{type="egress",`+strings.Replace(ids, "127.0.0.1", "", 1)+`} 300`,
	)
	other := g.compile(`{}`, "")
	r.close()
	other.Log(finished(nil))
	other.Log(finished(nil))
	g.has(`apisix_bandwidth{type="egress",` + ids + `} 600`)
	other.close()
	for meta, want := range map[string]string{
		`{"disabled_labels":{"http_status":["code"]}}`:    `failed to validate item 1`,
		`{"disabled_labels":{"unknown_metric":["node"]}}`: `additional properties forbidden`,
	} {
		if err := Plugin.MetadataSchema().Check([]byte(meta)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", meta, err, want)
		}
	}
}

const attr = `{
	"metric_prefix": "x_", "default_buckets": [15, 5, 15],
	"metrics": {
		"http_status": {"extra_labels": [{"upstream": "$upstream_addr"}, {"none": "$http_none"}]},
		"http_latency": {"extra_labels": [{"method": "$request_method"}]}
	}
}`

func TestExtraLabels(t *testing.T) {
	g := newGateway(t, attr)
	r := g.compile(`{}`, "")
	for range 2 {
		r.Log(finished(nil))
	}
	r.Log(finished(func(c *plugin.Ctx) { c.Request.Method = "POST" }))
	r.Log(finished(func(c *plugin.Ctx) { c.Request.Method = strings.Repeat("x", 2*maxValue) }))
	g.has(
		`apisix_http_latency_bucket{type="request",`+ids+`,method="GET",le="5"} 0`,
		`apisix_http_latency_bucket{type="request",`+ids+`,method="GET",le="15"} 2`,
		`apisix_http_latency_bucket{type="request",`+ids+`,method="GET",le="+Inf"} 2`,
		`apisix_http_latency_count{type="request",`+ids+`,method="POST"} 1`,
		`apisix_http_latency_count{type="request",`+ids+`,method="`+strings.Repeat("x", maxValue)+`"} 1`,
		`apisix_bandwidth{type="egress",`+ids+`} 1200`,
	)
	if all := g.text(); !strings.Contains(all, `response_source="upstream",upstream="127.0.0.1:1980",none=""} 4`) {
		t.Error(all)
	}
	r.close()
}

func TestModels(t *testing.T) {
	g := newGateway(t, "")
	r := g.compile(`{}`, "")
	long := strings.Repeat("m", 200)
	for _, kind := range []string{"ai_stream", "ai_chat"} {
		for _, status := range []int{200, 500} {
			r.Log(finished(func(c *plugin.Ctx) {
				c.Sent.Status = status
				for _, v := range [][2]string{
					{"request_type", kind}, {"llm_model", long}, {"request_llm_model", "gpt"}, {"llm_time_to_first_token", "30"},
					{"apisix_upstream_response_time", "70"}, {"llm_prompt_tokens", "120"}, {"llm_completion_tokens", "7"},
				} {
					c.SetVar(v[0], v[1])
				}
			}))
		}
	}
	labels := func(kind string) string {
		return `route_id="1",service_id="7",consumer="jack",node="127.0.0.1",request_type="` + kind + `",request_llm_model="gpt",llm_model="` + long[:128] + `"`
	}
	g.has(
		`apisix_llm_latency_sum{type="ttft",`+labels("ai_stream")+`} 30`,
		`apisix_llm_latency_sum{type="total",`+labels("ai_stream")+`} 70`,
		`apisix_llm_latency_count{type="total",`+labels("ai_chat")+`} 1`,
		`apisix_llm_prompt_tokens{`+labels("ai_chat")+`} 240`,
		`apisix_llm_completion_tokens{`+labels("ai_chat")+`} 14`,
		`apisix_llm_prompt_tokens_dist_bucket{`+labels("ai_chat")+`,le="200"} 2`,
		`apisix_llm_completion_tokens_dist_sum{`+labels("ai_chat")+`} 14`,
	)
	g.lacks(`type="ttft",` + labels("ai_chat"))
	r.close()
}

// TestLife: counters survive every change of the configuration, and the series
// of a deleted object go, whoever counted them.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "")
		global := g.compile(`{}`, "")
		for range 5 {
			next := g.compile(`{}`, "")
			global.close()
			global = next
			global.Log(finished(nil))
		}
		global.Log(finished(func(c *plugin.Ctx) { c.Route.ID = "2" }))
		global.close()
		global = g.compile(`{}`, "") // after a moment without any
		global.Log(finished(nil))
		g.has(`apisix_bandwidth{type="ingress",` + ids + `} 600`)

		g.remove("routes/2")
		time.Sleep(10 * sweepEvery)
		g.lacks(`route="2"`)
		g.remove("consumers/jack")
		time.Sleep(10 * sweepEvery)
		g.lacks(`consumer="jack"`)
		if n := g.env.Meter.Series(); n != 0 {
			t.Errorf("%d series are left", n)
		}
		global.close()
		g.keeper.Close()
	})
}

// TestExpire: a series that does not change for long enough goes, and begins
// anew.
func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, `{"metrics":{"http_status":{"expire":60}}}`)
		r := g.compile(`{}`, "")
		r.Log(finished(nil))
		for range 20 {
			r.Log(finished(func(c *plugin.Ctx) { c.Sent.Status = 503 }))
			time.Sleep(10 * time.Second)
		}
		g.lacks(`code="200"`)
		g.has(`apisix_bandwidth{type="ingress",` + ids + `} 2100`)
		if all := g.text(); !strings.Contains(all, `response_source="upstream"} 20`) {
			t.Error(all)
		}
		r.Log(finished(nil))
		if all := g.text(); !strings.Contains(all, `code="200"`) {
			t.Error(all)
		}
		r.close()
		g.keeper.Close()
	})
}

// TestExpireSoon: a series is not shown for much longer than it may be.
func TestExpireSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, `{"metrics":{"http_status":{"expire":1},"bandwidth":{"expire":1}}}`)
		r := g.compile(`{}`, "")
		r.Log(finished(nil))
		time.Sleep(time.Second)
		g.has(`apisix_bandwidth{type="ingress",` + ids + `} 100`)
		time.Sleep(time.Second)
		g.lacks("bandwidth", "http_status")
		r.close()
		g.keeper.Close()
	})
}

// TestLimit: label values without end cost a bounded number of series.
func TestLimit(t *testing.T) {
	g := newGateway(t, `{"max_series":50,"metrics":{"http_status":{"extra_labels":[{"uri":"$uri"}]}}}`)
	r := g.compile(`{}`, "")
	for i := range 500 {
		r.Log(finished(func(c *plugin.Ctx) { c.Path = fmt.Sprint("/", i) }))
	}
	if n := g.env.Meter.Series(); n != 50 {
		t.Errorf("%d series", n)
	}
	g.has(`apisix_nginx_metric_errors_total 455`, `apisix_bandwidth{type="ingress",`+ids+`} 50000`)
	r.close()
}

func TestEndpoint(t *testing.T) {
	g := newGateway(t, `{"enable_export_server":false,"export_uri":"/m","metric_prefix":"x_"}`)
	r := g.compile(`{}`, "")
	r.Log(finished(nil))
	e := Plugin.Endpoints(g.env)
	if len(e) != 1 || e[0].Path != "/m" || len(e[0].Methods) != 1 || e[0].Methods[0] != "GET" {
		t.Fatalf("%+v", e)
	}
	reply := e[0].Serve(nil)
	var b strings.Builder
	if err := reply.Stream(&b); err != nil {
		t.Fatal(err)
	}
	if reply.Status != 200 || reply.Header[0][1] != "text/plain; charset=utf-8" || !strings.Contains(b.String(), `x_bandwidth{type="ingress",`+ids+`} 100`) {
		t.Errorf("%+v", reply)
	}
	r.close()
	if e := Plugin.Endpoints(newGateway(t, "").env); e != nil {
		t.Error("a public API beside the server")
	}
	if e, err := Server(g.env.Attr, g.env.Meter); e != nil || err != nil {
		t.Error(e, err)
	}
}

func TestServer(t *testing.T) {
	g := newGateway(t, "")
	r := g.compile(`{}`, "")
	r.Log(finished(nil))
	e, err := Server(nil, g.env.Meter)
	if err != nil || e.Addr != "127.0.0.1:9091" || e.Given {
		t.Fatal(e, err)
	}
	for raw, want := range map[string]string{`{"export_addr":{"ip":"0.0.0.0"}}`: "0.0.0.0:9091", `{"export_addr":{"port":9}}`: "127.0.0.1:9", `{"export_addr":{"port":0}}`: "127.0.0.1:0"} {
		if e, err := Server([]byte(raw), g.env.Meter); err != nil || e.Addr != want || !e.Given {
			t.Errorf("%s: %+v %v", raw, e, err)
		}
	}
	s := httptest.NewServer(e)
	defer s.Close()
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/apisix/prometheus/metrics", 200, `apisix_bandwidth{type="ingress",` + ids + `} 100`},
		{"POST", "/apisix/prometheus/metrics", 404, ""},
		{"GET", "/", 404, ""},
	} {
		req, _ := http.NewRequest(c.method, s.URL+c.path, nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(string(b), c.body) {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, b)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	r.close()
}

func TestBadAttr(t *testing.T) {
	for raw, want := range map[string]string{
		`{"default_buckets":"x"}`:                                     "plugin_attr.prometheus: ",
		`{"metrics":{"bandwidth":{"extra_labels":[{"a-b":"$uri"}]}}}`: `plugin_attr.prometheus.metrics.bandwidth.extra_labels: "a-b" is not the name of a label`,
		`{"metrics":{"bandwidth":{"extra_labels":[{"a":"uri"}]}}}`:    `"uri" is not a variable`,
		`{"metrics":{"bandwidth":{"extra_labels":[{"le":"$uri"}]}}}`:  `"le" is not the name of a label`,
	} {
		g := newGateway(t, raw)
		if _, err := Plugin.Compile([]byte(`{}`), g.env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", raw, err, want)
		}
		if _, err := Server(g.env.Attr, meter.New(0)); err == nil {
			t.Errorf("%s: served", raw)
		}
		if e := Plugin.Endpoints(g.env); e != nil {
			t.Errorf("%s: has an API", raw)
		}
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "type", Config: `{"prefer_name":"yes"}`, Invalid: `property "prefer_name" validation failed: wrong type: expected boolean, got string`},
	})
}

// TestConcurrent scrapes while many label sets come.
func TestConcurrent(t *testing.T) {
	g := newGateway(t, "")
	r := g.compile(`{}`, "")
	var wg sync.WaitGroup
	const workers, each = 4, 300
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				r.Log(finished(func(c *plugin.Ctx) { c.Route.ID, c.Sent.Status = fmt.Sprint(i%100), 200+w%2 }))
			}
		})
	}
	for range 20 {
		g.text()
	}
	wg.Wait()
	sum := 0
	for _, line := range strings.Split(g.text(), "\n") {
		if strings.HasPrefix(line, "apisix_http_status{") {
			var n int
			fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			sum += n
		}
	}
	if sum != workers*each {
		t.Errorf("%d requests counted, want %d", sum, workers*each)
	}
	r.close()
}

func BenchmarkLog(b *testing.B) {
	for name, attr := range map[string]string{"plain": "", "extra": attr} {
		b.Run(name, func(b *testing.B) {
			g := newGateway(b, attr)
			r := g.compile(`{}`, "")
			c := finished(nil)
			b.ReportAllocs()
			for b.Loop() {
				r.Log(c)
			}
			r.close()
		})
	}
}

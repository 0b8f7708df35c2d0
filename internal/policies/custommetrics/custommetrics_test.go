package custommetrics

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/policies/apicast"
	"weir/internal/policies/batcher"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const config = `{"rules":[
	{"condition":{"operations":[{"left":"{{status}}","left_type":"liquid","op":"==","right":"200"}]},"metric":"ok_{{ status }}","increment":"{{ resp.headers['increment'] }}"},
	{"condition":{"combine_op":"or","operations":[{"left":"{{ req.headers.kind }}","left_type":"liquid","op":"matches","right":"^b"}]},"metric":"by kind","increment":2},
	{"condition":{"operations":[{"left":"a","op":"==","right":"b"}]},"metric":"never","increment":"1"},
	{"metric":"{{ req.headers.none }}","increment":"1"},
	{"metric":"hits","increment":"nonsense"}]}`

// A gateway is one product with a chain.
type gateway struct {
	backend *threescaletest.Backend
	product *threescale.Product
	runtime *threescale.Runtime
	phases  []plugin.Phases
}

func newGateway(t *testing.T, chain ...plugin.Spec) *gateway {
	t.Helper()
	g := &gateway{backend: threescaletest.NewBackend(t), runtime: threescaletest.Runtime(time.Now)}
	t.Cleanup(g.runtime.Close)
	g.product = threescaletest.Product(t, g.runtime, fmt.Sprintf(`{"id":42,"backend_version":1,"proxy":{
		"api_backend":"http://api.test","backend":{"endpoint":%q},
		"proxy_rules":[{"http_method":"GET","pattern":"/","metric_system_name":"hits","delta":1}]}}`, g.backend.URL), "")
	env := threescaletest.Reaching(t, g.product)
	for _, spec := range chain {
		conf := `{"batch_report_seconds":100}`
		if spec.Name == Policy.Name {
			conf = config
		}
		ph, err := spec.Compile([]byte(conf), env)
		if err != nil {
			t.Fatal(err)
		}
		g.phases = append(g.phases, ph)
	}
	return g
}

// get sends a request of some kind, which is answered with the increment.
func (g *gateway) get(target, kind, increment string) (status int) {
	c := plugintest.NewCtx(target, [2]string{"Kind", kind})
	g.product.Begin(c)
	defer threescale.End(c)
	var reply *plugin.Reply
	for _, phase := range [...]func(*plugin.Phases) func(*plugin.Ctx) *plugin.Reply{
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Rewrite },
		func(p *plugin.Phases) func(*plugin.Ctx) *plugin.Reply { return p.Access },
	} {
		for i := range g.phases {
			if f := phase(&g.phases[i]); f != nil && reply == nil {
				reply = f(c)
			}
		}
	}
	c.Response = &wire.Response{Status: 200}
	if reply != nil {
		c.Response.Status = reply.Status
	}
	c.Response.Header.Add("Increment", increment)
	c.Sent.Status = c.Response.Status
	for i := range g.phases {
		if f := g.phases[i].Log; f != nil {
			f(c)
		}
	}
	return c.Sent.Status
}

func (g *gateway) expect(t *testing.T, what string, wants ...string) {
	t.Helper()
	calls := g.backend.Wait(t, len(wants))
	for i, want := range wants {
		c := calls[i]
		form := c.Query
		if c.Method == "POST" {
			form = c.Form
		}
		form.Del("service_id")
		got := c.Path + "?" + form.Encode()
		if decoded, err := url.QueryUnescape(got); err != nil || decoded != want {
			t.Errorf("%s: call %d is %s, want %s", what, i, decoded, want)
		}
	}
	if len(calls) != len(wants) {
		t.Errorf("%s: %d calls", what, len(calls))
	}
}

func TestCounts(t *testing.T) {
	for _, first := range []bool{true, false} {
		chain := []plugin.Spec{Policy, apicast.Policy}
		if !first {
			chain = []plugin.Spec{apicast.Policy, Policy}
		}
		g := newGateway(t, chain...)
		g.get("/?user_key=k", "big", "3")
		// The backend has been asked; what is new is told by itself.
		g.expect(t, "the first", "/transactions/authrep.xml?usage[hits]=1&user_key=k",
			"/transactions.xml?transactions[0][usage][by kind]=2&transactions[0][usage][ok_200]=3&transactions[0][user_key]=k")
		g.get("/?user_key=k", "small", "4")
		if first {
			// The backend will be told of the request; what is new goes along.
			g.expect(t, "the second", "/transactions/authrep.xml?usage[hits]=1&usage[ok_200]=4&user_key=k")
		} else {
			calls := g.backend.Wait(t, 2)
			if calls[0].Path == calls[1].Path {
				t.Error("something is lost behind apicast")
			}
		}
		g.get("/?user_key=k", "small", "0")
		g.expect(t, "nothing new", "/transactions/authrep.xml?usage[hits]=1&user_key=k")
	}
}

func TestCountsRefusals(t *testing.T) {
	g := newGateway(t, Policy, apicast.Policy)
	g.backend.Says(409, nil)
	if status := g.get("/?user_key=k", "big", "3"); status != 403 {
		t.Fatal(status)
	}
	g.expect(t, "refused", "/transactions/authrep.xml?usage[hits]=1&user_key=k", "/transactions.xml?transactions[0][usage][by kind]=2&transactions[0][user_key]=k")
	if status := g.get("/", "big", "3"); status != 401 { // nobody to count it for
		t.Fatal(status)
	}
	g.runtime.Close()
	if calls := g.backend.Calls(); len(calls) != 0 {
		t.Errorf("%v", calls)
	}
}

func TestCountsInBatches(t *testing.T) {
	g := newGateway(t, Policy, batcher.Policy, apicast.Policy)
	for range 3 {
		g.get("/?user_key=k", "big", "3")
	}
	g.runtime.Close()
	g.expect(t, "batched", "/transactions/authorize.xml?usage[hits]=1&user_key=k",
		"/transactions.xml?transactions[0][usage][by kind]=6&transactions[0][usage][hits]=3&transactions[0][usage][ok_200]=9&transactions[0][user_key]=k")
}

func TestRefused(t *testing.T) {
	for _, conf := range []string{
		`{"rules":[{"condition":{"operations":[{"left":"a","op":"~","right":"b"}]},"metric":"m","increment":"1"}]}`,
		`{"rules":[{"condition":{"operations":[{"left":"a","op":"matches","right":"("}]},"metric":"m","increment":"1"}]}`,
	} {
		p := threescaletest.Product(t, nil, `{"id":1}`, "")
		if _, err := Policy.Compile([]byte(conf), threescaletest.Env(p)); err == nil {
			t.Errorf("%s compiles", conf)
		}
	}
	p := threescaletest.Product(t, nil, `{"id":1}`, "")
	for _, conf := range []string{`{}`, `{"rules":[]}`, `{"rules":[{"condition":{"combine_op":"or","operations":[]},"metric":"m"}]}`} {
		ph, err := Policy.Compile([]byte(conf), threescaletest.Env(p))
		if err != nil || ph.Log != nil {
			t.Errorf("%s: %v", conf, err)
		}
	}
}

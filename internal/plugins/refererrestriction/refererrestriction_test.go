package refererrestriction

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

type h = map[string]string

func Test(t *testing.T) {
	const body = `{"message":"Your referer host is not allowed"}` + "\n"
	refused := func(referer string) plugintest.Request {
		return plugintest.Request{Header: h{"Referer": referer}, Status: 403, Body: body}
	}
	admitted := func(referer string) plugintest.Request { return plugintest.Request{Header: h{"Referer": referer}} }
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "whitelist", Config: `{"whitelist":["*.xx.com","yy.com","[::1]"]}`, Requests: []plugintest.Request{
			admitted("http://www.xx.com"), admitted("https://yy.com/x?y"), admitted("//yy.com:80"), admitted("http://[::1]:80/"),
			refused("http://xx.com"), refused("http://www.yy.com"), refused("www.xx.com"), refused("ftp://yy.com"), refused("http://"),
			refused("http://yy.com@evil.com"), refused("http://["), {Status: 403, Body: body},
		}},
		{Name: "blacklist", Config: `{"blacklist":["*"],"bypass_missing":true}`, Requests: []plugintest.Request{
			refused("http://a"), {}, admitted("none"),
		}},
		{Name: "words", Config: `{"blacklist":["a"],"message":"no"}`, Requests: []plugintest.Request{{Status: 403, Body: `{"message":"no"}` + "\n"}}},
		{Name: "none", Config: `{}`, Invalid: "value should match only one schema, but matches none"},
		{Name: "both", Config: `{"whitelist":["a"],"blacklist":["b"]}`, Invalid: "value should match only one schema, but matches both schemas 1 and 2"},
		{Name: "empty", Config: `{"whitelist":[]}`, Invalid: `property "whitelist" validation failed: expect array to have at least 1 items`},
		{Name: "host", Config: `{"whitelist":["a/b"]}`, Invalid: `property "whitelist" validation failed: failed to validate item 1: failed to match pattern`},
	})
}

func TestNoAllocation(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"whitelist":["*.xx.com"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/", [2]string{"Referer", "http://www.xx.com/"})
	if n := testing.AllocsPerRun(100, func() {
		if plugintest.Send(ph, ctx) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

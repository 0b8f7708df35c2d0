package iprestriction

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	admitted := func(client string) plugintest.Request { return plugintest.Request{Client: client} }
	refused := func(client string) plugintest.Request {
		return plugintest.Request{Client: client, Status: 403, Body: `{"message":"Your IP address is not allowed"}` + "\n"}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "whitelist", Config: `{"whitelist":["127.0.0.0/24","113.74.26.106","::1","2001:db8::/32"]}`, Requests: []plugintest.Request{
			admitted("127.0.0.1"), admitted("113.74.26.106"), admitted("::1"), admitted("2001:db8::1"),
			refused("127.0.1.1"), refused("114.114.114.114"), refused("::2"), refused("2001:db9::1"),
		}},
		{Name: "blacklist", Config: `{"blacklist":["127.0.0.0/24","::1"]}`, Requests: []plugintest.Request{
			refused("127.0.0.1"), refused("::1"), admitted("127.0.1.1"), admitted("::2"),
		}},
		{Name: "all", Config: `{"blacklist":["0.0.0.0/0"]}`, Requests: []plugintest.Request{refused("1.2.3.4"), admitted("::1")}},
		{Name: "words", Config: `{"blacklist":["127.0.0.1"],"message":"Do you want to do something bad?","response_code":404}`, Requests: []plugintest.Request{
			{Status: 404, Body: `{"message":"Do you want to do something bad?"}` + "\n"},
		}},
		{Name: "none", Config: `{}`, Invalid: "value should match only one schema, but matches none"},
		{Name: "both", Config: `{"whitelist":["::1"],"blacklist":["::1"]}`, Invalid: "value should match only one schema, but matches both schemas 1 and 2"},
		{Name: "empty", Config: `{"blacklist":[]}`, Invalid: `property "blacklist" validation failed: expect array to have at least 1 items`},
		{Name: "no address", Config: `{"whitelist":["a.b.c.d"]}`, Invalid: `property "whitelist" validation failed: failed to validate item 1: object matches none of the required`},
		{Name: "no network", Config: `{"whitelist":["::1/129"]}`, Invalid: "invalid ip address: ::1/129"},
		{Name: "code", Config: `{"whitelist":["::1"],"response_code":405}`, Invalid: `property "response_code" validation failed: expected 405 to be at most 404`},
	})
}

func TestNoAllocation(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"whitelist":["127.0.0.0/24","::1","10.0.0.0/8"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/")
	for _, client := range []string{"127.0.0.1", "192.0.2.1", "2001:db8::1"} {
		ctx.Client = client
		if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
			t.Errorf("%s: %v allocations", client, n)
		}
	}
	if !Plugin.Guard {
		t.Error("no guard")
	}
}

package consumerrestriction

import (
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

const (
	forbidden = `{"message":"The consumer_name is forbidden."}` + "\n"
	absent    = `{"message":"The request is rejected, please check the consumer_name for this request"}` + "\n"
)

// send sends a request of a consumer, or of nobody.
func send(t *testing.T, conf, method string, who *plugin.Consumer, route plugin.Route) string {
	t.Helper()
	ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/")
	ctx.Request.Method, ctx.Consumer, ctx.Route = method, who, &route
	reply := plugintest.Send(ph, ctx)
	if reply == nil {
		return ""
	}
	if want := map[string]int{absent: 401}[string(reply.Body)]; want != 0 && reply.Status != want {
		t.Errorf("%s: %d %s", conf, reply.Status, reply.Body)
	}
	return string(reply.Body)
}

func Test(t *testing.T) {
	const methods = `"allowed_by_methods":[{"user":"jack","methods":["POST"]},{"user":"jack","methods":["GET"]},{"user":"none"},{"methods":["GET"]}]`
	for _, c := range []struct{ conf, method, consumer, want string }{
		{`{"whitelist":["jack"]}`, "GET", "jack", ""},
		{`{"whitelist":["jack"]}`, "GET", "jill", forbidden},
		{`{"whitelist":["jack"]}`, "GET", "", absent},
		{`{"blacklist":["jack"]}`, "GET", "jack", forbidden},
		{`{"blacklist":["jack"]}`, "GET", "jill", ""},
		{`{"blacklist":["jack"]}`, "GET", "", absent},
		{`{"blacklist":["jack"],"whitelist":["jack","jill"]}`, "GET", "jack", forbidden},
		{`{"blacklist":["jack"],"whitelist":["jack","jill"]}`, "GET", "jill", ""},
		{`{"blacklist":["jack"],"whitelist":["jack","jill"]}`, "GET", "joe", forbidden},
		{`{` + methods + `}`, "POST", "jack", ""},
		{`{` + methods + `}`, "GET", "jack", forbidden},
		{`{` + methods + `}`, "GET", "jill", ""},
		{`{` + methods + `}`, "GET", "none", forbidden},
		{`{` + methods + `}`, "GET", "", absent},
		{`{"whitelist":["jack"],` + methods + `}`, "GET", "jack", ""},
		{`{"whitelist":["jill"],` + methods + `}`, "POST", "jack", forbidden},
		{`{"blacklist":["jill"],` + methods + `}`, "GET", "jack", forbidden},
		{`{"whitelist":["jack"],"rejected_msg":"no & <never>","rejected_code":499}`, "GET", "jill", `{"message":"no & <never>"}` + "\n"},
		{`{"whitelist":["jack"],"rejected_msg":""}`, "GET", "jill", `{"message":""}` + "\n"},
	} {
		var who *plugin.Consumer
		if c.consumer != "" {
			who = &plugin.Consumer{Name: c.consumer}
		}
		if got := send(t, c.conf, c.method, who, plugin.Route{}); got != c.want {
			t.Errorf("%s, %s of %q: got %q, want %q", c.conf, c.method, c.consumer, got, c.want)
		}
	}
}

func TestTypes(t *testing.T) {
	who := &plugin.Consumer{Name: "jack", GroupID: "g"}
	route := plugin.Route{ID: "r", ServiceID: "s"}
	for typ, value := range map[string]string{"consumer_name": "jack", "consumer_group_id": "g", "route_id": "r", "service_id": "s"} {
		conf := func(list, value string) string { return `{"type":"` + typ + `","` + list + `":["` + value + `"]}` }
		no := `{"message":"The ` + typ + ` is forbidden."}` + "\n"
		missing := `{"message":"The request is rejected, please check the ` + typ + ` for this request"}` + "\n"
		for _, c := range []struct {
			conf, got, want string
		}{
			{"whitelisted", send(t, conf("whitelist", value), "GET", who, route), ""},
			{"others whitelisted", send(t, conf("whitelist", "x"), "GET", who, route), no},
			{"blacklisted", send(t, conf("blacklist", value), "GET", who, route), no},
			{"others blacklisted", send(t, conf("blacklist", "x"), "GET", who, route), ""},
			{"absent", send(t, conf("blacklist", "x"), "GET", nil, plugin.Route{}), missing},
		} {
			if c.got != c.want {
				t.Errorf("%s %s: got %q, want %q", typ, c.conf, c.got, c.want)
			}
		}
	}
	if got := send(t, `{"type":"consumer_group_id","blacklist":["g"]}`, "GET", &plugin.Consumer{Name: "jack"}, route); got == "" {
		t.Error("a consumer without a group passes")
	}
}

func TestInvalid(t *testing.T) {
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "no list", Config: `{}`, Invalid: "object matches none of the required"},
		{Name: "empty list", Config: `{"whitelist":[]}`, Invalid: `property "whitelist" validation failed: expect array to have at least 1 items`},
		{Name: "type", Config: `{"type":"x","whitelist":["a"]}`, Invalid: `property "type" validation failed: matches none of the enum values`},
		{Name: "method", Config: `{"allowed_by_methods":[{"user":"a","methods":["get"]}]}`, Invalid: "matches none of the enum values"},
		{Name: "code", Config: `{"whitelist":["a"],"rejected_code":199}`, Invalid: `property "rejected_code" validation failed: expected 199 to be at least 200`},
	})
}

func TestNoAllocation(t *testing.T) {
	ph, err := Plugin.Compile([]byte(`{"blacklist":["joe"],"allowed_by_methods":[{"user":"jack","methods":["GET"]}]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"jack", "joe", "jill"} {
		ctx := plugintest.NewCtx("/")
		ctx.Consumer = &plugin.Consumer{Name: name}
		if n := testing.AllocsPerRun(100, func() { plugintest.Send(ph, ctx) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

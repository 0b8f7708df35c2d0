package uriblocker

import (
	"strings"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	at := func(target string, status int, body string) plugintest.Request {
		return plugintest.Request{Target: target, Status: status, Body: body}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "rules", Config: `{"block_rules":["root.exe","root.m+"]}`, Requests: []plugintest.Request{
			at("/hello?aa=1", 0, ""), at("/hello?name=;root.exe", 403, ""), at("/hello?foo=root.exeroot.mm", 403, ""), at("/hello?foo=Root.exe", 0, ""),
		}},
		{Name: "words", Config: `{"block_rules":["^/a"],"rejected_code":405,"rejected_msg":"access is not allowed"}`, Requests: []plugintest.Request{
			at("/abc", 405, `{"error_msg":"access is not allowed"}`+"\n"), at("/x/a", 0, ""),
		}},
		{Name: "case", Config: `{"block_rules":["admin","b$"],"case_insensitive":true}`, Requests: []plugintest.Request{
			at("/ADMIN", 403, ""), at("/x?B", 403, ""), at("/x", 0, ""),
		}},
		{Name: "look-around", Config: `{"block_rules":["^/(?!public/)"]}`, Requests: []plugintest.Request{at("/public/x", 0, ""), at("/x", 403, "")}},
		{Name: "too long", Config: `{"block_rules":["^/(?=(a+)+$)a"]}`, Requests: []plugintest.Request{
			at("/"+strings.Repeat("a", 60)+"!", 500, ""),
		}},
		{Name: "no rules", Config: `{"block_rules":[]}`, Requests: []plugintest.Request{at("/", 403, "")}},
		{Name: "missing", Config: `{}`, Invalid: `property "block_rules" is required`},
		{Name: "pattern", Config: `{"block_rules":["^a",".+("]}`, Invalid: `failed to check the configuration of plugin uri-blocker err: pcre_compile() failed: missing ) in ".+("`},
		{Name: "twice", Config: `{"block_rules":["a","a"]}`, Invalid: `property "block_rules" validation failed: expected unique items but items 1 and 2 are equal`},
		{Name: "code", Config: `{"block_rules":["a"],"rejected_code":"403"}`, Invalid: `property "rejected_code" validation failed: wrong type: expected integer, got string`},
	})
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph, err := Plugin.Compile([]byte(`{"block_rules":["root.exe","^/admin"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/hello?a=b")
	if n := testing.AllocsPerRun(100, func() {
		ctx.Reset()
		ctx.Path = "/hello"
		if plugintest.Send(ph, ctx) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

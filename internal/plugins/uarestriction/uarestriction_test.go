package uarestriction

import (
	"strings"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	const body = `{"message":"Not allowed"}` + "\n"
	by := func(status int, agents ...string) plugintest.Request {
		r := plugintest.Request{Status: status}
		if status == 403 {
			r.Body = body
		}
		for _, a := range agents {
			r.Fields = append(r.Fields, [2]string{"User-Agent", a})
		}
		return r
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "deny", Config: `{"denylist":["my-bot1","(Baiduspider)/(\\d+)\\.(\\d+)"]}`, Requests: []plugintest.Request{
			by(403), by(0, "Mozilla"), by(403, " my-bot1 "), by(403, "x Baiduspider/2.0"), by(403, "ok", "my-bot1"), by(0, "MY-BOT1"),
		}},
		{Name: "allow", Config: `{"allowlist":["^my-bot1$","my-bot2"],"bypass_missing":true}`, Requests: []plugintest.Request{
			by(0), by(0, "my-bot1"), by(0, " my-bot1"), by(403, "my-bot12"), by(0, "x", "my-bot2"), by(403, ""),
		}},
		{Name: "look-around", Config: `{"denylist":["^(?!.*browser)"]}`, Requests: []plugintest.Request{by(403, "bot"), by(0, "a browser")}},
		{Name: "too long", Config: `{"denylist":["^(?=(a+)+$)a"]}`, Requests: []plugintest.Request{by(500, strings.Repeat("a", 60)+"!")}},
		{Name: "words", Config: `{"denylist":["bot"],"message":"Do you want to do something bad?"}`, Requests: []plugintest.Request{
			{Header: map[string]string{"User-Agent": "bot"}, Status: 403, Body: `{"message":"Do you want to do something bad?"}` + "\n"},
		}},
		{Name: "none", Config: `{}`, Invalid: "value should match only one schema, but matches none"},
		{Name: "both", Config: `{"allowlist":["a"],"denylist":["a"]}`, Invalid: "value should match only one schema, but matches both schemas 1 and 2"},
		{Name: "pattern", Config: `{"denylist":["a("]}`, Invalid: `pcre_compile() failed: missing ) in "a("`},
		{Name: "empty", Config: `{"denylist":[""]}`, Invalid: `property "denylist" validation failed: failed to validate item 1: string too short, expected at least 1, got 0`},
	})
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph, err := Plugin.Compile([]byte(`{"denylist":["bot","spider"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/", [2]string{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"})
	if n := testing.AllocsPerRun(100, func() {
		if plugintest.Send(ph, ctx) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

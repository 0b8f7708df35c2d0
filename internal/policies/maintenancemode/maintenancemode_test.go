package maintenancemode

import (
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	type h = map[string]string
	const text = "Service Unavailable - Maintenance\n"
	product := threescaletest.Of(t, &model.Product{ID: "1", Upstream: "http://api.example:81/base?x=1"})
	elsewhere, err := threescale.NewUpstream("https://other.example")
	if err != nil {
		t.Fatal(err)
	}
	when := func(left, op, right string) string {
		return `{"condition":{"operations":[{"left":"` + left + `","left_type":"liquid","op":"` + op + `","right":"` + right + `"}]}}`
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "default", Config: `{}`, Requests: []plugintest.Request{{Status: 503, Body: text, Reply: h{"Content-Type": "text/plain; charset=utf-8"}}}},
		{Name: "own", Config: `{"status":501,"message":"{\"m\":1}","message_content_type":"application/json"}`, Requests: []plugintest.Request{{Status: 501, Body: "{\"m\":1}\n", Reply: h{"Content-Type": "application/json"}}}},
		{Name: "status as text", Config: `{"status":"501"}`, Requests: []plugintest.Request{{Status: 501}}},
		{Name: "condition", Config: when("{{ headers.x }}", "==", "1"), Requests: []plugintest.Request{{}, {Header: h{"X": "1"}, Status: 503, Body: text}}},
		{Name: "no operations", Config: `{"condition":{}}`, Requests: []plugintest.Request{{Status: 503}}},
		{Name: "never", Config: `{"condition":{"operations":[{"left":"a","op":"==","right":"b"}]}}`, Requests: []plugintest.Request{{}}},
		{Name: "upstream", Product: product, Config: when("{{ upstream.scheme }} {{ upstream.host }} {{ upstream.port }} {{ upstream.path }} {{ upstream.query }}", "==", "http api.example 81 /base x=1"), Requests: []plugintest.Request{{Status: 503}}},
		{Name: "chosen upstream", Product: product, Config: when("{{ upstream.host }}{{ upstream.port }}{{ upstream.path }}", "==", "other.example"), Requests: []plugintest.Request{
			{},
			{Before: func(c *plugin.Ctx) { threescale.Of(c).Upstream = elsewhere }, Status: 503},
		}},
		{Name: "no upstream", Product: threescaletest.Of(t, &model.Product{ID: "1"}), Config: when("{{ upstream.host }}", "==", ""), Requests: []plugintest.Request{{Status: 503}}},
		{Name: "unknown operation", Config: when("x", "<", "1"), Invalid: "op"},
		{Name: "no pattern", Config: when("{{ uri }}", "matches", "("), Invalid: "operations[0]"},
	})
	if !Policy.Guard {
		t.Error("no guard")
	}
}

package soap

import (
	"slices"
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

type h = map[string]string

func counts(want ...threescale.Count) func(*testing.T, *plugin.Ctx) {
	return func(t *testing.T, c *plugin.Ctx) {
		t.Helper()
		if got := threescale.Of(c).Usage; !slices.Equal(got, want) {
			t.Errorf("usage %v, want %v", got, want)
		}
	}
}

func Test(t *testing.T) {
	const config = `{"mapping_rules":[
		{"pattern":"/my_soap_action","metric_system_name":"hits","delta":1},
		{"pattern":"/my_soap_action/x$","metric_system_name":"x","delta":"2"},
		{"pattern":"plain","metric_system_name":"plain","delta":3,"last":true},
		{"pattern":"plain","metric_system_name":"never","delta":3},
		{"pattern":"/none","metric_system_name":"none","delta":0}]}`
	hit := func(n int64) threescale.Count { return threescale.Count{Metric: "hits", Delta: n} }
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []plugintest.Request{{Header: h{"SOAPAction": "/my_soap_action"}, Look: counts()}}},
		{Name: "actions", Config: config, Requests: []plugintest.Request{
			{Look: counts()},
			{Header: h{"SOAPAction": "/my_soap_action"}, Look: counts(hit(1))},
			{Header: h{"soapaction": "http://example.com/my_soap_action"}, Look: counts(hit(1))},
			{Header: h{"SOAPAction": "http://example.com:80"}, Look: counts()},
			{Header: h{"SOAPAction": "/my_soap_action/x"}, Look: counts(hit(1), threescale.Count{Metric: "x", Delta: 2})},
			{Header: h{"SOAPAction": "plain and more"}, Look: counts(threescale.Count{Metric: "plain", Delta: 3})},
			{Header: h{"SOAPAction": "/none"}, Look: counts()},
			{Header: h{"SOAPAction": "/other"}, Look: counts()},
			{Header: h{"Content-Type": "application/soap+xml; charset=utf-8;action=/my_soap_action"}, Look: counts(hit(1))},
			{Header: h{"Content-Type": `Application/SOAP+xml; Action="/my_soap_action" ; charset=x`}, Look: counts(hit(1))},
			{Header: h{"Content-Type": "application/xml; action=/my_soap_action"}, Look: counts()},
			{Header: h{"Content-Type": "application/soap+xml; action=/my_soap_action", "SOAPAction": "plain"}, Look: counts(hit(1))},
			{Header: h{"Content-Type": "application/soap+xml", "SOAPAction": "/my_soap_action"}, Look: counts(hit(1))},
		}},
		{Name: "added to what counts already", Config: config, Requests: []plugintest.Request{{
			Header: h{"SOAPAction": "/my_soap_action"},
			Before: func(c *plugin.Ctx) { threescale.Of(c).Usage.Add("hits", 2) },
			Look:   counts(hit(3)),
		}}},
		{Name: "no pattern", Config: `{"mapping_rules":[{"pattern":"(","metric_system_name":"x","delta":1}]}`, Invalid: "mapping_rules[0]"},
	})
}

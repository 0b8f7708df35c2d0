package cors

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

type h = map[string]string

const (
	allowHeaders = "Access-Control-Allow-Headers"
	allowMethods = "Access-Control-Allow-Methods"
	allowOrigin  = "Access-Control-Allow-Origin"
	allowCreds   = "Access-Control-Allow-Credentials"
	maxAge       = "Access-Control-Max-Age"
)

func Test(t *testing.T) {
	ask := h{"Origin": "http://a.example", askedMethod: "GET", askedHeaders: "X-A"}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "default", Config: `{}`, Requests: []plugintest.Request{
			{Method: "OPTIONS", Header: ask, Status: 204, Reply: h{allowHeaders: "X-A", allowMethods: "GET", allowOrigin: "http://a.example", allowCreds: "true", maxAge: "600"}},
			{Header: ask, Reply: h{allowHeaders: "X-A", allowMethods: "GET", allowOrigin: "http://a.example", allowCreds: "true", maxAge: "600"}},
			{Method: "OPTIONS", Header: h{"Origin": "x"}, Reply: h{allowHeaders: "", allowMethods: "", allowOrigin: "x", maxAge: "600"}},
			{Method: "OPTIONS", Header: h{askedMethod: "GET"}, Reply: h{allowOrigin: "", maxAge: ""}},
			{Header: h{"Origin": "x"}, Answer: plugintest.Answer{Header: h{allowHeaders: "theirs", allowOrigin: "theirs"}}, Reply: h{allowHeaders: "", allowOrigin: "x"}},
		}},
		{Name: "own", Config: `{"allow_headers":["X-1","X-2"],"allow_methods":["POST"],"allow_origin":"*","max_age":200,"allow_credentials":false}`, Requests: []plugintest.Request{
			{Header: ask, Reply: h{allowMethods: "POST", allowOrigin: "*", allowCreds: "false", maxAge: "200"}, Look: func(t *testing.T, c *plugin.Ctx) {
				var all []string
				for _, f := range c.Response.Header.Fields() {
					if f.Name == allowHeaders {
						all = append(all, f.Value)
					}
				}
				if len(all) != 2 || all[1] != "X-2" {
					t.Errorf("%q", all)
				}
			}},
		}},
		{Name: "empty lists", Config: `{"allow_headers":[],"allow_methods":[]}`, Requests: []plugintest.Request{{Header: ask, Reply: h{allowHeaders: "", allowMethods: ""}}}},
		{Name: "one origin", Config: `{"allow_origin":"https://b.example"}`, Requests: []plugintest.Request{{Header: ask, Reply: h{allowOrigin: "https://b.example"}}}},
		{Name: "pattern", Config: `{"allow_origin":"(api|web).test.com"}`, Requests: []plugintest.Request{
			{Header: h{"Origin": "http://api.test.com"}, Reply: h{allowOrigin: "http://api.test.com"}},
			{Header: h{"Origin": "http://web.test.com:81"}, Reply: h{allowOrigin: "http://web.test.com:81"}},
			{Header: h{"Origin": "http://staging.test.com"}, Reply: h{allowOrigin: "", maxAge: "600"}},
		}},
		{Name: "no pattern", Config: `{"allow_origin":"("}`, Invalid: "("},
	})
}

func TestIsPattern(t *testing.T) {
	for origin, want := range map[string]bool{
		"": false, "*": false, "http://a": false, "https://a:81/x": false, "http:a": true, "http://": true, "a.example": true, "x:y": false,
	} {
		if isPattern(origin) != want {
			t.Errorf("%q", origin)
		}
	}
}

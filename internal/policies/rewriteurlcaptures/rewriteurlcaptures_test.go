package rewriteurlcaptures

import (
	"testing"

	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	goes := func(from, to string) plugintest.Request {
		return plugintest.Request{Target: from, Look: threescaletest.Goes(to)}
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []plugintest.Request{goes("/a?b=%20", "/a?b=%20")}},
		{Name: "path", Config: `{"transformations":[{"match_rule":"/{a}/{b}","template":"/{b}/x/{a}"}]}`, Requests: []plugintest.Request{
			goes("/1/2", "/2/x/1"), goes("/1/2/3?q=1", "/2/x/1?q=1"), goes("/1", "/1"),
		}},
		{Name: "arguments", Config: `{"transformations":[{"match_rule":"/{a}/{b}","template":"/v2?x={a}&y={b}"}]}`, Requests: []plugintest.Request{
			goes("/1/2?x=0&z=3", "/v2?x=1&z=3&y=2"),
		}},
		{Name: "two arguments at most", Config: `{"transformations":[{"match_rule":"/{a}","template":"/v2?x={a}&y=2&z=3"}]}`, Requests: []plugintest.Request{
			goes("/1", "/v2?x=1&y=2%26z%3D3"),
		}},
		{Name: "an argument without a value", Config: `{"transformations":[{"match_rule":"/{a}","template":"/v2?x"}]}`, Requests: []plugintest.Request{
			goes("/1?x=1&y=2", "/v2?y=2"),
		}},
		{Name: "the first that matches", Config: `{"transformations":[{"match_rule":"/a/{x}","template":"/A/{x}"},{"match_rule":"/{y}/{x}","template":"/B/{x}/{y}"},{"match_rule":"/{y}","template":"/C/{y}"}]}`, Requests: []plugintest.Request{
			goes("/a/1", "/A/1"), goes("/b/1", "/B/1/b"), goes("/b", "/C/b"),
		}},
		{Name: "methods", Config: `{"transformations":[{"match_rule":"/{a}","template":"/{a}x","methods":["POST"]}]}`, Requests: []plugintest.Request{
			goes("/1", "/1"), {Method: "POST", Target: "/1", Look: threescaletest.Goes("/1x")},
		}},
		{Name: "unknown names stay", Config: `{"transformations":[{"match_rule":"/{a}","template":"/{b}/{a}/$1"}]}`, Requests: []plugintest.Request{goes("/1", "/%7Bb%7D/1/$1")}},
		{Name: "groups of its own", Config: `{"transformations":[{"match_rule":"/(x)/{a}","template":"/{a}"}]}`, Requests: []plugintest.Request{goes("/x/1", "/x/1")}},
		{Name: "bytes of a segment", Config: `{"transformations":[{"match_rule":"^/api/{email}/x$","template":"/{email}"}]}`, Requests: []plugintest.Request{
			goes("/api/me@e.com/x", "/me@e.com"), goes("/api/a$&+,;=:~!'()*/x", "/a$&+,;=:~!'()*"),
		}},
		{Name: "no pattern", Config: `{"transformations":[{"match_rule":"(","template":"/"}]}`, Invalid: "transformations[0]"},
	})
}

package urlrewriting

import (
	"testing"

	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

func Test(t *testing.T) {
	goes := func(from, to string) plugintest.Request {
		return plugintest.Request{Target: from, Look: threescaletest.Goes(to)}
	}
	method := func(m string, r plugintest.Request) plugintest.Request {
		r.Method = m
		return r
	}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []plugintest.Request{goes("/a%20b?x=+", "/a%20b?x=+")}},
		{Name: "sub", Config: `{"commands":[{"op":"sub","regex":"o","replace":"0"}]}`, Requests: []plugintest.Request{
			goes("/foo?o=o", "/f0o?o=o"), goes("/x?a=%2F", "/x?a=%2F"),
		}},
		{Name: "gsub", Config: `{"commands":[{"op":"gsub","regex":"(a)(b)?","replace":"$2${1}$$"}]}`, Requests: []plugintest.Request{
			goes("/ab/a", "/ba$/a$"),
		}},
		{Name: "options", Config: `{"commands":[{"op":"sub","regex":"AAA","replace":"b","options":"i"}]}`, Requests: []plugintest.Request{goes("/aaa", "/b")}},
		{
			Name:     "in order, and break",
			Config:   `{"commands":[{"op":"sub","regex":"none","replace":"x","break":true},{"op":"sub","regex":"aaa","replace":"bbb"},{"op":"sub","regex":"bbb","replace":"ccc","break":true},{"op":"sub","regex":"ccc","replace":"ddd"}]}`,
			Requests: []plugintest.Request{goes("/aaa", "/ccc")},
		},
		{Name: "special bytes", Config: `{"commands":[{"op":"sub","regex":"original","replace":"new /foo?/"}]}`, Requests: []plugintest.Request{goes("/original", "/new%20/foo%3F/")}},
		{Name: "no slash", Config: `{"commands":[{"op":"sub","regex":"^/a","replace":"b"}]}`, Requests: []plugintest.Request{goes("/a/c", "/b/c")}},
		{Name: "nothing left", Config: `{"commands":[{"op":"sub","regex":".*","replace":""}]}`, Requests: []plugintest.Request{goes("/a/c", "/a/c")}},
		{Name: "look-ahead", Config: `{"commands":[{"op":"gsub","regex":"a(?!b)","replace":"x"}]}`, Requests: []plugintest.Request{goes("/ab/ac", "/ab/xc")}},
		{Name: "methods", Config: `{"commands":[{"op":"sub","regex":"a","replace":"b","methods":["POST","PUT"]}],"query_args_commands":[{"op":"set","arg":"x","value":"1","methods":["PUT"]}]}`, Requests: []plugintest.Request{
			goes("/a", "/a"), method("POST", goes("/a", "/b")), method("PUT", goes("/a?y=2", "/b?y=2&x=1")),
		}},
		{
			Name: "arguments", Config: `{"query_args_commands":[{"op":"push","arg":"p","value":"1"},{"op":"push","arg":"q","value":"2"},{"op":"set","arg":"s","value":3},{"op":"add","arg":"a","value":"4"},{"op":"add","arg":"none","value":"5"},{"op":"delete","arg":"d"},
				{"op":"set","arg":"gone"},{"op":"push","arg":"p"}]}`,
			Requests: []plugintest.Request{
				goes("/?q=0&s=8&s=9&a=0&d=1&d=2&gone=x", "/?q=0&q=2&s=3&a=0&a=4&p=1"),
				goes("/", "/?p=1&q=2&s=3"),
			},
		},
		{
			Name:   "templates",
			Config: `{"commands":[{"op":"sub","regex":"a","replace":"b"}],"query_args_commands":[{"op":"push","arg":"u","value":"{{ uri }}","value_type":"liquid"},{"op":"set","arg":"m","value":"{{'a' | md5 }}","value_type":"liquid"},{"op":"set","arg":"bad","value":"{{'a' | md5","value_type":"liquid"}]}`,
			Requests: []plugintest.Request{
				goes("/a", "/b?u=%2Fb&m=0cc175b9c0f1b6a831c399e269772661&bad="),
			},
		},
		{Name: "unknown operation", Config: `{"commands":[{"op":"x","regex":"a","replace":"b"}]}`, Invalid: "op"},
		{Name: "no pattern", Config: `{"commands":[{"op":"sub","regex":"(","replace":"b"}]}`, Invalid: "commands[0]"},
		{Name: "no replacement", Config: `{"commands":[{"op":"sub","regex":"a","replace":"$"}]}`, Invalid: "replacement"},
		{Name: "unknown kind", Config: `{"query_args_commands":[{"op":"set","arg":"a","value":"b","value_type":"lua"}]}`, Invalid: "value_type"},
	})
}

package echo

import (
	"testing"

	"weir/internal/plugin/plugintest"
)

type h = map[string]string

func Test(t *testing.T) {
	answer := plugintest.Answer{Body: "hello", Header: h{"ETag": `"1"`, "Last-Modified": "now", "X-Up": "1"}}
	says := func(body string) []plugintest.Request {
		return []plugintest.Request{{Answer: answer, Body: body, Reply: h{"ETag": "", "Last-Modified": "", "X-Up": "1"}}}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "around", Config: `{"before_body":"<","after_body":">"}`, Requests: says("<hello>")},
		{Name: "instead", Config: `{"body":"bye","before_body":"<","after_body":">"}`, Requests: says("<bye>")},
		{Name: "nothing", Config: `{"body":""}`, Requests: says("")},
		{Name: "after", Config: `{"after_body":"!"}`, Requests: says("hello!")},
		{Name: "headers", Config: `{"before_body":"<","headers":{"Location":"https://a.test","X-N":1,"X-Bad":{}}}`, Requests: []plugintest.Request{
			{Answer: answer, Reply: h{"Location": "https://a.test", "X-N": "1", "X-Bad": ""}},
		}},
		{Name: "none", Config: `{"headers":{"a":"b"}}`, Invalid: "object matches none of the required"},
		{Name: "no headers", Config: `{"body":"a","headers":{}}`, Invalid: `property "headers" validation failed: expect object to have at least 1 properties`},
		{Name: "type", Config: `{"body":1}`, Invalid: `property "body" validation failed: wrong type: expected string, got number`},
	})
}

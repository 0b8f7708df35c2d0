package payloadlimits

import (
	"strings"
	"testing"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	type h = map[string]string
	long := strings.Repeat("x", 101)
	answers := func(status int, body string, header h) plugintest.Request {
		return plugintest.Request{Answer: plugintest.Answer{Status: status, Body: body, Header: header}}
	}
	tooLong := func(r plugintest.Request) plugintest.Request {
		r.Body, r.Reply = message, h{"Content-Encoding": "", "X-Up": "1"}
		return r
	}
	plugintest.Run(t, Policy, []plugintest.Case{
		{Name: "off", Config: `{"request":0,"response":0}`, Requests: []plugintest.Request{{Payload: long, Answer: plugintest.Answer{Body: long}, Body: long}}},
		{Name: "absent", Config: `{}`, Requests: []plugintest.Request{{Payload: long, Answer: plugintest.Answer{Body: long}, Body: long}}},
		{Name: "request", Config: `{"request":100,"response":0}`, Requests: []plugintest.Request{
			{Payload: long, Status: 413, Body: "Payload Too Large\n"}, {Payload: long[1:]}, {},
		}},
		{Name: "text", Config: `{"request":"100","response":null}`, Requests: []plugintest.Request{{Payload: long, Status: 413}}},
		{Name: "response", Config: `{"request":0,"response":100}`, Requests: []plugintest.Request{
			answers(200, long[1:], nil),
			tooLong(answers(200, long, h{"X-Up": "1", "Content-Encoding": "gzip"})),
			tooLong(answers(200, "", h{"X-Up": "1", "Content-Length": "101"})),
			answers(200, "", h{"Content-Length": "100"}),
		}},
		{Name: "no number", Config: `{"request":"many"}`, Invalid: "a number is expected"},
		{Name: "half", Config: `{"request":1.5}`, Invalid: "a whole number is expected"},
	})
	if !Policy.Guard {
		t.Error("no guard")
	}
}

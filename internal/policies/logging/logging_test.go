package logging

import (
	"encoding/json"
	"testing"
	"time"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
	"weir/internal/threescale/threescaletest"
)

type h = map[string]string

func logs(want plugin.AccessLine) func(*testing.T, *plugin.Ctx) {
	return func(t *testing.T, c *plugin.Ctx) {
		t.Helper()
		if c.Line != want {
			t.Errorf("%+v, want %+v", c.Line, want)
		}
	}
}

func own(text string) plugin.AccessLine { return plugin.AccessLine{Off: true, Own: true, Text: text} }

func Test(t *testing.T) {
	request := func(want plugin.AccessLine) []plugintest.Request {
		return []plugintest.Request{{
			Target: "/a%20b?c=d", Header: h{"X-A": "x"}, Answer: plugintest.Answer{Status: 201, Header: h{"X-B": "y"}, Body: "body"},
			Before: func(c *plugin.Ctx) {
				r := threescale.Of(c)
				r.Credentials.UserKey = "123"
				r.Usage.Add("hits", 2)
				r.Token = &threescale.Token{Claims: map[string]any{"aud": "something"}}
				c.Path = "/a b"
				r.SetPath("/new")
				c.To.Host = "echo:8081"
			},
			Look: logs(want),
		}}
	}
	line := func(template string) string {
		b, err := json.Marshal(struct {
			Line string `json:"custom_logging"`
		}{template})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	on := func(status string) string {
		return `{"custom_logging":"x","condition":{"operations":[{"op":"==","match":"{{status}}","match_type":"liquid","value":"` + status + `"}]}}`
	}
	off := plugin.AccessLine{Off: true}
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "usual", Config: `{}`, Requests: request(plugin.AccessLine{})},
		{Name: "off", Config: `{"enable_access_logs":false}`, Requests: request(off)},
		{Name: "own", Config: line("Status::{{ status }} {{service.id}} USER_KEY::{{credentials.user_key }}"), Requests: request(own("Status::201 42 USER_KEY::123"))},
		{Name: "own though off", Config: `{"enable_access_logs":false,"custom_logging":"x"}`, Requests: request(own("x"))},
		{Name: "hosts", Config: line("{{host}} {{original_request.host}} {{original_request.path}} {{uri}} {{ request_method }} {{ args }}"), Requests: request(own("echo example.com /a%20b /new GET c=d"))},
		{Name: "headers", Config: line("{{ req.headers['x-a'] }}{{ req.headers.X-A }}{{ resp.headers.x_b }}{{ req.headers.none }}"), Requests: request(own("xxy"))},
		{Name: "all headers", Config: line("{{ resp.headers | json }} {{ req | json }}"), Requests: request(own(`{"x-b":"y"} {"headers":{"x-a":"x"}}`))},
		{Name: "token and usage", Config: line("AUD::{{jwt.aud}} {{ usage.deltas.hits | plus: 1 }}"), Requests: request(own("AUD::something 3"))},
		{Name: "wrong template", Config: line("{{ status"), Requests: request(own(""))},
		{Name: "empty", Config: line(""), Requests: request(own(""))},
		{Name: "condition holds", Config: on("201"), Requests: request(own("x"))},
		{Name: "condition does not", Config: on("200"), Requests: request(off)},
		{Name: "condition with one of two", Config: `{"custom_logging":"x","condition":{"combine_op":"or","operations":[{"op":"matches","match":"{{ resp.headers.x-b }}","match_type":"liquid","value":"^z"},{"op":"matches","match":"{{ status }}","match_type":"liquid","value":"^2"}]}}`, Requests: request(own("x"))},
		{Name: "JSON without members", Config: `{"enable_json_logs":true,"custom_logging":"y"}`, Requests: request(own("{}"))},
		{
			Name: "JSON", Config: `{"enable_json_logs":true,"json_object_config":[{"key":"host","value":"{{host}}","value_type":"liquid"},{"key":"a/\"b","value":"{{ status }}"},{"key":"path","value":"{{ uri }}\n\"","value_type":"liquid"},{"key":"n","value":1}]}`,
			Requests: request(own(`{"host":"echo","a\/\"b":"{{ status }}","path":"\/new\n\"","n":"1"}`)),
		},
		{Name: "unknown operation", Config: `{"custom_logging":"x","condition":{"operations":[{"op":"<","match":"1","value":"2"}]}}`, Invalid: "op"},
		{Name: "unknown kind", Config: `{"enable_json_logs":true,"json_object_config":[{"key":"a","value":"b","value_type":"lua"}]}`, Invalid: "value_type"},
	})
}

func TestLaterDecides(t *testing.T) {
	c := plugintest.NewCtx("/")
	for _, config := range []string{`{"enable_access_logs":false}`, `{"enable_access_logs":true}`} {
		ph, err := Policy.Compile([]byte(config), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		ph.Log(c)
	}
	if c.Line.Off {
		t.Error("the log is off")
	}
}

func TestLineAllocatesNothing(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph, err := Policy.Compile([]byte(`{"custom_logging":"{{ request_method }} {{ uri }} {{ host }}"}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	p := threescaletest.Of(t, nil)
	c.Sent.Status = 200
	for range 100 {
		p.Begin(c)
		ph.Log(c)
		threescale.End(c)
		c.Reset()
	}
	n := testing.AllocsPerRun(100, func() {
		p.Begin(c)
		ph.Log(c)
		threescale.End(c)
		c.Reset()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

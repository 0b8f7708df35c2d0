package realip

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	const forwarded = "X-Forwarded-For"
	type f = [2]string
	for _, c := range []struct {
		conf, target string
		fields       []f
		client       string
		port         uint16
	}{
		{`{"source":"http_xx"}`, "/", []f{{"XX", "1.1.1.1"}}, "1.1.1.1", 0},
		{`{"source":"http_xx"}`, "/", nil, "127.0.0.1", 9},
		{`{"source":"http_xx"}`, "/", []f{{"XX", "unknown"}}, "127.0.0.1", 9},
		{`{"source":"arg_realip"}`, "/?realip=1.1.1.1:8080", nil, "1.1.1.1", 8080},
		{`{"source":"arg_realip"}`, "/?realip=%5B2001:db8::1%5D:8080", nil, "2001:db8::1", 8080},
		{`{"source":"arg_realip"}`, "/?realip=1.1.1.1:65536", nil, "127.0.0.1", 9},
		{`{"source":"http_x_forwarded_for"}`, "/", []f{{forwarded, "1.1.1.1, 2.2.2.2"}}, "2.2.2.2", 0},
		{`{"source":"http_x_forwarded_for"}`, "/", []f{{forwarded, "1.1.1.1"}, {forwarded, "3.3.3.3:7090"}}, "3.3.3.3", 7090},
		{`{"source":"http_x_forwarded_for","recursive":true}`, "/", []f{{forwarded, "1.1.1.1, 127.0.0.1"}}, "127.0.0.1", 0},
		{`{"source":"http_x_forwarded_for","recursive":true,"trusted_addresses":["127.0.0.0/24","3.3.3.3"]}`, "/", []f{{forwarded, "2.2.2.2, 1.1.1.1,3.3.3.3, 127.0.0.2"}}, "1.1.1.1", 0},
		{`{"source":"http_x_forwarded_for","recursive":true,"trusted_addresses":["127.0.0.0/24"]}`, "/", []f{{forwarded, "127.0.0.3, 127.0.0.2"}}, "127.0.0.3", 0},
		{`{"source":"http_x_forwarded_for","recursive":true,"trusted_addresses":["127.0.0.0/24"]}`, "/", []f{{forwarded, "1.1.1.1, unknown, 127.0.0.2"}}, "127.0.0.1", 9},
		{`{"source":"http_xx","trusted_addresses":["10.0.0.0/8"]}`, "/", []f{{"XX", "1.1.1.1"}}, "127.0.0.1", 9},
		{`{"source":"http_xx","trusted_addresses":["127.0.0.1"]}`, "/", []f{{"XX", "1.1.1.1"}}, "1.1.1.1", 0},
	} {
		ph, err := Plugin.Compile([]byte(c.conf), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		ctx := plugintest.NewCtx(c.target, c.fields...)
		ctx.ClientPort = 9
		if r := plugintest.Send(ph, ctx); r != nil || ctx.Client != c.client || ctx.ClientPort != c.port {
			t.Errorf("%s %v: %s %d, want %s %d", c.conf, c.fields, ctx.Client, ctx.ClientPort, c.client, c.port)
		}
	}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "source", Config: `{}`, Invalid: `property "source" is required`},
		{Name: "network", Config: `{"source":"http_xx","trusted_addresses":["127.0.0.1/33"]}`, Invalid: `property "trusted_addresses" validation failed: failed to validate item 1: object matches none of the required`},
		{Name: "IPv6 network", Config: `{"source":"http_xx","trusted_addresses":["::1/129"]}`, Invalid: "invalid ip address: ::1/129"},
		{Name: "empty", Config: `{"source":"http_xx","trusted_addresses":[]}`, Invalid: `property "trusted_addresses" validation failed: expect array to have at least 1 items`},
	})
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	ph, err := Plugin.Compile([]byte(`{"source":"http_x_forwarded_for","recursive":true,"trusted_addresses":["127.0.0.0/24"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	ctx := plugintest.NewCtx("/", [2]string{"X-Forwarded-For", "1.1.1.1, 127.0.0.2"})
	if n := testing.AllocsPerRun(100, func() {
		ctx.Reset()
		ctx.Client = "127.0.0.1"
		plugintest.Send(ph, ctx)
	}); n != 0 || ctx.Client != "1.1.1.1" {
		t.Errorf("%v allocations, %s", n, ctx.Client)
	}
}

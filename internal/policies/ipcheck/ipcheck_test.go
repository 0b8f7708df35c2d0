package ipcheck

import (
	"net/netip"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	type h = map[string]string
	admitted := func(client string) plugintest.Request { return plugintest.Request{Client: client} }
	refused := func(client string) plugintest.Request {
		return plugintest.Request{Client: client, Status: 403, Body: "IP address not allowed\n"}
	}
	forwarded := func(status int, fields ...string) plugintest.Request {
		r := plugintest.Request{Status: status}
		for _, f := range fields {
			r.Fields = append(r.Fields, [2]string{"X-Forwarded-For", f})
		}
		return r
	}
	const byHeader = `{"check_type":"blacklist","ips":["1.2.3.4","::1"],"client_ip_sources":["X-Forwarded-For"],"error_msg":"no"}`
	plugintest.Run(t, Policy, []plugintest.Case{
		{Name: "whitelist", Config: `{"check_type":"whitelist","ips":["1.1.1.0/4","127.0.0.1","2001:db8::/32"]}`, Requests: []plugintest.Request{
			admitted("127.0.0.1"), admitted("1.1.1.1"), admitted("15.255.255.255"), admitted("2001:db8::1"),
			refused("127.0.0.2"), refused("16.0.0.0"), refused("::1"),
		}},
		{Name: "blacklist", Config: `{"check_type":"blacklist","ips":["1.1.1.0/4"," 127.0.0.1 "]}`, Requests: []plugintest.Request{
			refused("127.0.0.1"), refused("1.1.1.1"), admitted("127.0.0.2"), admitted("::1"),
		}},
		{Name: "unreadable in a whitelist", Config: `{"check_type":"whitelist","ips":["a","127.0.0.1"]}`, Requests: []plugintest.Request{
			admitted("127.0.0.1"), refused("127.0.0.2"),
		}},
		{Name: "unreadable in a blacklist", Config: `{"check_type":"blacklist","ips":["a"]}`, Invalid: "ips: invalid ip address: a"},
		{Name: "another type", Config: `{"check_type":"none","ips":[]}`, Requests: []plugintest.Request{admitted("127.0.0.1")}},
		{Name: "nobody", Config: `{"check_type":"whitelist","ips":[]}`, Requests: []plugintest.Request{refused("127.0.0.1")}},
		{Name: "X-Forwarded-For", Config: byHeader, Requests: []plugintest.Request{
			forwarded(403, "1.2.3.4"), forwarded(0, "6.6.6.6"), forwarded(0, "6.6.6.6, 1.2.3.4"),
			forwarded(403, "1.2.3.4", "9.9.9.9"), forwarded(0, "9.9.9.9", "1.2.3.4"),
			forwarded(403, "1.2.3.4:80"), forwarded(0, "1.2.3.5:80"), forwarded(403, "[::1]:80, 6.6.6.6"),
			forwarded(403), forwarded(403, ""), forwarded(403, ", 6.6.6.6"), forwarded(403, "unknown"), forwarded(403, "6.6.6.6 x"),
		}},
		{Name: "the first that says something", Config: `{"check_type":"blacklist","ips":["1.2.3.4"],"client_ip_sources":["X-Real-IP","what","last_caller"]}`, Requests: []plugintest.Request{
			{Header: h{"X-Real-IP": "1.2.3.4"}, Status: 403}, {Header: h{"X-Real-IP": "1.2.3.5"}, Client: "1.2.3.4"},
			{Client: "1.2.3.4", Status: 403}, {Client: "1.2.3.5"}, {Header: h{"X-Real-IP": "nobody"}, Status: 403},
		}},
		{Name: "no list", Config: `{"check_type":"whitelist"}`, Invalid: `"ips" is required`},
		{Name: "no type", Config: `{"ips":[]}`, Invalid: `"check_type" is required`},
	})
	if !Policy.Guard {
		t.Error("no guard")
	}
}

func TestProxied(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{"check_type":"whitelist","ips":["192.0.2.1"],"client_ip_sources":["proxy_protocol_addr"]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	for _, tc := range []struct {
		proxied netip.AddrPort
		refused bool
	}{
		{netip.AddrPort{}, true},
		{netip.MustParseAddrPort("192.0.2.1:7"), false},
		{netip.MustParseAddrPort("192.0.2.2:7"), true},
	} {
		c.Proxied = tc.proxied
		if got := plugintest.Send(ph, c) != nil; got != tc.refused {
			t.Errorf("%v: refused %v", tc.proxied, got)
		}
	}
}

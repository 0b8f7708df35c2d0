package plugin_test

import (
	"net/netip"
	"testing"

	"weir/internal/plugin"
)

func TestParseClient(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3.4":             "1.2.3.4:0",
		"1.2.3.4:80":          "1.2.3.4:80",
		"::1":                 "[::1]:0",
		"[::1]":               "[::1]:0",
		"[2001:db8::1]:65535": "[2001:db8::1]:65535",
		"::ffff:1.2.3.4":      "1.2.3.4:0",
		"fe80::1%eth0":        "[fe80::1]:0",
		"":                    "", "a.test": "", "1.2.3": "", "1.2.3.4:0": "", "1.2.3.4:65536": "", "1.2.3.4:": "",
		"[1.2.3.4]": "", "[::1": "", "::1]": "", "[::1]x:80": "", "1.2.3.4, 5.6.7.8": "",
	} {
		got := ""
		if ap, ok := plugin.ParseClient(text); ok {
			got = ap.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSetClient(t *testing.T) {
	c := new(plugin.Ctx)
	c.SetClient(netip.MustParseAddrPort("[2001:db8::1]:80"))
	if c.Client != "2001:db8::1" || c.ClientPort != 80 {
		t.Errorf("%q %d", c.Client, c.ClientPort)
	}
}

func TestRequestID(t *testing.T) {
	c := new(plugin.Ctx)
	if id := c.RequestID(); len(id) != 32 || c.RequestID() != id {
		t.Errorf("%q, then %q", id, c.RequestID())
	}
	c.SetRequestID("mine")
	if c.RequestID() != "mine" {
		t.Errorf("%q", c.RequestID())
	}
	c.Reset()
	if len(c.RequestID()) != 32 {
		t.Errorf("%q after Reset", c.RequestID())
	}
}

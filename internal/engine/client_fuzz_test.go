package engine

import (
	"net/netip"
	"strings"
	"testing"

	"weir/internal/plugin"
	"weir/internal/wire"
)

// FuzzRealIP: the client is who one list of all that the fields name says, read from
// its end as nginx reads it (ngx_http_get_forwarded_addr): over who is trusted, and no
// further than it can be read.
func FuzzRealIP(f *testing.F) {
	for _, s := range [][2]string{
		{"1.1.1.1", "2.2.2.2, 10.0.0.1"}, {"6.6.6.6", "unknown, 10.0.0.1"}, {"", ","}, {"1.1.1.1:80", "[::1]:7"}, {"10.0.0.1", "10.0.0.2,10.0.0.3"}, {"::ffff:10.0.0.9", "10.1.1.1"},
	} {
		f.Add(s[0], s[1], true)
		f.Add(s[0], s[1], false)
	}
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	from := func(a netip.Addr) bool { return trusted.Contains(a) }
	f.Fuzz(func(t *testing.T, first, second string, recursive bool) {
		var h wire.Header
		h.Receive("X-Forwarded-For", first)
		h.Receive("x-forwarded-for", second)
		r := &RealIP{Header: "X-Forwarded-For", Recursive: recursive, From: from}
		got, ok := r.client(&h)
		var want netip.AddrPort
		found := false
		list := strings.Split(first+","+second, ",")
		for i := len(list) - 1; i >= 0; i-- {
			who, valid := plugin.ParseClient(strings.Trim(list[i], " \t"))
			if !valid {
				break
			}
			want, found = who, true
			if !recursive || !from(who.Addr()) {
				break
			}
		}
		if ok != found || ok && got != want {
			t.Errorf("%q, %q: %v, %v, want %v, %v", first, second, got, ok, want, found)
		}
	})
}

package expr

import (
	"net/netip"
	"testing"
)

// Whatever a client sends, its document is read in bounded depth, and to the same
// end each time.
func FuzzGraphQL(f *testing.F) {
	for _, s := range []string{`query a { b(c: "d") { e } }`, `{a}`, `mutation($x: [Int!]! = 1 @d) { a: b ...c ... on D { e } }`, `fragment x on Y { z } query {a}`, `"""`, `{{{{`, "# c\n{a}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		a, b := parseGraphQL(doc), parseGraphQL(doc)
		if (a == nil) != (b == nil) {
			t.Errorf("%q is read in two ways", doc)
		}
	})
}

// A network contains what net/netip says it does.
func FuzzNetworks(f *testing.F) {
	for _, s := range [][2]string{{"10.0.0.0/8", "10.1.1.1"}, {"::/0", "1.1.1.1"}, {"::ffff:1.1.1.1", "1.1.1.1"}, {"fe80::/10", "fe80::1%eth0"}, {"1.1.1.1/33", "x"}, {"0.0.0.0/0", "::1"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, network, address string) {
		n, err := CompileNetworks([]string{network})
		if err != nil {
			return
		}
		p, err := netip.ParsePrefix(network)
		a, wrong := netip.ParseAddr(address)
		if err != nil || wrong != nil || p.Addr().Is4In6() || a.Is4In6() || a.Zone() != "" {
			n.Contain(address)
			return
		}
		if got, want := n.Contain(address), p.Masked().Contains(a); got != want {
			t.Errorf("%s contains %s: %v, netip says %v", network, address, got, want)
		}
		if n.Contain(address) != n.ContainAddr(a) {
			t.Errorf("%s, %s: text and address differ", network, address)
		}
	})
}

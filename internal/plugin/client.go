package plugin

import (
	"net/netip"
	"strings"
)

// ParseClient reads an address as proxies report it: IPv4 or IPv6, that perhaps
// in brackets, with or without a port. Port 0 stands for none; a given port is
// not 0. IPv4 in the form of IPv6 is IPv4.
func ParseClient(text string) (netip.AddrPort, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(addr.Unmap().WithZone(""), 0), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		addr, err := netip.ParseAddr(inner[:len(inner)-1])
		return netip.AddrPortFrom(addr.Unmap().WithZone(""), 0), err == nil && addr.Is6()
	}
	ap, err := netip.ParseAddrPort(text)
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()), err == nil && ap.Port() != 0
}

// SetClient makes the caller who a proxy says it is.
func (c *Ctx) SetClient(who netip.AddrPort) {
	from := len(c.scratch)
	c.scratch = who.Addr().AppendTo(c.scratch)
	c.Client, c.ClientPort = view(c.scratch[from:]), who.Port()
}

package expr

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/document"
)

// Networks are IP addresses and networks. They are immutable.
type Networks struct{ networks }

// CompileNetworks reads addresses and networks ("10.0.0.0/8"). The error names the
// first that is none.
func CompileNetworks(list []string) (*Networks, error) {
	n := &Networks{networks{set: map[netip.Prefix]struct{}{}}}
	for _, s := range list {
		p, err := network(s)
		if err != nil {
			return nil, fmt.Errorf("invalid ip address: %s", s)
		}
		n.add(p)
	}
	return n, nil
}

// Contain says whether s is an address in one of the networks.
func (n *Networks) Contain(s string) bool { return n.contain(s) }

// ContainAddr is Contain of an address that is not text.
func (n *Networks) ContainAddr(a netip.Addr) bool { return n.containAddr(a.Unmap().WithZone("")) }

// networks are addresses and networks, as in lua-resty-ipmatcher 0.6.1.
type networks struct {
	set  map[netip.Prefix]struct{}
	bits [2][]int // lengths in set, of IPv4 and of IPv6 networks
}

func compileNetworks(right value) (*networks, error) {
	var list []*document.Value
	switch {
	case right.kind == text && right.text != "":
		list = []*document.Value{document.NewString(right.text)}
	case right.kind == tree:
		list = right.tree.Items
	}
	if len(list) == 0 {
		return nil, errors.New("invalid ip address")
	}
	n := &networks{set: map[netip.Prefix]struct{}{}}
	for _, item := range list {
		p, err := network(item.Text)
		if err != nil {
			return nil, err
		}
		n.add(p)
	}
	return n, nil
}

func (n *networks) add(p netip.Prefix) {
	n.set[p] = struct{}{}
	lengths := &n.bits[family(p.Addr())]
	for _, have := range *lengths {
		if have == p.Bits() {
			return
		}
	}
	*lengths = append(*lengths, p.Bits())
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// network reads an address with an optional length; IPv6 may stand in brackets.
func network(s string) (netip.Prefix, error) {
	host, length, given := strings.Cut(s, "/")
	addr, ok := address(host)
	bits := addr.BitLen()
	if f, isNumber := parseNumber(length); given && isNumber {
		if bits = int(f); float64(bits) != f {
			ok = false
		}
	}
	p := netip.PrefixFrom(addr, bits)
	if !ok || !p.IsValid() {
		return p, fmt.Errorf("invalid ip address: %s", host)
	}
	return p.Masked(), nil
}

func address(s string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		s = inner[:len(inner)-1]
	}
	a, err := netip.ParseAddr(s)
	return a, err == nil && a.Zone() == ""
}

// contain says whether s is an address in one of the networks.
func (n *networks) contain(s string) bool {
	a, ok := address(s)
	return ok && n.containAddr(a)
}

func (n *networks) containAddr(a netip.Addr) bool {
	for _, bits := range n.bits[family(a)] {
		p, err := a.Prefix(bits)
		if err != nil {
			continue
		}
		if _, ok := n.set[p]; ok {
			return true
		}
	}
	return false
}

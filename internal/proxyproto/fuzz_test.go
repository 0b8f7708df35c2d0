package proxyproto

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// FuzzLine: a line is read as the specification's own words have it (section 2.1),
// told a second time by regular expressions.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		"PROXY TCP4 192.0.2.1 127.0.0.1 4711 80", "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 4711 80", "PROXY UNKNOWN", "PROXY UNKNOWN x", "PROXY UNKNOWNx",
		"PROXY TCP4 192.0.2.1 127.0.0.1 04711 80", "PROXY TCP4 192.0.2.01 127.0.0.1 1 65536", "PROXY TCP6 fe80::1%a ::1 1 2", "PROXY  TCP4 1.1.1.1 1.1.1.1 1 1",
	} {
		f.Add(s)
	}
	shape := regexp.MustCompile(`^PROXY (TCP4 ([0-9.]+) ([0-9.]+)|TCP6 ([0-9a-fA-F:.]+) ([0-9a-fA-F:.]+)) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4})$`)
	unknown := regexp.MustCompile(`(?s)^PROXY UNKNOWN( .*)?$`)
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > maxLine-2 || len(line) < fixed-3 || strings.ContainsAny(line, "\r\n") {
			return
		}
		h, err := Read(strings.NewReader(line + "\r\n"))
		m := shape.FindStringSubmatch(line)
		if unknown.MatchString(line) {
			if err != nil || h.Known() {
				t.Errorf("%q: %v, %v", line, h, err)
			}
			return
		}
		want, valid := Header{}, m != nil
		if valid {
			var s, d bool
			want.Source, s = join(m[2]+m[4], m[6], m[2] != "")
			want.Destination, d = join(m[3]+m[5], m[7], m[2] != "")
			valid = s && d
		}
		if valid != (err == nil) || valid && h != want {
			t.Errorf("%q: %v, %v, want %v, %v", line, h, err, want, valid)
		}
	})
}

func join(addr, port string, is4 bool) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(addr)
	p, portErr := strconv.Atoi(port)
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), err == nil && portErr == nil && p < 1<<16 && a.Is4() == is4
}

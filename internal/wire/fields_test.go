package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

func TestKnown(t *testing.T) {
	names := map[string]Known{
		"Connection": KnownConnection, "Content-Length": KnownContentLength, "Date": KnownDate,
		"Expect": KnownExpect, "Host": KnownHost, "Keep-Alive": KnownKeepAlive,
		"Proxy-Authenticate": KnownProxyAuthenticate, "Proxy-Authorization": KnownProxyAuthorization,
		"Proxy-Connection": KnownProxyConnection, "Server": KnownServer, "TE": KnownTE,
		"Trailer": KnownTrailer, "Transfer-Encoding": KnownTransferEncoding, "Upgrade": KnownUpgrade,
		"X-Real-IP": KnownXRealIP, "X-Forwarded-For": KnownXForwardedFor,
		"X-Forwarded-Proto": KnownXForwardedProto, "X-Forwarded-Host": KnownXForwardedHost,
		"X-Forwarded-Port": KnownXForwardedPort, "Forwarded": KnownForwarded,
		"X-Consumer-Username": KnownXConsumerUsername, "X-Credential-Identifier": KnownXCredentialIdentifier,
		"X-Consumer-Custom-ID": KnownXConsumerCustomID,
	}
	if len(names) != int(KnownXConsumerCustomID) {
		t.Errorf("%d names", len(names))
	}
	for name, want := range names {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := classify(spelling); got != want {
				t.Errorf("%s: %#x, want %#x", spelling, got, want)
			}
		}
		under, alias := strings.Replace(name, "-", "_", 1), KnownNone
		if under == name {
			continue
		}
		if want >= KnownXRealIP {
			alias = want | Alias
		}
		for _, spelling := range []string{under, strings.ToUpper(under)} {
			if got := classify(spelling); got != alias {
				t.Errorf("%s: %#x, want %#x", spelling, got, alias)
			}
		}
		for _, other := range []string{name[1:], name + "x", "z" + name[1:], name[:len(name)-1] + "?"} {
			if got := classify(other); got != KnownNone {
				t.Errorf("%s: %#x", other, got)
			}
		}
	}
}

func TestNominated(t *testing.T) {
	raw := "GET / HTTP/1.1\r\nHost: h\r\nx-a: 1\r\nX-B: 2\r\nX-A: 3\r\nX-Real-IP: 4\r\nX_C: 5\r\n" +
		"Content-Length: 0\r\nUpgrade: u\r\nKeep-Alive: 1\r\n" +
		"Connection: X-a,, close, x-real-ip ,host, content-length, transfer-encoding, upgrade, keep-alive, connection\r\n" +
		"Connection:\r\nConnection: x_c\r\n\r\n"
	var nominated []string
	for _, f := range requests(strings.NewReader(raw), Limits{}, 1)[0].Fields {
		var known uint8
		if _, err := fmt.Sscanf(f[strings.LastIndexByte(f, '['):], "[%v]", &known); err != nil {
			t.Fatal(err)
		}
		if Known(known)&Nominated != 0 {
			nominated = append(nominated, f[:strings.IndexByte(f, ' ')])
		}
	}
	if want := []string{"x-a:", "X-A:", "X-Real-IP:", "X_C:"}; !slices.Equal(nominated, want) {
		t.Errorf("%q, want %q", nominated, want)
	}
}

func TestIsText(t *testing.T) {
	for c := range 256 {
		for _, pad := range []int{0, 1, 7, 8, 9, 20} {
			for at := range pad + 1 {
				b := []byte(strings.Repeat("\xff", at) + string([]byte{byte(c)}) + strings.Repeat("a", pad-at))
				if want := c == '\t' || c >= ' ' && c != 0x7f; isText(b) != want {
					t.Fatalf("%q: %v", b, !want)
				}
			}
		}
	}
}

func TestHeaderEdits(t *testing.T) {
	raw := "GET / HTTP/1.1\r\nHost: h\r\nA:1\r\nB: 2\r\na:  3\r\nC: 4\r\n\r\n"
	var r Reader
	var req Request
	r.Reset(strings.NewReader(raw), Limits{})
	if err := r.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	h := &req.Header
	check := func(want string) {
		t.Helper()
		if got := string(h.AppendTo(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check("Host: h\r\nA:1\r\nB: 2\r\na:  3\r\nC: 4\r\n")
	if v, ok := h.Get("A"); !ok || v != "1" {
		t.Errorf("first A is %q", v)
	}
	h.Set("B", "x")
	check("Host: h\r\nA:1\r\na:  3\r\nC: 4\r\nB: x\r\n")
	if !h.Del("a") || h.Del("a") {
		t.Error("Del")
	}
	h.Add("D", "y")
	check("Host: h\r\nC: 4\r\nB: x\r\nD: y\r\n")
	h.Fields()[0].Dropped = true
	check("C: 4\r\nB: x\r\nD: y\r\n")
	h.Reset()
	check("")
	for range keptFields + 1 {
		h.Add("E", "z")
	}
	if h.Reset(); h.fields != nil {
		t.Error("a large header keeps its memory")
	}
}

func TestAdd(t *testing.T) {
	var h Header
	for _, c := range []struct{ name, value, want string }{
		{"X-A", "plain \t\xfc", "X-A: plain \t\xfc\r\n"},
		{"X-A", "1\r\nEvil: 2", "X-A: 1%0D%0AEvil: 2\r\n"},
		{"X-A", "\x00\x7f", "X-A: %00%7F\r\n"},
		{"X-A\r\nEvil", "1", "X-A%0D%0AEvil: 1\r\n"},
		{"X A:", "1", "X%20A%3A: 1\r\n"},
		{"", "1", ""},
		{"X-A", "", "X-A: \r\n"},
	} {
		h.Reset()
		h.Add(c.name, c.value)
		if got := string(h.AppendTo(nil)); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.name, c.value, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { h.Reset(); h.Add("X-Name", "some value") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAdded(t *testing.T) {
	var r Reader
	var req Request
	r.Reset(strings.NewReader("GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n\r\n"), DefaultLimits())
	if err := r.ReadRequest(&req); err != nil {
		t.Fatal(err)
	}
	if n := len(req.Header.Added()); n != 0 {
		t.Errorf("%d fields added before any was", n)
	}
	req.Header.Set("X-A", "2")
	req.Header.Add("X-B", "3")
	if a := req.Header.Added(); len(a) != 2 || a[0].Value != "2" || a[1].Name != "X-B" {
		t.Errorf("added %v", a)
	}
}

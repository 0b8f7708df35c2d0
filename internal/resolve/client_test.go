package resolve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// text is an answer in short: addresses with what is not usual, and the TTL.
func text(x Answer) string {
	var parts []string
	for _, r := range x.Records {
		s := r.Addr.String()
		if r.Port != 0 || r.Weight != 1 || r.Priority != 0 {
			s += fmt.Sprintf(":%d*%d@%d", r.Port, r.Weight, r.Priority)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ") + " " + x.TTL.String()
}

// client asks s alone.
func client(t testing.TB, s *server, edit ...func(*Config)) *Client {
	cfg := Config{Hosts: os.DevNull, ResolvConf: os.DevNull, IPv6: true, Timeout: 2 * time.Second}
	if s != nil {
		cfg.Servers = []string{s.addr}
	}
	for _, f := range edit {
		f(&cfg)
	}
	return NewClient(cfg)
}

func file1(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLookup(t *testing.T) {
	s := newServer(t)
	s.set("a.test.", 60, a(3), a(1), a(2))
	s.set("both.test.", 60, a(1))
	s.set("both.test.", 60, aaaa(1))
	s.set("six.test.", 30, aaaa(2), aaaa(1))
	s.set("alias.test.", 20, cname("mid.test."))
	s.set("mid.test.", 10, cname("a.test."))
	s.set("loop.test.", 10, cname("pool.test."))
	s.set("pool.test.", 10, cname("loop.test."))
	s.set("zero.test.", 0, a(1))
	s.set("twice.test.", 60, a(1), a(1))
	s.set("plain.srv.", 60, srv(0, 0, 81, "a.test."), srv(5, 3, 82, "both.test."))
	s.set("gone.srv.", 60, srv(0, 1, 81, "."), srv(0, 1, 82, "nowhere.test."))
	s.set("a.and.srv.", 60, a(9))
	s.set("a.and.srv.", 60, srv(1, 1, 80, "both.test."))
	s.set("cut.srv.", 60, srv(1, 1, 80, "localhost."))
	all := []Type{SRV, A, AAAA, CNAME}
	for _, tc := range []struct {
		name  string
		types []Type
		want  string // or the error
	}{
		{"a.test", ForHosts(), "10.0.0.1 10.0.0.2 10.0.0.3 1m0s"},
		{"A.TEST.", ForHosts(), "10.0.0.1 10.0.0.2 10.0.0.3 1m0s"},
		{"both.test", ForHosts(), "10.0.0.1 1m0s"},
		{"six.test", ForHosts(), "2001:db8::1 2001:db8::2 30s"},
		{"alias.test", ForHosts(), "10.0.0.1 10.0.0.2 10.0.0.3 10s"},
		{"alias.test", []Type{CNAME, A}, "10.0.0.1 10.0.0.2 10.0.0.3 10s"},
		{"loop.test", ForHosts(), "name does not exist"},
		{"zero.test", ForHosts(), "10.0.0.1 1s"},
		{"twice.test", ForHosts(), "10.0.0.1 1m0s"},
		{"nowhere.test", ForHosts(), "name does not exist"},
		{"a.test", []Type{SRV}, "name does not exist"},
		{"not..a.name", ForHosts(), "name does not exist"},
		{strings.Repeat("long.", 60), ForHosts(), "name does not exist"},
		{"localhost", ForHosts(), "127.0.0.1 5s"},
		{"x.localhost", ForHosts(), "127.0.0.1 5s"},
		// The one target of weight 3 has one address, the one of weight 1 three.
		{"plain.srv", all, "10.0.0.1:81*1@0 10.0.0.2:81*1@0 10.0.0.3:81*1@0 10.0.0.1:82*9@-5 1m0s"},
		{"gone.srv", []Type{SRV}, "name does not exist"},
		{"a.and.srv", all, "10.0.0.1:80*1@-1 1m0s"},
		{"a.and.srv", []Type{A, SRV}, "10.0.0.9 1m0s"},
		{"a.test", all, "10.0.0.1 10.0.0.2 10.0.0.3 1m0s"},
		{"cut.srv", all, "127.0.0.1:80*1@-1 1m0s"},
	} {
		got, err := client(t, s).Lookup(t.Context(), tc.name, tc.types)
		switch {
		case err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), strings.TrimSuffix(tc.name, "."))):
			t.Errorf("%s %v: %v", tc.name, tc.types, err)
		case err != nil && !errors.Is(err, ErrNotFound):
			t.Errorf("%s %v: %v is no ErrNotFound", tc.name, tc.types, err)
		case err == nil && text(got) != tc.want:
			t.Errorf("%s %v: %s, want %s", tc.name, tc.types, text(got), tc.want)
		}
	}
	if _, err := client(t, s, func(c *Config) { c.IPv6 = false }).Lookup(t.Context(), "six.test", ForHosts()); !errors.Is(err, ErrNotFound) {
		t.Error("without IPv6:", err)
	}
}

// What a server cannot find out is an error, but no answer.
func TestFailures(t *testing.T) {
	s := newServer(t)
	s.set("a.test.", 60, a(1))
	s.edit(func(s *server) {
		s.rcode["broken.test."] = dnsmessage.RCodeServerFailure
		s.rcode["refused.test."] = dnsmessage.RCodeRefused
		s.rcode["no.test."] = dnsmessage.RCodeNameError
	})
	for name, want := range map[string]string{
		"broken.test": "answers ServerFailure", "refused.test": "answers Refused", "no.test": "does not exist",
	} {
		_, err := client(t, s).Lookup(t.Context(), name, ForHosts())
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrNotFound) != (name == "no.test") {
			t.Errorf("%s: %v", name, err)
		}
	}
	dead := client(t, nil, func(c *Config) { c.Servers = []string{"127.0.0.1:1"} })
	if _, err := dead.Lookup(t.Context(), "a.test", ForHosts()); err == nil || errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	s.edit(func(s *server) { s.silent = true })
	quick := client(t, s, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	if _, err := quick.Lookup(t.Context(), "a.test", ForHosts()); err == nil || errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// The next server is asked when one does not answer or does not know, and the
// one that answered is asked first from then on.
func TestServers(t *testing.T) {
	broken, good := newServer(t), newServer(t)
	broken.edit(func(s *server) { s.rcode[""] = dnsmessage.RCodeServerFailure })
	good.set("a.test.", 60, a(1))
	c := client(t, nil, func(c *Config) { c.Servers = []string{"127.0.0.1:1", broken.addr, good.addr} })
	for range 3 {
		if got, err := c.Lookup(t.Context(), "a.test", ForHosts()); err != nil || text(got) != "10.0.0.1 1m0s" {
			t.Fatal(text(got), err)
		}
	}
	if n := broken.count("A a.test."); n != 1 {
		t.Errorf("the server that fails was asked %d times", n)
	}
}

func TestTransport(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*server)
		want string // networks
	}{
		{"plain", func(*server) {}, "udp"},
		{"truncated", func(s *server) { s.cut = true }, "udp tcp"},
		{"no EDNS", func(s *server) { s.noEDNS = true }, "udp udp"},
		{"forged", func(s *server) {
			s.forge = func(m *dnsmessage.Message) [][]byte {
				bad := *m
				bad.Response = true
				bad.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 60}, Body: a(66),
				}}
				wrongID := bad
				wrongID.ID++
				wrongName := bad
				wrongName.Questions = []dnsmessage.Question{{Name: dnsmessage.MustNewName("b.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}
				query := bad
				query.Response = false
				out := [][]byte{{}, []byte("rubbish that is no message")}
				for _, x := range []dnsmessage.Message{wrongID, wrongName, query} {
					b, _ := x.Pack()
					out = append(out, b)
				}
				return out
			}
		}, "udp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.set("a.test.", 60, a(1))
			s.edit(tc.edit)
			got, err := client(t, s).Lookup(t.Context(), "a.test", []Type{A})
			if err != nil || text(got) != "10.0.0.1 1m0s" || s.networks() != tc.want {
				t.Fatal(text(got), err, s.networks())
			}
		})
	}
}

func TestSearch(t *testing.T) {
	s := newServer(t)
	s.set("svc.ns.cluster.", 60, a(1))
	s.set("svc.other.cluster.", 60, a(2))
	s.set("a.b.", 60, a(3))
	s.set("a.b.ns.cluster.", 60, a(4))
	conf := file1(t, "nameserver 127.0.0.1\nsearch ns.cluster other.cluster.\noptions timeout:1 ndots:2\n; comment\n")
	with := func(search bool) *Client {
		return client(t, s, func(c *Config) { c.ResolvConf, c.Search = conf, search })
	}
	for _, tc := range []struct {
		name   string
		search bool
		want   string
	}{
		{"svc", true, "10.0.0.1 1m0s"},
		{"svc.", true, ""},
		{"svc", false, ""},
		{"a.b", true, "10.0.0.4 1m0s"}, // one dot is less than two
		{"a.b", false, "10.0.0.3 1m0s"},
		{"svc.ns.cluster", true, "10.0.0.1 1m0s"},
	} {
		got, err := with(tc.search).Lookup(t.Context(), tc.name, []Type{A})
		if tc.want == "" && !errors.Is(err, ErrNotFound) || tc.want != "" && text(got) != tc.want {
			t.Errorf("%+v: %s %v", tc, text(got), err)
		}
	}
	if n := s.count("A svc."); n != 2 {
		t.Error(s.log())
	}
}

// Files are read again when they change.
func TestFiles(t *testing.T) {
	one, two := newServer(t), newServer(t)
	one.set("a.test.", 60, a(1))
	two.set("a.test.", 60, a(2))
	hosts, conf := file1(t, "# nothing\n"), file1(t, "nameserver "+"127.0.0.1\n")
	c := client(t, nil, func(c *Config) { c.Hosts, c.ResolvConf = hosts, conf })
	look := func(name string) string {
		got, err := c.Lookup(t.Context(), name, ForHosts())
		if err != nil {
			return err.Error()
		}
		return text(got)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(hosts, "10.1.1.1 Other.test  a.test # here\n::1 a.test six.test\nrubbish a.test\n10.1.1.2 a.test\n")
	for name, want := range map[string]string{
		"a.test": "10.1.1.1 10.1.1.2 5s", "A.test.": "10.1.1.1 10.1.1.2 5s", "other.test": "10.1.1.1 5s", "six.test": "::1 5s",
	} {
		if got := look(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if err := os.Remove(hosts); err != nil {
		t.Fatal(err)
	}
	write(conf, "nameserver "+one.addr+"\n")
	if got := look("a.test"); got != "10.0.0.1 1m0s" {
		t.Error(got)
	}
	write(conf, "nameserver "+two.addr+"\n# longer\n")
	if got := look("a.test"); got != "10.0.0.2 1m0s" {
		t.Error(got)
	}
}

func TestParseConf(t *testing.T) {
	for in, want := range map[string]conf{
		"":                                   {servers: []string{"127.0.0.1:53"}, ndots: 1},
		"nameserver 1.2.3.4\nnameserver ::1": {servers: []string{"1.2.3.4:53", "[::1]:53"}, ndots: 1},
		"domain d\nsearch a b\noptions ndots:99 x": {
			servers: []string{"127.0.0.1:53"}, search: []string{"a", "b"}, ndots: 15,
		},
		"nameserver\noptions ndots:x": {servers: []string{"127.0.0.1:53"}, ndots: 1},
	} {
		got := parseConf([]byte(in))
		if !slices.Equal(got.servers, want.servers) || !slices.Equal(got.search, want.search) || got.ndots != want.ndots {
			t.Errorf("%q: %+v", in, got)
		}
	}
	for in, want := range map[string]string{
		"1.2.3.4": "1.2.3.4:53", "1.2.3.4:1053": "1.2.3.4:1053", "::1": "[::1]:53", "[::1]": "[::1]:53", "[::1]:54": "[::1]:54",
		"dns.test": "dns.test:53", "dns.test:54": "dns.test:54",
	} {
		if got := serverAddr(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	q := dnsmessage.Question{Name: dnsmessage.MustNewName("a.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, Response: true}, Questions: []dnsmessage.Question{q}}
	for _, body := range []dnsmessage.ResourceBody{a(1), cname("b.test."), srv(1, 2, 3, "c.test.")} {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: body})
	}
	b, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	s := &search{Client: NewClient(Config{Hosts: os.DevNull, ResolvConf: os.DevNull})}
	f.Fuzz(func(t *testing.T, b []byte) {
		if msg, ok := parse(b, 1, q); ok {
			s.follow(msg.Answers, "a.test.", q.Type)
		}
		parseHosts(b)
		if len(parseConf(b).servers) == 0 {
			t.Error("no server")
		}
	})
}

package resolve

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A server is a DNS server that says what the test wants.
type server struct {
	addr string
	udp  net.PacketConn
	tcp  net.Listener
	wg   sync.WaitGroup

	mu      sync.Mutex
	zone    map[string][]dnsmessage.Resource // by "TYPE name."
	rcode   map[string]dnsmessage.RCode      // by name; "": of all
	silent  bool
	noEDNS  bool // FORMERR for what is not of RFC 1035
	cut     bool // UDP answers are truncated
	forge   func(q *dnsmessage.Message) [][]byte
	asked   []string
	network []string
}

func newServer(t testing.TB) *server {
	t.Helper()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	if err != nil {
		t.Skip("the TCP port of that number is taken:", err)
	}
	s := &server{
		addr: udp.LocalAddr().String(), udp: udp, tcp: tcp,
		zone: map[string][]dnsmessage.Resource{}, rcode: map[string]dnsmessage.RCode{},
	}
	s.wg.Go(s.serveUDP)
	s.wg.Go(s.serveTCP)
	t.Cleanup(func() {
		udp.Close()
		tcp.Close()
		s.wg.Wait()
	})
	return s
}

func (s *server) serveUDP() {
	b := make([]byte, 4096)
	for {
		n, from, err := s.udp.ReadFrom(b)
		if err != nil {
			return
		}
		for _, reply := range s.answer(b[:n], "udp") {
			_, _ = s.udp.WriteTo(reply, from)
		}
	}
}

func (s *server) serveTCP() {
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err == nil {
			b := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, b); err == nil {
				for _, reply := range s.answer(b, "tcp") {
					_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
				}
			}
		}
		c.Close()
	}
}

func (s *server) answer(query []byte, network string) [][]byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(q.Type.String(), "Type") + " " + strings.ToLower(q.Name.String())
	s.asked, s.network = append(s.asked, key), append(s.network, network)
	if s.silent {
		return nil
	}
	var replies [][]byte
	if s.forge != nil {
		replies = s.forge(&m)
	}
	edns := len(m.Additionals) > 0
	m.Response, m.Additionals = true, nil
	name := strings.ToLower(q.Name.String())
	switch code, ok := s.rcode[name]; {
	case s.noEDNS && edns:
		m.RCode = dnsmessage.RCodeFormatError
	case ok:
		m.RCode = code
	case s.rcode[""] != 0:
		m.RCode = s.rcode[""]
	case s.cut && network == "udp":
		m.Truncated = true
	default:
		// As a recursive server does: the aliases and their end.
		for range 10 {
			m.Answers = append(m.Answers, s.zone["CNAME "+name]...)
			m.Answers = append(m.Answers, s.zone[strings.TrimPrefix(q.Type.String(), "Type")+" "+name]...)
			alias := s.zone["CNAME "+name]
			if len(alias) == 0 || q.Type == dnsmessage.TypeCNAME {
				break
			}
			name = alias[0].Body.(*dnsmessage.CNAMEResource).CNAME.String()
		}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return append(replies, b)
}

// set replaces the records of one type of a name.
func (s *server) set(name string, ttl uint32, bodies ...dnsmessage.ResourceBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []dnsmessage.Resource
	typ := ""
	for _, b := range bodies {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Class: dnsmessage.ClassINET, TTL: ttl}
		switch b.(type) {
		case *dnsmessage.AResource:
			h.Type, typ = dnsmessage.TypeA, "A"
		case *dnsmessage.AAAAResource:
			h.Type, typ = dnsmessage.TypeAAAA, "AAAA"
		case *dnsmessage.SRVResource:
			h.Type, typ = dnsmessage.TypeSRV, "SRV"
		case *dnsmessage.CNAMEResource:
			h.Type, typ = dnsmessage.TypeCNAME, "CNAME"
		}
		all = append(all, dnsmessage.Resource{Header: h, Body: b})
	}
	s.zone[typ+" "+name] = all
}

// edit changes what the server does.
func (s *server) edit(f func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// networks are those that questions came over, in order.
func (s *server) networks() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.network, " ")
}

func (s *server) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		if a == key {
			n++
		}
	}
	return n
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, ", ")
}

func a(d byte) *dnsmessage.AResource { return &dnsmessage.AResource{A: [4]byte{10, 0, 0, d}} }

func aaaa(d byte) *dnsmessage.AAAAResource {
	return &dnsmessage.AAAAResource{AAAA: [16]byte{0x20, 1, 0xd, 0xb8, 15: d}}
}

func cname(to string) *dnsmessage.CNAMEResource {
	return &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(to)}
}

func srv(priority, weight, port uint16, target string) *dnsmessage.SRVResource {
	return &dnsmessage.SRVResource{Priority: priority, Weight: weight, Port: port, Target: dnsmessage.MustNewName(target)}
}

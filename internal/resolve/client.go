package resolve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Config says how a Client finds out. The zero Config asks as the system does.
type Config struct {
	// Servers are addresses of DNS servers, with a port if it is not 53; empty:
	// those of ResolvConf.
	Servers []string

	ResolvConf string // empty: /etc/resolv.conf
	Hosts      string // empty: /etc/hosts

	// Timeout bounds one lookup with all its questions; 0: 5 s.
	Timeout time.Duration

	// Search tries the search list of ResolvConf for names with few dots.
	Search bool

	// IPv6 asks for AAAA records too, where there are no A records.
	IPv6 bool
}

// A Client looks names up. It may be used by many goroutines.
type Client struct {
	cfg   Config
	hosts *file[map[string][]netip.Addr]
	conf  *file[conf]
	last  atomic.Int32 // index of the server that answered last
}

// NewClient makes a Client.
func NewClient(cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	path := func(p, other string) string {
		if p == "" {
			return other
		}
		return p
	}
	c := &Client{cfg: cfg}
	c.hosts = newFile(path(cfg.Hosts, "/etc/hosts"), parseHosts)
	c.conf = newFile(path(cfg.ResolvConf, "/etc/resolv.conf"), parseConf)
	c.cfg.Servers = make([]string, 0, len(cfg.Servers))
	for _, s := range cfg.Servers {
		c.cfg.Servers = append(c.cfg.Servers, serverAddr(s))
	}
	return c
}

// ForHosts are the types that name a host: A, and AAAA if there is none.
func ForHosts() []Type { return []Type{A, AAAA} }

// hostsTTL is how long what the hosts file says is used.
const hostsTTL = 5 * time.Second

// Lookup finds what name stands for: the hosts file's addresses, else records of
// the first of the types that has some. Aliases are followed. The TTL is the
// lowest of all records that led to the answer.
func (c *Client) Lookup(ctx context.Context, name string, types []Type) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if a, ok := c.local(name); ok {
		return a, nil
	}
	cf := c.conf.get()
	servers := c.cfg.Servers
	if len(servers) == 0 {
		servers = cf.servers
	}
	s := search{Client: c, servers: servers}
	var missing error
	for _, full := range c.candidates(name, cf) {
		records, err := s.records(ctx, full, types, 0)
		switch {
		case err == nil:
			return Answer{Records: order(records), TTL: s.ttl}, nil
		case !errors.Is(err, ErrNotFound):
			return Answer{}, fmt.Errorf("resolving %s: %w", name, err)
		}
		missing = err
	}
	return Answer{}, fmt.Errorf("resolving %s: %w", name, missing)
}

// local is what is known without DNS.
func (c *Client) local(name string) (Answer, bool) {
	name = canonical(name)
	addrs := c.hosts.get()[name]
	if len(addrs) == 0 && (name == "localhost" || strings.HasSuffix(name, ".localhost")) {
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})} // RFC 6761 §6.3
	}
	var four, six []Record
	for _, a := range addrs {
		if a.Is4() {
			four = append(four, Record{Addr: a, Weight: 1})
		} else {
			six = append(six, Record{Addr: a, Weight: 1})
		}
	}
	if four == nil {
		four = six
	}
	return Answer{Records: order(four), TTL: hostsTTL}, len(four) > 0
}

// candidates are the full names to try, as resolv.conf(5) says.
func (c *Client) candidates(name string, cf conf) []string {
	if strings.HasSuffix(name, ".") || !c.cfg.Search {
		return []string{strings.TrimSuffix(name, ".") + "."}
	}
	full := make([]string, 0, len(cf.search)+1)
	for _, s := range cf.search {
		full = append(full, name+"."+strings.Trim(s, ".")+".")
	}
	if strings.Count(name, ".") >= cf.ndots {
		return append([]string{name + "."}, full...)
	}
	return append(full, name+".")
}

// maxAliases bounds chains of CNAME and SRV records.
const maxAliases = 8

// A search is one lookup under way.
type search struct {
	*Client
	servers []string
	ttl     time.Duration // lowest so far; 0: none yet
}

// records are those of the first of the types that name has.
func (s *search) records(ctx context.Context, name string, types []Type, depth int) ([]Record, error) {
	if depth > maxAliases {
		return nil, fmt.Errorf("more than %d aliases", maxAliases)
	}
	missing := error(ErrNotFound)
	for _, t := range types {
		if t == AAAA && !s.cfg.IPv6 {
			continue
		}
		records, err := s.ofType(ctx, name, t, types, depth)
		if err == nil && len(records) > 0 {
			return records, nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return nil, missing
}

// wireTypes is immutable.
var wireTypes = map[Type]dnsmessage.Type{
	A: dnsmessage.TypeA, AAAA: dnsmessage.TypeAAAA, SRV: dnsmessage.TypeSRV, CNAME: dnsmessage.TypeCNAME,
}

func (s *search) ofType(ctx context.Context, name string, t Type, types []Type, depth int) ([]Record, error) {
	asked, err := dnsmessage.NewName(name)
	wt, known := wireTypes[t]
	if err != nil || !known || !valid(name) {
		return nil, ErrNotFound
	}
	msg, err := s.ask(ctx, s.servers, dnsmessage.Question{Name: asked, Type: wt, Class: dnsmessage.ClassINET})
	if err != nil {
		return nil, err
	}
	alias, found := s.follow(msg.Answers, name, wt)
	switch {
	case len(found) == 0 && alias == canonical(name), t == CNAME && alias == canonical(name):
		return nil, ErrNotFound
	case t == CNAME:
		return s.records(ctx, alias+".", types, depth+1)
	case len(found) == 0:
		return s.ofType(ctx, alias+".", t, types, depth+1)
	case t == SRV:
		return s.services(ctx, found, depth)
	}
	records := make([]Record, 0, len(found))
	for _, r := range found {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			records = append(records, Record{Addr: netip.AddrFrom4(b.A), Weight: 1})
		case *dnsmessage.AAAAResource:
			records = append(records, Record{Addr: netip.AddrFrom16(b.AAAA), Weight: 1})
		}
	}
	return records, nil
}

// valid reports whether a name, with the dot at its end, can be asked for
// (RFC 1035 §2.3.4).
func valid(name string) bool {
	if len(name) > 254 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if len(label) == 0 || len(label) > 63 {
			return false
		}
	}
	return true
}

// follow walks along the aliases of name within one answer and returns their
// end with its records of type t.
func (s *search) follow(answers []dnsmessage.Resource, name string, t dnsmessage.Type) (alias string, found []dnsmessage.Resource) {
	alias = canonical(name)
	for range maxAliases {
		next := ""
		for _, r := range answers {
			if canonical(r.Header.Name.String()) != alias {
				continue
			}
			if c, ok := r.Body.(*dnsmessage.CNAMEResource); ok {
				next = canonical(c.CNAME.String())
				s.lower(r.Header.TTL)
			}
			if r.Header.Type == t && t != dnsmessage.TypeCNAME {
				found = append(found, r)
				s.lower(r.Header.TTL)
			}
		}
		if len(found) > 0 || next == "" {
			break
		}
		alias = next
	}
	return alias, found
}

// lower takes the TTL of one more record into account. It is at least a second:
// what changes at every request is still asked for once a second only.
func (s *search) lower(seconds uint32) {
	ttl := time.Duration(max(1, min(seconds, math.MaxInt32))) * time.Second
	if s.ttl == 0 || ttl < s.ttl {
		s.ttl = ttl
	}
}

// services are the addresses of SRV records (RFC 2782). A record's weight is
// shared by its target's addresses; all weights are scaled to stay whole.
func (s *search) services(ctx context.Context, found []dnsmessage.Resource, depth int) ([]Record, error) {
	type service struct {
		weight  int
		records []Record
	}
	var all []service
	scale := 1
	for _, r := range found {
		b := r.Body.(*dnsmessage.SRVResource)
		if b.Target.String() == "." {
			continue // decidedly not available
		}
		targets, err := s.target(ctx, b.Target.String(), depth)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range targets {
			targets[i].Port, targets[i].Priority = int(b.Port), -int(b.Priority)
		}
		all = append(all, service{max(1, int(b.Weight)), targets})
		scale = scale / gcd(scale, len(targets)) * len(targets)
	}
	var records []Record
	for _, one := range all {
		for _, r := range one.records {
			r.Weight = one.weight * scale / len(one.records)
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil, ErrNotFound
	}
	return records, nil
}

// target are the addresses of an SRV record's target.
func (s *search) target(ctx context.Context, name string, depth int) ([]Record, error) {
	if a, ok := s.local(name); ok {
		return slices.Clone(a.Records), nil
	}
	return s.records(ctx, canonical(name)+".", ForHosts(), depth+1)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

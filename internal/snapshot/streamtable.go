package snapshot

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/internal/cow"
	"weir/internal/plugin"
)

// A streamMatch is what a session must have to match, and the route's place
// among those that match too.
type streamMatch struct {
	sni            string // as serverName has it
	port           int    // 0: any
	remote, server netip.Prefix
	created        int64
}

// before orders routes that match alike: the one created first, then the lesser
// id, is taken.
func (r *StreamRoute) before(other *StreamRoute) int {
	return cmp.Or(cmp.Compare(r.match.created, other.match.created), cmp.Compare(r.ID, other.ID))
}

func (r *StreamRoute) takes(client, server netip.Addr) bool {
	m := &r.match
	return (!m.remote.IsValid() || m.remote.Contains(client)) && (!m.server.IsValid() || m.server.Contains(server))
}

// A streamTable holds the routes by name and port, in order.
type streamTable = cow.Map[[]*StreamRoute]

type streamTableEdit struct{ cow.Edit[[]*StreamRoute] }

func (m *streamMatch) key() string { return streamKey(m.sni, m.port) }

// serverName is a name without what does not matter: case and a final dot.
func serverName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

func streamKey(sni string, port int) string { return sni + " " + strconv.Itoa(port) }

// replace takes old out and puts new in; either may be nil.
func (t *streamTableEdit) replace(old, new *StreamRoute) {
	if old != nil {
		key := old.match.key()
		list, _ := t.Get(key)
		list = slices.DeleteFunc(slices.Clone(list), func(r *StreamRoute) bool { return r == old })
		if len(list) == 0 {
			t.Del(key)
		} else {
			t.Set(key, list)
		}
	}
	if new != nil {
		key := new.match.key()
		list, _ := t.Get(key)
		at, _ := slices.BinarySearchFunc(list, new, (*StreamRoute).before)
		t.Set(key, slices.Insert(slices.Clone(list), at, new))
	}
}

// MatchStream finds the route of a session, or nil. A name that was asked for by
// TLS is looked for exactly, then as wildcards, the longest first; routes without
// a name serve the rest (apisix-runtime.md §11).
func (s *Snapshot) MatchStream(c *plugin.StreamCtx) *StreamRoute {
	client, err := netip.ParseAddr(c.Client)
	if err != nil {
		client = c.Peer.Addr()
	}
	server := c.Server
	if name := serverName(c.SNI); name != "" {
		if r := s.stream(name, client, server); r != nil {
			return r
		}
		for {
			dot := strings.IndexByte(name, '.')
			if dot < 0 {
				break
			}
			if r := s.stream("*"+name[dot:], client, server); r != nil {
				return r
			}
			name = name[dot+1:]
		}
		if r := s.stream("*", client, server); r != nil {
			return r
		}
	}
	return s.stream("", client, server)
}

// stream is the first route of one name: the routes of the port and those of all
// ports are two lists in the same order.
func (s *Snapshot) stream(sni string, client netip.Addr, server netip.AddrPort) *StreamRoute {
	mine := s.firstStream(streamKey(sni, int(server.Port())), client, server.Addr())
	every := s.firstStream(streamKey(sni, 0), client, server.Addr())
	if mine == nil || every != nil && every.before(mine) < 0 {
		return every
	}
	return mine
}

func (s *Snapshot) firstStream(key string, client, server netip.Addr) *StreamRoute {
	list, _ := s.streamTable.Get(key)
	for _, r := range list {
		if r.takes(client, server) {
			return r
		}
	}
	return nil
}

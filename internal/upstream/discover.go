package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/model"
	"weir/internal/resolve"
)

// A Discovery starts to follow the service that m names.
type Discovery func(m *model.Upstream) (Service, error)

// A Service is followed until Close. The methods may be called by many
// goroutines.
type Service interface {
	// Known returns the nodes at the time now without waiting: the same pointer
	// until they change; nil: they are not known.
	Known(now time.Time) *NodeList
	// Nodes is Known that waits, at most until ctx ends.
	Nodes(ctx context.Context, now time.Time) (*NodeList, error)
	Close()
}

// A NodeList is the nodes of a service at one time. It does not change.
type NodeList struct{ Nodes []model.Node }

// discover follows the service of m.
func (e *Env) discover(m *model.Upstream) (Service, error) {
	if d := e.Discovery[m.DiscoveryType]; d != nil {
		return d(m)
	}
	if m.DiscoveryType == "dns" {
		return absent{"dns"}, nil
	}
	return nil, fmt.Errorf("discovery_type %q: %w", m.DiscoveryType, ErrUnsupported)
}

// Unconfigured is the Discovery of a kind that this gateway's own configuration
// has not: requests fail, the upstream does not.
func Unconfigured(kind string) Discovery {
	return func(*model.Upstream) (Service, error) { return absent{kind}, nil }
}

// absent stands for a service of such a kind.
type absent struct{ kind string }

func (absent) Known(time.Time) *NodeList { return nil }

func (a absent) Nodes(context.Context, time.Time) (*NodeList, error) {
	return nil, errors.New("discovery " + a.kind + " is uninitialized")
}

func (absent) Close() {}

// DNS is discovery by names: a service is a name, perhaps with a port, and its
// nodes are all addresses of the name, with port, weight and priority of SRV
// records.
func DNS(names *resolve.Cache) Discovery {
	return func(m *model.Upstream) (Service, error) {
		host, port := splitService(m.ServiceName)
		return &dnsService{name: names.Use(host), port: port}, nil
	}
}

type dnsService struct {
	name *resolve.Name
	port int // 0: the record's, else the scheme's

	last lastList
}

func (s *dnsService) Known(now time.Time) *NodeList { return s.last.of(s.name.Known(now), s.port) }

func (s *dnsService) Nodes(ctx context.Context, now time.Time) (*NodeList, error) {
	a, err := s.name.Get(ctx, now)
	if err != nil {
		return nil, err
	}
	return s.last.of(a, s.port), nil
}

func (s *dnsService) Close() { s.name.Release() }

// lastList makes one NodeList of each answer.
type lastList struct {
	current atomic.Pointer[answered]
}

type answered struct {
	answer *resolve.Answer
	list   *NodeList
}

func (l *lastList) of(a *resolve.Answer, port int) *NodeList {
	if a == nil {
		return nil
	}
	was := l.current.Load()
	if was != nil && was.answer == a {
		return was.list
	}
	list := new(NodeList)
	for _, r := range a.Records {
		list.Nodes = append(list.Nodes, model.Node{
			Host: r.Addr.String(), Port: cmp.Or(port, r.Port), Weight: r.Weight, Priority: r.Priority,
		})
	}
	if l.current.CompareAndSwap(was, &answered{a, list}) {
		return list
	}
	return l.of(a, port)
}

// splitService splits host and port; 0: there is none.
func splitService(service string) (host string, port int) {
	at := strings.LastIndexByte(service, ':')
	if at < 0 {
		return service, 0
	}
	n, err := strconv.ParseUint(service[at+1:], 10, 16)
	if err != nil {
		return service, 0
	}
	return service[:at], int(n)
}

// findNodes chooses the set of nodes that the request goes to.
func (c *Call) findNodes() error {
	u := c.up
	c.set = u.set.Load()
	if u.service != nil {
		list := u.service.Known(c.started)
		if list == nil {
			var err error
			if list, err = c.awaitNodes(); err != nil {
				return err
			}
		}
		if list != c.set.list {
			c.set = u.replace(list)
		}
	}
	c.counts = u.checking.Load()
	if u.checks != nil && !c.counts && len(c.set.nodes) > 0 {
		u.family.startChecks(u)
	}
	return nil
}

func (c *Call) awaitNodes() (*NodeList, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout.Connect)
	defer cancel()
	c.connecting(cancel)
	list, err := c.up.service.Nodes(ctx, c.started)
	c.connecting(nil)
	switch {
	case err == nil:
		return list, nil
	case c.isAborted():
		return nil, &Error{Kind: Aborted}
	}
	return nil, &Error{Kind: NoNodes, Err: err}
}

// replace makes the nodes of list those of u, and returns them.
func (u *Upstream) replace(list *NodeList) *nodeSet {
	u.mu.Lock()
	old := u.set.Load()
	if u.closed || old.list == list {
		u.mu.Unlock()
		return old
	}
	set := u.newSet(list.Nodes, list)
	u.set.Store(set)
	// After the new ones took theirs: what both have stays.
	old.close()
	u.mu.Unlock()
	u.family.retarget(u)
	return set
}

// refreshTime bounds the wait for names before nodes are checked.
const refreshTime = time.Second

// refresh takes in what names and services stand for at present.
func (u *Upstream) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	if u.service != nil {
		if list, err := u.service.Nodes(ctx, u.now()); err == nil {
			u.replace(list)
		}
	}
	for _, n := range u.set.Load().nodes {
		_, _ = n.resolve(ctx) // a node without addresses is not checked
	}
}

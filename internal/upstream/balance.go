package upstream

import "slices"

// The balancer types of APISIX.
const (
	roundRobinType = "roundrobin"
	chashType      = "chash"
	leastConn      = "least_conn"
	ewma           = "ewma"
)

// A balancer chooses among the nodes of one priority that have a weight.
type balancer interface {
	// pick returns a node that f lets pass; nil: there is none.
	pick(f *filter) *node
}

// newBalancer makes the balancer of u's type; nil: no node can be chosen.
func (u *Upstream) newBalancer(nodes []*node) balancer {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n.weight <= 0 })
	if len(nodes) == 0 {
		return nil
	}
	switch u.kind {
	case roundRobinType:
		return newRoundRobin(nodes, u.env.Start)
	case chashType:
		return newHashRing(nodes)
	case leastConn:
		return &leastConnections{nodes: nodes}
	case ewma:
		return &fastest{nodes: nodes, start: u.env.Start, now: u.env.Now}
	}
	return nil
}

// A filter says which nodes one choice may take.
type filter struct {
	tried   []int32
	healthy bool // only those
	key     uint32
}

func (f *filter) passes(n *node) bool {
	for _, t := range f.tried {
		if t == n.index {
			return false
		}
	}
	return !f.healthy || n.healthy()
}

// pick chooses a node for c; nil: there is none. A single node is taken as it
// is, whatever its weight and health and however often it was tried (APISIX has
// no balancer then).
func (s *nodeSet) pick(c *Call) *node {
	if len(s.nodes) == 1 {
		n := s.nodes[0]
		if n.load != nil {
			n.load.active.Add(1)
		}
		return n
	}
	f := &c.filter
	f.tried, f.healthy = c.tried, c.up.checks != nil
	if n := s.first(f); n != nil {
		if s.down.Load() {
			s.down.Store(false)
		}
		return n
	}
	if !f.healthy || s.anyHealthy() {
		return nil
	}
	if n := s.spare(f); n != nil {
		return n
	}
	if !s.down.Swap(true) {
		c.up.env.Log.Warn("all upstream nodes is unhealthy, use default", "upstream", c.up.name())
	}
	f.healthy = false
	return s.first(f)
}

func (s *nodeSet) first(f *filter) *node {
	for _, g := range s.groups {
		if n := g.pick(f); n != nil {
			return n
		}
	}
	return nil
}

// spare is a healthy node of weight 0, which is still better than one that is
// known not to work.
func (s *nodeSet) spare(f *filter) *node {
	for _, n := range s.nodes {
		if n.weight <= 0 && f.passes(n) {
			if n.load != nil {
				n.load.active.Add(1)
			}
			return n
		}
	}
	return nil
}

func (s *nodeSet) anyHealthy() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.weight > 0 && n.healthy() })
}

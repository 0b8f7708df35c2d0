package upstream

// Nodes are the addresses of u, host:port, as configured.
func (u *Upstream) Nodes() []string {
	addrs := make([]string, len(u.nodes))
	for i, n := range u.nodes {
		addrs[i] = n.addr
	}
	return addrs
}

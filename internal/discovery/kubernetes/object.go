package kubernetes

import (
	"slices"
	"strconv"

	"weir/internal/discovery"
)

// An object is Endpoints or an EndpointSlice (discovery.k8s.io/v1).
type object struct {
	Metadata metadata `json:"metadata"`

	// Of Endpoints.
	Subsets []struct {
		Addresses []struct {
			IP string `json:"ip"`
		} `json:"addresses"`
		Ports []port `json:"ports"`
	} `json:"subsets"`

	// Of an EndpointSlice.
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready *bool `json:"ready"` // nil: true, as the API has it
		} `json:"conditions"`
	} `json:"endpoints"`
	Ports []port `json:"ports"`
}

type port struct {
	Name string `json:"name"`
	Port int    `json:"port"`
}

// is reports whether want, a name or a number, means p.
func (p port) is(want string) bool { return p.Name == want || strconv.Itoa(p.Port) == want }

// nodes are the ready endpoints at the wanted port.
func (o *object) nodes(want string, weight int) []discovery.Node {
	var nodes []discovery.Node
	for _, s := range o.Subsets {
		for _, p := range s.Ports {
			if !p.is(want) {
				continue
			}
			for _, a := range s.Addresses {
				nodes = append(nodes, discovery.Node{Host: a.IP, Port: p.Port, Weight: weight})
			}
		}
	}
	for _, p := range o.Ports {
		if !p.is(want) {
			continue
		}
		for _, e := range o.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				nodes = append(nodes, discovery.Node{Host: a, Port: p.Port, Weight: weight})
			}
		}
	}
	return nodes
}

// distinct is the sorted nodes, each once.
func distinct(nodes []discovery.Node) []discovery.Node {
	slices.SortFunc(nodes, discovery.Compare)
	return slices.CompactFunc(nodes, func(a, b discovery.Node) bool { return a.Host == b.Host && a.Port == b.Port })
}

package apicast

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Standalone is a document of the policy standalone (apicast.md §6.5): services
// that requests reach by routes, not by hosts.
type Standalone struct {
	Listen  []Listen
	Entries []*Entry // products; see InternalID and ExternalID
	Routes  Routes
	Unused  []string // members that change nothing
}

// A Listen is a port of the document.
type Listen struct {
	Port             int
	Name             string
	ProxyProtocol    bool
	TLS              bool
	Certificate, Key string // files
}

// InternalID and ExternalID are the ids of the products of a document's services
// and upstreams.
func InternalID(name string) string { return "internal/" + name }
func ExternalID(name string) string { return "external/" + name }

// NotFound is the service that answers where no route matches.
const NotFound = "not_found"

// Routes are tried in order; the first that matches wins.
type Routes []Route

// A Route leads to a product. Its own routes refine it.
type Route struct {
	match  []condition
	id     string
	routes Routes
}

// A condition is one of a route.
type condition struct {
	name, value string
	ports       []int // of server_port
	always      bool
}

// A Request is what routes look at.
type Request struct {
	Method, Host, Path string // the host without a port, in lower case
	Port               int    // of the listener
}

// Find is the id of the product that a request goes to.
func (rs Routes) Find(r *Request) string {
	if id, ok := rs.find(r); ok {
		return id
	}
	return InternalID(NotFound)
}

func (rs Routes) find(r *Request) (string, bool) {
	for i := range rs {
		if !rs[i].matches(r) {
			continue
		}
		if id, ok := rs[i].routes.find(r); ok {
			return id, true
		}
		return rs[i].id, true
	}
	return "", false
}

func (rt *Route) matches(r *Request) bool {
	for i := range rt.match {
		if !rt.match[i].holds(r) {
			return false
		}
	}
	return true
}

func (c *condition) holds(r *Request) bool {
	switch c.name {
	case "server_port":
		for _, p := range c.ports {
			if p == r.Port {
				return true
			}
		}
		return false
	case "uri_path":
		return r.Path == c.value
	case "http_method":
		return r.Method == c.value
	case "http_host":
		return r.Host == c.value
	}
	return c.always
}

type standaloneDoc struct {
	Global table `json:"global"`
	Server struct {
		Listen []listenDoc `json:"listen"`
	} `json:"server"`
	Routes   []routeDoc    `json:"routes"`
	Internal []internalDoc `json:"internal"`
	External []externalDoc `json:"external"`
}

type listenDoc struct {
	Port  whole `json:"port"`
	Name  text  `json:"name"`
	Proxy bool  `json:"proxy_protocol"`
	TLS   *struct {
		Certificate text `json:"certificate"`
		Key         text `json:"certificate_key"`
	} `json:"tls"`
}

type routeDoc struct {
	Name        text  `json:"name"`
	Match       table `json:"match"`
	Destination *struct {
		Service  text            `json:"service"`
		Upstream text            `json:"upstream"`
		Response json.RawMessage `json:"http_response"`
	} `json:"destination"`
	Routes []routeDoc `json:"routes"`
}

type internalDoc struct {
	Name     text `json:"name"`
	Upstream text `json:"upstream"`
	Chain    []struct {
		Policy        text            `json:"policy"`
		Version       text            `json:"version"`
		Configuration json.RawMessage `json:"configuration"`
	} `json:"policy_chain"`
}

type externalDoc struct {
	Name   text `json:"name"`
	Server text `json:"server"`
}

// ReadStandalone reads the JSON form of a document.
func ReadStandalone(raw []byte) (*Standalone, error) {
	var d standaloneDoc
	if err := Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	s := &Standalone{}
	for name := range d.Global {
		s.Unused = append(s.Unused, "global."+name)
	}
	ports := map[string][]int{}
	for i, l := range d.Server.Listen {
		if l.Port < 1 || l.Port > 65535 {
			return nil, fmt.Errorf("server.listen[%d].port: %d is not a port", i, l.Port)
		}
		out := Listen{Port: int(l.Port), Name: string(l.Name), ProxyProtocol: l.Proxy}
		if out.Name == "" {
			out.Name = "default"
		}
		if l.TLS != nil {
			out.TLS, out.Certificate, out.Key = true, string(l.TLS.Certificate), string(l.TLS.Key)
		}
		s.Listen = append(s.Listen, out)
		ports[out.Name] = append(ports[out.Name], out.Port)
	}
	if err := s.services(&d); err != nil {
		return nil, err
	}
	var err error
	s.Routes, err = s.routes(d.Routes, ports, "routes")
	return s, err
}

// services makes products of the document's services and upstreams.
func (s *Standalone) services(d *standaloneDoc) error {
	seen := map[string]bool{}
	for i, in := range d.Internal {
		chain := []json.RawMessage{}
		for j, p := range in.Chain {
			if p.Policy == "" {
				return fmt.Errorf("internal[%d].policy_chain[%d] has no policy", i, j)
			}
			chain = append(chain, element(string(p.Policy), string(p.Version), p.Configuration))
		}
		id := InternalID(string(in.Name))
		if in.Name == "" || seen[id] {
			return fmt.Errorf("internal[%d] has no name of its own", i)
		}
		seen[id] = true
		s.add(id, string(in.Name), string(in.Upstream), chain)
	}
	for i, ex := range d.External {
		id := ExternalID(string(ex.Name))
		if ex.Name == "" || seen[id] {
			return fmt.Errorf("external[%d] has no name of its own", i)
		}
		seen[id] = true
		s.add(id, string(ex.Name), string(ex.Server), nil)
	}
	if !seen[InternalID(NotFound)] {
		s.add(InternalID(NotFound), NotFound, "", []json.RawMessage{element("echo", "", json.RawMessage(`{"status":404}`))})
	}
	return nil
}

// element is one of a policy chain.
func element(name, version string, configuration json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(struct {
		Name          string          `json:"name"`
		Version       string          `json:"version,omitempty"`
		Configuration json.RawMessage `json:"configuration,omitempty"`
	}{name, version, configuration})
	if err != nil {
		panic(err) // texts, and what was JSON
	}
	return raw
}

// add adds a product: a chain, and where what it does not answer goes.
func (s *Standalone) add(id, name, upstream string, chain []json.RawMessage) {
	chain = append(chain, element("standalone", "", json.RawMessage(`{"proxy":true}`)))
	type proxy struct {
		Hosts    []string          `json:"hosts"`
		Upstream string            `json:"api_backend,omitempty"`
		Chain    []json.RawMessage `json:"policy_chain"`
	}
	raw, err := json.Marshal(struct {
		ID    string `json:"id"`
		Name  string `json:"system_name"`
		Proxy proxy  `json:"proxy"`
	}{id, name, proxy{[]string{}, upstream, chain}})
	if err != nil {
		panic(err) // texts, and what was JSON
	}
	s.Entries = append(s.Entries, newEntry(id, raw))
}

func (s *Standalone) routes(docs []routeDoc, ports map[string][]int, at string) (Routes, error) {
	var out Routes
	for i, d := range docs {
		at := fmt.Sprintf("%s[%d]", at, i)
		if d.Destination == nil {
			return nil, errors.New(at + ": route is missing destination")
		}
		r := Route{id: InternalID(NotFound)}
		switch {
		case d.Destination.Service != "":
			r.id = InternalID(string(d.Destination.Service))
		case d.Destination.Upstream != "":
			r.id = ExternalID(string(d.Destination.Upstream))
		}
		if !s.has(r.id) {
			r.id = InternalID(NotFound)
		}
		for name, raw := range d.Match {
			var value text
			if err := worded(value.UnmarshalJSON(raw)); err != nil {
				return nil, fmt.Errorf("%s.match.%s: %w", at, name, err)
			}
			r.match = append(r.match, newCondition(name, string(value), ports))
		}
		var err error
		if r.routes, err = s.routes(d.Routes, ports, at+".routes"); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (s *Standalone) has(id string) bool {
	for _, e := range s.Entries {
		if e.ID == id {
			return true
		}
	}
	return false
}

// newCondition is a condition of a route; one of another name never holds.
func newCondition(name, value string, ports map[string][]int) condition {
	c := condition{name: name, value: value}
	switch name {
	case "server_port":
		c.ports = ports[value]
		if n, err := strconv.Atoi(value); err == nil {
			c.ports = append(c.ports[:len(c.ports):len(c.ports)], n)
		}
	case "http_host":
		c.value = strings.ToLower(value)
	case "always":
		c.always = value != "" && value != "false"
	}
	return c
}

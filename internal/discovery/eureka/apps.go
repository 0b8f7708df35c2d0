package eureka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"weir/internal/discovery"
)

// registry is Eureka's answer to GET /apps.
type registry struct {
	Applications *struct {
		Application oneOrMore[application] `json:"application"`
	} `json:"applications"`
}

// An application is read only if it is in use.
type application struct {
	Name     string          `json:"name"`
	Instance json.RawMessage `json:"instance"`
}

// oneOrMore is a list, which some versions of Eureka write without brackets if it
// has one element.
type oneOrMore[T any] []T

func (l *oneOrMore[T]) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*l = make([]T, 1)
		return json.Unmarshal(b, &(*l)[0])
	}
	return json.Unmarshal(b, (*[]T)(l))
}

type instance struct {
	IPAddr           string                     `json:"ipAddr"`
	Status           string                     `json:"status"`
	Overridden       string                     `json:"overriddenstatus"`
	OverriddenStatus string                     `json:"overriddenStatus"`
	Port             port                       `json:"port"`
	SecurePort       port                       `json:"securePort"`
	Metadata         map[string]json.RawMessage `json:"metadata"`
}

// up reports whether the instance takes requests: an operator's word comes
// before its own.
func (i *instance) up() bool {
	for _, overridden := range []string{i.Overridden, i.OverriddenStatus} {
		if overridden != "" && overridden != "UNKNOWN" {
			return overridden == "UP"
		}
	}
	return i.Status == "UP"
}

// A port is a number and whether it is in use; both may be written as texts.
type port struct {
	Number  json.RawMessage `json:"$"`
	Enabled json.RawMessage `json:"@enabled"`
}

// number is the port; 0: it is not in use.
func (p *port) number() int {
	if text(p.Enabled) != "true" {
		return 0
	}
	n, _ := strconv.Atoi(text(p.Number)) // what is no number is no port
	return n
}

// text is a JSON string, or any other value as it is written.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// A finding is what the answer says of one application.
type finding struct {
	nodes []discovery.Node
	err   error
}

// find looks the applications that are followed up in r. One that cannot be read
// does not keep the others out.
func (b *reader) find(r *registry, feeds map[*discovery.Feed]string) map[string]*finding {
	found := make(map[string]*finding, len(feeds))
	for _, app := range feeds {
		found[app] = new(finding)
	}
	for _, app := range r.Applications.Application {
		f := found[strings.ToUpper(app.Name)]
		if f == nil || len(app.Instance) == 0 {
			continue
		}
		var instances oneOrMore[instance]
		if err := json.Unmarshal(app.Instance, &instances); err != nil {
			f.err = fmt.Errorf("application %s: %w", app.Name, err)
			continue
		}
		for _, i := range instances {
			if n, ok := b.node(&i); ok {
				f.nodes = append(f.nodes, n)
			}
		}
	}
	return found
}

// node is the node of an instance; false: it takes no requests.
func (b *reader) node(i *instance) (discovery.Node, bool) {
	n := discovery.Node{Host: i.IPAddr, Port: i.Port.number(), Weight: b.weight}
	if p := i.SecurePort.number(); p != 0 {
		n.Port = p
	}
	if n.Port == 0 || !i.up() {
		return n, false
	}
	if w, ok := i.Metadata["weight"]; ok {
		if weight, err := strconv.Atoi(text(w)); err == nil {
			n.Weight = weight
		} else {
			b.env.Log.Warn("the weight of an instance is not a whole number", "discovery", kind, "host", n.Host, "weight", text(w))
		}
		delete(i.Metadata, "weight")
	}
	if len(i.Metadata) > 0 {
		if raw, err := json.Marshal(i.Metadata); err == nil && !bytes.Equal(raw, []byte("{}")) {
			n.Metadata = raw
		}
	}
	return n, true
}

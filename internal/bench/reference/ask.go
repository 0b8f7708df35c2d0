package reference

import (
	"fmt"
	"maps"
	"strings"
)

// A Question is what a gateway is asked.
type Question struct {
	// Object is the key of what the question is about: a route is sent a request, to
	// the name of an ssl a request to Route is sent by TLS, to the port of a stream
	// route a connection is made.
	Object string
	Stored bool // the Admin API is asked instead whether the object is stored

	Route, APIKey string // of the request, if there is one
}

func (q Question) String() string {
	what := q.Object
	if q.Stored {
		return "stored " + what
	}
	if q.Route != what {
		what += " " + q.Route
	}
	return fmt.Sprintf("%s with key %q", what, q.APIKey)
}

// An Answer is what a question must get. Status 0 is none: there is no certificate, or
// the connection is closed. Of one that is not 200 only the status and the certificate
// are told.
type Answer struct {
	Status      int
	Node        int
	Mark        string
	Globals     map[string]string // headers of global rules, by name
	Limit       string            // header in which limit-count tells the limit; empty: no limit is asked of the route
	Certificate int               // that the gateway has shown
	Field       string            // name of the member of a call's answer; empty: it was no call
}

// Equal compares two answers.
func (a Answer) Equal(b Answer) bool {
	if a.Status != b.Status || a.Certificate != b.Certificate {
		return false
	}
	return a.Status != 200 || a.Node == b.Node && a.Mark == b.Mark && a.Limit == b.Limit && a.Field == b.Field && maps.Equal(a.Globals, b.Globals)
}

func (a Answer) String() string {
	if a.Status != 200 {
		return fmt.Sprintf("%d certificate %d", a.Status, a.Certificate)
	}
	return fmt.Sprintf("200 certificate %d node %d mark %q limit %q field %q globals %v", a.Certificate, a.Node, a.Mark, a.Limit, a.Field, a.Globals)
}

// Ask is what a question must be answered with.
func (w World) Ask(q Question) Answer {
	switch dir, _, _ := strings.Cut(q.Object, "/"); {
	case q.Stored && w[q.Object].Stored:
		return Answer{Status: 200}
	case q.Stored:
		return Answer{Status: 404}
	case dir == "ssls":
		certificate := w.certificate(q.Object)
		if certificate == 0 {
			return Answer{}
		}
		a := w.request(q.Route, q.APIKey)
		a.Certificate = certificate
		return a
	case dir == "stream_routes":
		return w.stream(q.Object)
	}
	return w.request(q.Route, q.APIKey)
}

// request is what a request to the path of a route, with an API key or without, must
// be answered with.
func (w World) request(route, key string) Answer {
	o, there := w[route]
	switch {
	case !there:
		return Answer{Status: 404}
	case o.Shut:
		return Answer{Status: 503}
	case o.Good == nil || o.Good.Disabled:
		return Answer{Status: 404}
	}
	if route == LimitRoute && w.unlimited() {
		return Answer{Status: 503} // it may be a guard that it lacks
	}
	// From what prevails least to what prevails most.
	layers := []*Doc{w.Good(o.Good.Service), w.Good(o.Good.PluginConfig), o.Good}
	guarded := false
	for _, d := range layers {
		guarded = guarded || d != nil && d.Guard
	}
	if guarded {
		consumer := w.consumer(key)
		if consumer == nil {
			return Answer{Status: 401}
		}
		layers = append(layers, w.Good(consumer.Group), consumer)
	}
	a := Answer{Status: 200, Node: w.node(o.Good), Globals: w.globals()}
	for _, d := range layers {
		if d != nil && d.Mark != "" {
			a.Mark = d.Mark
		}
	}
	if o.Good.Proto != "" {
		described := w.Good(o.Good.Proto)
		if described == nil {
			return Answer{Status: 503}
		}
		a.Field = described.Field
	}
	if route == LimitRoute {
		a.Limit = DefaultLimitHeader
		if d := w.Good(LimitMetadata); d != nil {
			a.Limit = d.Header
		}
	}
	return a
}

func (w World) unlimited() bool {
	d := w.Good(PluginList)
	return d != nil && d.Unlimited
}

// certificate is the one for the name of an ssl: its own, or that for all names; 0:
// there is none.
func (w World) certificate(ssl string) int {
	for _, key := range []string{ssl, AnySSL} {
		if d := w.Good(key); d != nil && !d.Disabled {
			return d.Certificate
		}
	}
	return 0
}

// stream is what a connection to the port of a stream route gets.
func (w World) stream(route string) Answer {
	d := w.Good(route)
	if d == nil || d.Refuses || w[route].Shut {
		return Answer{}
	}
	if node := w.node(d); node != 0 {
		return Answer{Status: 200, Node: node}
	}
	return Answer{}
}

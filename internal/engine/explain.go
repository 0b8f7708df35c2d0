package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/snapshot"
	"weir/internal/threescale"
	"weir/internal/wire"
)

// A Question is a request that is to be explained, not served.
type Question struct {
	Method   string      `json:"method"`
	Target   string      `json:"target"` // path and query
	Host     string      `json:"host"`
	Header   [][2]string `json:"header,omitempty"`
	Body     string      `json:"body,omitempty"`
	Scheme   string      `json:"scheme,omitempty"`   // http, https; empty: http
	Client   string      `json:"client,omitempty"`   // address; empty: 127.0.0.1
	Consumer string      `json:"consumer,omitempty"` // a consumer by name
	Key      string      `json:"key,omitempty"`      // or by what it shows to the route's authentication
	Product  bool        `json:"product,omitempty"`  // it comes to the listeners of 3scale products, not of routes
}

// An Explanation says what a request would meet. No plugin runs for it and
// nothing changes.
type Explanation struct {
	Revision   int64       `json:"revision"`
	Request    Asked       `json:"request"`
	Candidates []Candidate `json:"candidates"`
	More       bool        `json:"more_candidates,omitempty"` // there are more than are shown

	// LeftOut are routes that suit the request and that no request meets.
	LeftOut     []Candidate `json:"left_out,omitempty"`
	MoreLeftOut bool        `json:"more_left_out,omitempty"`

	Route        *Named `json:"route,omitempty"`
	Product      *Named `json:"product,omitempty"`
	MatchedPath  string `json:"matched_path,omitempty"`
	MatchedHost  string `json:"matched_host,omitempty"`
	Service      *Named `json:"service,omitempty"`
	PluginConfig string `json:"plugin_config,omitempty"`
	Consumer     string `json:"consumer,omitempty"`
	Credential   string `json:"credential,omitempty"`
	Group        string `json:"consumer_group,omitempty"`

	// Status, if not 0, answers the request without a plan, because of Reason.
	Status int      `json:"status,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what else is to be known of the answer

	Rules    []string        `json:"mapping_rules,omitempty"` // that a product's request matches
	Plugins  []Configuration `json:"plugins"`
	Calls    []Call          `json:"calls"`
	Upstream *Destination    `json:"upstream,omitempty"`
}

// Asked is the request as the gateway sees it.
type Asked struct {
	Method string `json:"method"`
	Host   string `json:"host"`
	Path   string `json:"path"` // normalised
	Query  string `json:"query,omitempty"`
	Client string `json:"client"`
}

// Named is an object.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// A Candidate is a route whose host and beginning of the path suit the request.
type Candidate struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Path   string `json:"path"`
	Host   string `json:"host,omitempty"`
	Why    string `json:"why,omitempty"` // it is not the one
	Chosen bool   `json:"chosen,omitempty"`
}

// A Configuration is one plugin's, and where it comes from.
type Configuration struct {
	Plugin   string          `json:"plugin"`
	From     string          `json:"from"` // object that carries it
	Priority int             `json:"priority"`
	Replaced bool            `json:"replaced,omitempty"` // it does not run: a plan that counts more has the plugin
	Config   json.RawMessage `json:"config"`
}

// A Call is one function that runs.
type Call struct {
	Phase  string `json:"phase"`
	Plugin string `json:"plugin"`
	From   string `json:"from"`
}

// A Destination is where the request goes if no plugin chooses otherwise.
type Destination struct {
	From    string   `json:"from"` // object that carries it
	Scheme  string   `json:"scheme,omitempty"`
	Type    string   `json:"type,omitempty"` // of the balancer
	Nodes   []string `json:"nodes"`
	Connect string   `json:"connect_timeout"`
	Send    string   `json:"send_timeout"`
	Read    string   `json:"read_timeout"`
	Retries int      `json:"retries"` // further tries after the first
}

// maxCandidates bounds an explanation, each of its lists of routes.
const maxCandidates = 100

var (
	errTarget   = errors.New("the target has to begin with a slash")
	errTwoNames = errors.New("consumer and key: one of them says who asks")
)

// Explain says what the request would meet in the current state. An error says
// what is wrong with the question, or that ctx was over before there was an answer.
func (e *Engine) Explain(ctx context.Context, q Question) (*Explanation, error) {
	if !strings.HasPrefix(q.Target, "/") {
		return nil, errTarget
	}
	if q.Consumer != "" && q.Key != "" {
		return nil, errTwoNames
	}
	x := new(exchange)
	x.init(e, nil, upload{})
	defer x.close()
	if err := x.ask(q); err != nil {
		return nil, err
	}
	snap := x.pin.Take()
	defer x.pin.Drop()
	x.ctx.Index = snap
	x.identify()
	out := &Explanation{Revision: snap.Revision, Candidates: []Candidate{}, Plugins: []Configuration{}, Calls: []Call{}}
	fits := x.readPath()
	out.Request = Asked{x.request.Method, x.request.Host, strings.Clone(x.ctx.Path), strings.Clone(x.ctx.RawQuery()), strings.Clone(x.ctx.Client)}
	switch {
	case !fits:
		out.refuse(400, "the path is malformed")
	case e.Products:
		x.explainProduct(snap, out)
	default:
		x.explainRoute(ctx, snap, q, out)
	}
	return out, ctx.Err()
}

// ask makes the question the exchange's request.
func (x *exchange) ask(q Question) error {
	client := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if q.Client != "" {
		var err error
		if client, err = netip.ParseAddr(q.Client); err != nil {
			return fmt.Errorf("client %q is no IP address", q.Client)
		}
	}
	if strings.ContainsFunc(q.Method, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("method %q is none", q.Method)
	}
	r := &x.request
	r.Method, r.Target, r.Host, r.Proto = q.Method, q.Target, q.Host, wire.HTTP11
	if r.Method == "" {
		r.Method = "GET"
	}
	for _, f := range q.Header {
		r.Header.Add(f[0], f[1])
	}
	x.begin(time.Now())
	x.buffered, x.whole = []byte(q.Body), true
	x.peer, x.ctx.Peer, x.ctx.Scheme = client.String(), netip.AddrPortFrom(client, 0), "http"
	if q.Scheme != "" {
		x.ctx.Scheme = q.Scheme
	}
	return nil
}

func (out *Explanation) note(text string) { out.Notes = append(out.Notes, text) }

func (out *Explanation) refuse(status int, reason string) { out.Status, out.Reason = status, reason }

func (x *exchange) explainRoute(ctx context.Context, snap *snapshot.Snapshot, q Question, out *Explanation) {
	snap.Candidates(&x.ctx, func(c snapshot.Candidate) bool {
		if ctx.Err() != nil {
			return false
		}
		if len(out.Candidates) >= maxCandidates && c.Why != "" {
			out.More = true
			return true
		}
		out.Candidates = append(out.Candidates, Candidate{c.ID, c.Name, c.Path, c.Host, c.Why, c.Why == ""})
		return true
	})
	snap.LeftOut(ctx, &x.ctx, func(c snapshot.Candidate) bool {
		if out.MoreLeftOut = len(out.LeftOut) == maxCandidates; out.MoreLeftOut {
			return false
		}
		out.LeftOut = append(out.LeftOut, Candidate{c.ID, c.Name, c.Path, c.Host, c.Why, false})
		return true
	})
	if ctx.Err() != nil {
		return
	}
	global, open := snap.Global()
	if !open {
		out.refuse(503, "a global rule that may guard something does not run")
		return
	}
	x.run.Global = global
	reach := plan.ToUpstream
	if x.route = snap.Match(&x.ctx); x.route == nil {
		out.refuse(404, "no route matches")
	} else {
		reach = x.explainParts(snap, q, out)
	}
	x.explainPlan(snap, out, reach)
}

// explainParts tells what the route is made of, and how far a request comes.
func (x *exchange) explainParts(snap *snapshot.Snapshot, q Question, out *Explanation) plan.Reach {
	r := x.route
	out.Route = &Named{r.ID, r.Name}
	out.MatchedPath, out.MatchedHost = x.ctx.MatchedPath, x.ctx.MatchedHost
	service, pluginConfig := snap.Parts(r.ID)
	if service != "" {
		out.Service = &Named{service, r.ServiceName}
	}
	out.PluginConfig = pluginConfig
	if r.Fault != 0 {
		out.refuse(r.Fault, "the route, or what it refers to, does not run as configured: see GET /v1/status")
		return plan.Nowhere
	}
	x.run.Route = r.Plan
	who := x.caller(snap, q)
	switch {
	case who == nil && q.Consumer != "":
		out.note("there is no such consumer: the request is explained without one")
	case who == nil && q.Key != "":
		out.note("no consumer has this key for a plugin that runs here: the request is explained without one")
	case who == nil && slices.ContainsFunc(x.steps(), snap.Authenticates):
		out.note("the request is explained without a consumer: a consumer or a key says who is authenticated")
	}
	if who != nil {
		x.ctx.Consumer = who
		out.Consumer, out.Credential, out.Group = who.Name, who.CredentialID, who.GroupID
		if fault := snap.Attach(&x.run, who); fault != 0 {
			out.refuse(fault, "the consumer's group does not exist or does not run")
			return plan.ToConsumer
		}
	}
	if out.Upstream = x.destination(snap); out.Upstream == nil {
		out.note("there is no upstream: a plugin has to answer or to choose one")
		return plan.ToUpstream
	}
	return plan.ThroughHere
}

// caller is the consumer that the question names, or that holds its key for one
// of the plugins that authenticate.
func (x *exchange) caller(snap *snapshot.Snapshot, q Question) *plugin.Consumer {
	if q.Consumer != "" {
		return snap.Named(q.Consumer)
	}
	if q.Key == "" {
		return nil
	}
	for _, step := range x.steps() {
		if who := snap.Holder(step, q.Key); who != nil {
			return who
		}
	}
	return nil
}

// steps are those of the global rules and the route.
func (x *exchange) steps() (all []*plan.Step) {
	for _, p := range []*plan.Plan{x.run.Global, x.run.Route} {
		if p != nil {
			all = append(all, p.Steps()...)
		}
	}
	return all
}

// destination is where the route sends requests.
func (x *exchange) destination(snap *snapshot.Snapshot) *Destination {
	u, fault := snap.Upstream(x.route, "")
	if fault != 0 {
		return nil
	}
	return destinationOf(snap.UpstreamOwner(x.route), u, x.route)
}

func destinationOf(owner string, u *snapshot.Upstream, r *snapshot.Route) *Destination {
	s := u.Summary(r.Timeout)
	return &Destination{
		From: owner, Scheme: s.Scheme, Type: s.Type, Nodes: u.Nodes(), Retries: s.Retries,
		Connect: s.Timeout.Connect.String(), Send: s.Timeout.Send.String(), Read: s.Timeout.Read.String(),
	}
}

// explainProduct does the same for a 3scale product.
func (x *exchange) explainProduct(snap *snapshot.Snapshot, out *Explanation) {
	x.route = snap.MatchProduct(&x.ctx)
	if x.route == nil {
		out.refuse(404, "no product has the host")
		return
	}
	out.Product = &Named{x.route.ID, x.route.Name}
	if x.route.Fault != 0 {
		out.refuse(x.route.Fault, "the product does not run as configured: see GET /v1/status")
		return
	}
	x.run.Route = x.route.Plan
	out.Rules = rulesOf(x.route.Product, &x.ctx)
	if u := x.route.Product.Upstream; u != nil {
		out.Upstream = &Destination{From: "products/" + x.route.ID, Scheme: u.Scheme, Nodes: []string{u.Header}}
	}
	x.explainPlan(snap, out, plan.ThroughHere)
}

func rulesOf(p *threescale.Product, c *plugin.Ctx) (rules []string) {
	query := c.RawQuery()
	argument := func(name string) (string, bool) { return threescale.LastArgument(query, name) }
	path := threescale.EscapePath(c.Path)
	for _, r := range p.Rules {
		if r.Matches(c.Request.Method, path, argument) {
			rules = append(rules, r.Method+" "+r.Pattern)
			if r.Last {
				break
			}
		}
	}
	return rules
}

// explainPlan tells which functions run.
func (x *exchange) explainPlan(snap *snapshot.Snapshot, out *Explanation, reach plan.Reach) {
	replaced := x.run.Replaced()
	for _, p := range x.run.Plans() {
		if p == nil {
			continue
		}
		for _, s := range p.Steps() {
			out.Plugins = append(out.Plugins, Configuration{
				s.Plugin, s.Owner, s.Priority, slices.Contains(replaced, s), snap.Configuration(s, x.engine.Products),
			})
		}
	}
	for _, c := range x.run.Calls(reach) {
		out.Calls = append(out.Calls, Call{c.Phase, c.Plugin, c.Owner})
	}
}

package snapshot

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/router"
)

// A Candidate is a route that a request could have matched by the beginning of
// its path and its host.
type Candidate struct {
	ID   string
	Name string
	Path string // the pattern
	Host string // the pattern; empty: none
	Why  string // it is not the one; empty: it is
}

// Candidates visits the candidates for c in the order in which Match asks them,
// up to the route that it finds, or until visit returns false.
func (s *Snapshot) Candidates(c *plugin.Ctx, visit func(Candidate) bool) {
	q := router.Request{Method: c.Request.Method, Host: c.Request.Host, Path: c.PathToMatch()}
	s.router.Explain(q, c, func(m router.Candidate[*Route]) bool {
		r := m.Route
		return visit(Candidate{ID: r.ID, Name: r.Value.Name, Path: m.Path, Host: m.Host, Why: s.why(m, c)})
	})
}

func (s *Snapshot) why(m router.Candidate[*Route], c *plugin.Ctx) string {
	switch m.Reason {
	case router.Method:
		return "the method is not among its methods"
	case router.Host:
		return "the host is not among its hosts"
	case router.Path:
		return "the rest of the path is not as the pattern says"
	case router.Predicate:
		e, ok := s.routes.Get(m.Route.ID)
		if !ok || e.good == nil {
			return "its vars or remote_addrs do not hold"
		}
		if from := remoteAddrs(e.good.RemoteAddrs); from != nil && !from(c) {
			return "the client's address is not in its remote_addrs"
		}
		return "its vars do not hold"
	}
	return ""
}

// LeftOut visits the stored routes that suit c, by host, path, method and predicate,
// and that no request meets, until visit returns false or ctx is over. Their
// predicates are compiled for it.
func (s *Snapshot) LeftOut(ctx context.Context, c *plugin.Ctx, visit func(Candidate) bool) {
	left := map[string]*routeEntry{}
	out := s.router.Like().Edit()
	for id, e := range s.routes.All() {
		if ctx.Err() != nil {
			return
		}
		if e.running == nil && e.doc != nil {
			if r := s.outline(e.doc); s.with.narrow(e.doc, r.Hosts) == nil {
				left[id] = e
				out.Insert(r)
			}
		}
	}
	r := out.Router()
	q := router.Request{Method: c.Request.Method, Host: c.Request.Host, Path: c.PathToMatch()}
	r.Explain(q, c, func(m router.Candidate[*Route]) bool {
		if ctx.Err() != nil {
			return false
		}
		e := left[m.Route.ID]
		if e == nil || m.Reason != router.Predicate {
			return true
		}
		delete(left, e.ID) // it may have more paths that suit
		why := "it does not run as it is stored: see GET /v1/status"
		if e.doc.Disabled {
			why = "it is disabled (status 0)"
		}
		match, err := predicate(e.doc)
		if err == nil && match != nil && !match(c) {
			return true
		}
		return visit(Candidate{ID: e.ID, Name: e.doc.Name, Path: m.Path, Host: m.Host, Why: why})
	})
}

// outline is what a router needs to find the place of a route. It matches nothing.
func (s *Snapshot) outline(doc *model.Route) *router.Route[*Route] {
	service, _ := s.services.Get(doc.ServiceID)
	return &router.Route[*Route]{
		ID: doc.ID, Paths: doc.Paths, Hosts: hostsOf(doc, service), Methods: doc.Methods, Priority: doc.Priority,
		Match: func(*plugin.Ctx) bool { return false },
	}
}

// Holder is the consumer that shows key to the plugin of a step, or to one that the
// step contains (multi-auth); nil: nobody does.
func (s *Snapshot) Holder(step *plan.Step, key string) *plugin.Consumer {
	if who := s.Find(step.Plugin, key); who != nil || !s.Authenticates(step) {
		return who
	}
	conf, err := document.Parse(step.Conf)
	if err != nil {
		return nil
	}
	var who *plugin.Consumer
	contained(conf, func(name string) bool {
		if s.with.all[name].Type == "auth" {
			who = s.Find(name, key)
		}
		return who == nil
	})
	return who
}

// Authenticates says that a step's plugin makes a request a consumer's.
func (s *Snapshot) Authenticates(step *plan.Step) bool { return s.with.all[step.Plugin].Type == "auth" }

// contained visits the names of all members below v, until visit returns false.
func contained(v *document.Value, visit func(string) bool) bool {
	for _, item := range v.Items {
		if !contained(item, visit) {
			return false
		}
	}
	for _, m := range v.Members {
		if !visit(m.Name) || !contained(m.Value, visit) {
			return false
		}
	}
	return true
}

// Parts are the objects that a route was compiled of; empty: none of that kind.
func (s *Snapshot) Parts(id string) (service, pluginConfig string) {
	e, ok := s.routes.Get(id)
	if !ok || e.good == nil {
		return "", ""
	}
	return e.good.ServiceID, e.good.PluginConfigID
}

// UpstreamOwner is the object that holds the upstream of a route, by its path;
// empty: it has none.
func (s *Snapshot) UpstreamOwner(r *Route) string {
	switch e, ok := s.routes.Get(r.ID); {
	case r.UpstreamID != "":
		return model.Key{Kind: model.KindUpstream, ID: r.UpstreamID}.String()
	case r.Upstream == nil:
		return ""
	case ok && e.good != nil && e.good.Upstream != nil:
		return e.Key.String()
	default:
		return model.Key{Kind: model.KindService, ID: r.ServiceID}.String()
	}
}

// Hidden stands for a secret.
const Hidden = "(hidden)"

// secretName are names of members that hold secrets, whether or not a schema says
// so.
var secretName = regexp.MustCompile(`(?i)(passw|secret|token|authorization|cookie|private_key|access_key|api[-_]?key|user[-_]key|app[-_]key|certificate_key)`)

// userInfo is what a URL has between its scheme and its host.
var userInfo = regexp.MustCompile(`(://)[^/?#@\s]*(?:@[^/?#@\s]*)*@`)

// Configuration is the configuration of a step with its defaults, its secrets
// hidden.
func (s *Snapshot) Configuration(step *plan.Step, product bool) json.RawMessage {
	specs := s.with.all
	if product {
		specs = s.with.policies
	}
	spec, known := specs[step.Plugin]
	if !known {
		return nil
	}
	raw := []byte(step.Conf)
	if filled, err := spec.ConfigSchema().Fill(raw); err == nil {
		raw = filled
	}
	v, err := document.Parse(raw)
	if err != nil {
		return nil
	}
	hide := func(string) string { return Hidden }
	for _, path := range spec.ConfigSchema().Secrets() {
		v.Strings(path, hide)
	}
	Hide(v)
	return v.Append(nil)
}

// Hide hides strings under the names of secrets, the values of header lines
// and of pairs (a header or argument and its value) with such a name, and who a
// URL logs in as.
func Hide(v *document.Value) {
	v.EachString(hideWithin)
	hideMembers(v)
}

func hideWithin(text string) string {
	if name, _, line := strings.Cut(text, ":"); line && secretName.MatchString(name) && !strings.ContainsAny(name, " /") {
		return name + ": " + Hidden
	}
	return userInfo.ReplaceAllString(text, "${1}"+Hidden+"@")
}

func hideMembers(v *document.Value) {
	for _, item := range v.Items {
		hideMembers(item)
	}
	pair := false
	for _, m := range v.Members {
		pair = pair || pairName[m.Name] && m.Value.Is(document.String) && secretName.MatchString(m.Value.Text)
	}
	for _, m := range v.Members {
		if secretName.MatchString(m.Name) || pair && m.Name == "value" {
			m.Value.EachString(func(string) string { return Hidden })
			continue
		}
		hideMembers(m.Value)
	}
}

// pairName are members that name what the member value beside them is the value of.
var pairName = map[string]bool{"header": true, "arg": true, "name": true, "key": true}

package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
)

// Object reads one object. One that is not there is a *Refusal of status 404.
func (a *Admin) Object(ctx context.Context, key model.Key) (*document.Value, error) {
	v, err := a.Get(ctx, path(key))
	if err != nil {
		return nil, err
	}
	value := v.Get("value")
	if !value.Is(document.Object) {
		return nil, &Refusal{Status: http.StatusNotFound, Text: "the stored value is not a JSON object"}
	}
	return value, nil
}

// A Listed is one object of a list, as the Admin API shows it.
type Listed struct {
	Key   model.Key
	Value *document.Value
}

// List reads all objects of a kind, of credentials those of one consumer. A
// consumer without any, and one that is not there, has none.
func (a *Admin) List(ctx context.Context, kind model.Kind, owner string) ([]Listed, error) {
	path := below(kind, owner)
	answer, err := a.Get(ctx, path)
	if no, ok := errors.AsType[*Refusal](err); ok && no.Status == http.StatusNotFound && owner != "" && no.Text == "Key not found" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := nodes(answer, kind, owner)
	if err != nil {
		return nil, fmt.Errorf("%s: GET %s: %w", a, path, err)
	}
	return list, nil
}

// Effective is the merged view of a route (apisix-runtime.md §3): what matches,
// every plugin with the object that it comes from, in the order in which they
// run, and the upstream. Plugins of consumers and their groups join when a
// request has authenticated and are not in it. What the route names and is not
// there is listed under missing. Secrets are hidden unless reveal.
func (a *Admin) Effective(ctx context.Context, id string, reveal bool) (*document.Value, error) {
	e := effective{admin: a, ctx: ctx, hide: func(text string) string { return Hidden }}
	if reveal {
		e.hide = func(text string) string { return text }
	}
	key := model.Key{Kind: model.KindRoute, ID: id}
	route, err := e.object(key)
	if err != nil {
		return nil, err
	}
	service, serviceKey, err := e.referred(route, "service_id", model.KindService)
	if err != nil {
		return nil, err
	}
	config, configKey, err := e.referred(route, "plugin_config_id", model.KindPluginConfig)
	if err != nil {
		return nil, err
	}
	if err := e.readPriorities(); err != nil {
		return nil, err
	}
	out := document.NewObject()
	out.Set("route", document.NewString(id))
	e.matching(out, route, service)
	rules, err := e.globalRules()
	if err != nil {
		return nil, err
	}
	out.Set("global_rules", e.run(rules))
	var own []owned
	own = addMissing(own, key, route)
	own = addMissing(own, configKey, config)
	own = addMissing(own, serviceKey, service)
	out.Set("plugins", e.run(own))
	if err := e.upstream(out, key, route, serviceKey, service); err != nil {
		return nil, err
	}
	if len(e.missing.Items) > 0 {
		out.Set("missing", &e.missing)
	}
	return out, nil
}

type effective struct {
	admin      *Admin
	ctx        context.Context
	priorities map[string]int
	missing    document.Value
	hide       func(secret string) string
}

func (e *effective) object(key model.Key) (*document.Value, error) {
	return e.admin.Object(e.ctx, key)
}

// referred reads the object that a member names; nil: there is none.
func (e *effective) referred(v *document.Value, member string, kind model.Kind) (*document.Value, model.Key, error) {
	id, ok := declared.ID(v.Get(member))
	if !ok {
		return nil, model.Key{}, nil
	}
	key := model.Key{Kind: kind, ID: id}
	to, err := e.object(key)
	var no *Refusal
	if errors.As(err, &no) && no.Status == http.StatusNotFound {
		e.missing.Kind = document.Array
		e.missing.Items = append(e.missing.Items, document.NewString(key.String()))
		return nil, key, nil
	}
	return to, key, err
}

// matching sets what decides whether the route is taken.
func (e *effective) matching(out, route, service *document.Value) {
	one := func(single, several string) {
		if v := route.Get(several); v != nil {
			out.Set(several, v)
		} else if v := route.Get(single); v != nil {
			out.Set(several, &document.Value{Kind: document.Array, Items: []*document.Value{v}})
		}
	}
	one("uri", "uris")
	one("host", "hosts")
	if v := service.Get("hosts"); v != nil && out.Get("hosts") == nil {
		out.Set("hosts", v)
	}
	one("remote_addr", "remote_addrs")
	for _, name := range []string{"name", "desc", "methods", "vars", "filter_func", "priority", "status", "labels", "timeout", "enable_websocket", "service_id", "plugin_config_id"} {
		v := route.Get(name)
		if v == nil && (name == "enable_websocket" || name == "labels") {
			v = service.Get(name)
		}
		if v != nil {
			out.Set(name, v)
		}
	}
}

// owned is a plugin's configuration and the object that carries it.
type owned struct {
	name  string
	owner model.Key
	conf  *document.Value
}

// addMissing adds the plugins of an object that are not there yet: nearer ones
// replace farther ones as a whole.
func addMissing(all []owned, owner model.Key, v *document.Value) []owned {
	have := len(all)
	confs := v.Get("plugins")
	if !confs.Is(document.Object) {
		return all
	}
	for _, m := range confs.Members {
		if !slices.ContainsFunc(all[:have], func(o owned) bool { return o.name == m.Name }) {
			all = append(all, owned{m.Name, owner, m.Value})
		}
	}
	return all
}

func (e *effective) globalRules() ([]owned, error) {
	rules, err := e.admin.List(e.ctx, model.KindGlobalRule, "")
	if err != nil {
		return nil, err
	}
	var all []owned
	for _, r := range rules {
		all = append(all, addMissing(nil, r.Key, r.Value)...)
	}
	return all, nil
}

// readPriorities asks for the priorities of the gateway's plugins.
func (e *effective) readPriorities() error {
	all, err := e.admin.Get(e.ctx, "/plugins?all=true")
	if err != nil {
		return err
	}
	e.priorities = map[string]int{}
	for _, m := range all.Members {
		text, _ := m.Value.Get("priority").Scalar()
		if n, err := strconv.Atoi(text); err == nil {
			e.priorities[m.Name] = n
		}
	}
	return nil
}

// run prints plugins in the order in which they run; one that the gateway does
// not have comes last, without a priority.
func (e *effective) run(all []owned) *document.Value {
	priority := func(o owned) (int, bool) {
		p, known := e.priorities[o.name]
		if text, ok := dotted(o.conf, "_meta.priority").Scalar(); ok && known {
			if n, err := strconv.Atoi(text); err == nil {
				p = n
			}
		}
		return p, known
	}
	slices.SortStableFunc(all, func(a, b owned) int {
		p, knownA := priority(a)
		q, knownB := priority(b)
		if knownA != knownB {
			return map[bool]int{true: -1, false: 1}[knownA]
		}
		return cmp.Compare(q, p)
	})
	out := &document.Value{Kind: document.Array}
	for _, o := range all {
		v := document.NewObject()
		v.Set("name", document.NewString(o.name))
		v.Set("from", document.NewString(o.owner.String()))
		if p, known := priority(o); known {
			v.Set("priority", document.NewInt(int64(p)))
		} else {
			v.Set("unknown", &document.Value{Kind: document.Bool, Text: "true"})
		}
		conf := clone(o.conf)
		for _, path := range e.admin.cfg.Schemas.secretPaths(o.name, o.owner.Kind) {
			conf.Strings(path, e.hide)
		}
		v.Set("config", conf)
		out.Items = append(out.Items, v)
	}
	return out
}

// upstream sets where requests go: an upstream that the route names, its own,
// then the service's in the same order.
func (e *effective) upstream(out *document.Value, routeKey model.Key, route *document.Value, serviceKey model.Key, service *document.Value) error {
	for _, from := range []struct {
		key model.Key
		v   *document.Value
	}{{routeKey, route}, {serviceKey, service}} {
		named, key, err := e.referred(from.v, "upstream_id", model.KindUpstream)
		if err != nil {
			return err
		}
		if own := from.v.Get("upstream"); key.ID == "" && own != nil {
			named, key = own, from.key
		}
		if key.ID == "" {
			continue
		}
		v := document.NewObject()
		v.Set("from", document.NewString(key.String()))
		if named != nil {
			named = clone(named)
			for _, name := range []string{"id", "create_time", "update_time"} {
				named.Delete(name)
			}
			eachPrivateKey(model.KindUpstream, named, e.hide)
			v.Set("config", named)
		}
		out.Set("upstream", v)
		return nil
	}
	return nil
}

// Hidden stands for a secret that is not shown.
const Hidden = "(hidden)"

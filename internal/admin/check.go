package admin

import (
	"fmt"
	"net/http"
	"slices"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/schema"
)

// check reports why an object may not be stored; nil: it may. The object has
// its id already and its secrets in plain text.
func (a *API) check(r *request, id string, v *document.Value) *answer {
	raw := v.Append(nil)
	if err := a.checker.Document(r.object(id), raw); err != nil {
		return refusal(err)
	}
	if r.res.kind == model.KindConsumer && r.id != "" && r.id != id {
		ans := bad("wrong username")
		return &ans
	}
	// A consumer's own rules come before its group, a route's references first.
	steps := []func() *answer{
		func() *answer { return a.checkReferences(r, id, v) },
		func() *answer { return a.checkPlugins(r, id, v, raw) },
	}
	if r.res.plugins == ownerPlugins {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if ans := step(); ans != nil {
			return ans
		}
	}
	return nil
}

func refusal(err error) *answer {
	ans := bad("%v", err)
	return &ans
}

// checkPlugins checks that the plugins exist, compiles the object, and sees
// that no one else holds its keys.
func (a *API) checkPlugins(r *request, id string, v *document.Value, raw []byte) *answer {
	if err := a.checker.Runs(r.object(id), v, raw); err != nil {
		return refusal(err)
	}
	if err := a.deps.View().Mismatch(model.Object{Key: r.object(id), Raw: raw}); err != nil {
		return refusal(err)
	}
	switch r.res.kind {
	case model.KindConsumer:
		return a.checkOwner(v, id, "")
	case model.KindCredential:
		return a.checkOwner(v, r.owner, id)
	case model.KindGlobalRule:
		return a.checkOverlap(r, id, v)
	}
	return nil
}

// keyMember says by which member an authenticating plugin finds a consumer.
func keyMember(plugin string) string {
	switch plugin {
	case "key-auth", "jwt-auth":
		return "key"
	case "basic-auth":
		return "username"
	case "hmac-auth":
		return "key_id"
	case "ldap-auth", "ldap-auth-advanced":
		return "user_dn"
	}
	return ""
}

// checkOwner sees that no other consumer or credential holds the keys of this
// one. It looks at what is live; of two writes at the same time both may pass.
func (a *API) checkOwner(v *document.Value, consumer, credential string) *answer {
	plugins := v.Get("plugins")
	if plugins == nil {
		return nil
	}
	view := a.deps.View()
	for _, m := range plugins.Members {
		member := keyMember(m.Name)
		key := m.Value.Get(member)
		if member == "" || !key.Is(document.String) || schema.IsReference(key.Text) {
			continue
		}
		owner, of, held := view.Owner(m.Name, key.Text)
		if !held || owner == consumer && (credential == "" || of == credential) {
			continue
		}
		by := "consumer: " + owner
		if of != "" {
			by = "credential: " + of + " of consumer: " + owner
		}
		ans := bad("duplicate %s of plugin %s found with %s", member, m.Name, by)
		return &ans
	}
	return nil
}

// checkOverlap sees that every plugin is in one global rule only.
func (a *API) checkOverlap(r *request, id string, v *document.Value) *answer {
	rules, _, err := a.deps.Store.List(r.Context(), "/global_rules")
	if err != nil {
		ans := storageFailed(err)
		return &ans
	}
	for _, kv := range rules {
		other, err := document.Parse(kv.Value)
		if err != nil || kv.Key == a.cfg.Prefix+r.key(id) {
			continue
		}
		otherID, _ := other.Get("id").Scalar()
		for _, m := range v.Get("plugins").Members {
			if other.Get("plugins").Get(m.Name) != nil {
				ans := bad("plugin '%s' already exists in global rule with id '%s'", m.Name, otherID)
				return &ans
			}
		}
	}
	return nil
}

// needs are the keys of what has to be in the store when an object of the
// request's kind is written: what it refers to and what it lies below.
func (r *request) needs(v *document.Value) (keys []string) {
	if parent, below := r.parent(); below {
		keys = append(keys, "/"+parent.String())
	}
	for _, ref := range r.res.refs {
		if to, given := dotted(v, ref.path).Scalar(); given {
			keys = append(keys, "/"+model.Key{Kind: ref.kind, ID: to}.String())
		}
	}
	return keys
}

// recheck says what of that is no longer there; nil: nothing.
func (a *API) recheck(r *request, id string) *answer {
	if refusal := a.checkParent(r); refusal != nil {
		return refusal
	}
	return a.checkReferences(r, id, r.body)
}

// checkReferences sees that what the object names is in the store. The store is
// asked and not the view: another Admin API may have written it just now.
func (a *API) checkReferences(r *request, id string, v *document.Value) *answer {
	for _, ref := range r.res.refs {
		to, given := dotted(v, ref.path).Scalar()
		if !given {
			continue
		}
		if r.res.kind == model.KindStreamRoute && ref.kind == model.KindStreamRoute && to == id {
			ans := bad("stream route can not set itself as superior_id")
			return &ans
		}
		kv, _, err := a.deps.Store.Get(r.Context(), "/"+model.Key{Kind: ref.kind, ID: to}.String())
		if err != nil {
			ans := storageFailed(err)
			return &ans
		}
		what := fmt.Sprintf("failed to fetch %s info by %s id [%s]", ref.noun, ref.noun, to)
		if ref.noun == "" {
			what = fmt.Sprintf("failed to fetch stream routes[%s]", to)
		}
		if kv == nil {
			ans := bad("%s, response code: %d", what, http.StatusNotFound)
			return &ans
		}
		if ans := checkReferred(ref.kind, what, kv.Value, v); ans != nil {
			return ans
		}
	}
	return nil
}

// checkReferred looks into an object that v refers to.
func checkReferred(kind model.Kind, what string, raw []byte, v *document.Value) *answer {
	if kind != model.KindSSL && kind != model.KindStreamRoute {
		return nil
	}
	to, err := document.Parse(raw)
	if err != nil {
		return nil // it is flagged where it is served
	}
	text := func(v *document.Value) string {
		s, _ := v.Scalar()
		return s
	}
	if kind == model.KindSSL {
		if text(to.Get("type")) != "client" {
			ans := bad("%s, wrong ssl type", what)
			return &ans
		}
		return nil
	}
	mine, theirs := text(v.Get("protocol").Get("name")), text(to.Get("protocol").Get("name"))
	if to.Get("protocol") != nil && mine != theirs {
		ans := bad("protocol mismatch: subordinate protocol [%s] does not match superior protocol [%s]", mine, theirs)
		return &ans
	}
	return nil
}

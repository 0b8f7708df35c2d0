package admin

import (
	"errors"
	"fmt"
	"net/http"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
	"weir/internal/source/etcd"
)

// put replaces an object, or makes it.
func (a *API) put(r *request) answer {
	id, refusal := a.admit(r, true)
	if refusal != nil {
		return *refusal
	}
	if refusal := a.checkParent(r); refusal != nil {
		return *refusal
	}
	a.seal(r.res, r.body)
	if r.res.kind == model.KindPluginMetadata {
		r.body.SetFirst("id", document.NewString(id))
		return a.store(r, "set", id, etcd.PutOptions{TTL: r.ttl})
	}
	// The time of creation is the previous version's. Writing on condition that
	// this is still the one there keeps it when several clients write at once.
	now := a.deps.Now().Unix()
	for range maxTries {
		prev, _, err := a.deps.Store.Get(r.Context(), r.key(id))
		if err != nil {
			return storageFailed(err)
		}
		created, modified := document.NewInt(now), int64(0)
		if prev == nil {
			if err := a.forget(r); err != nil {
				return storageFailed(err)
			}
		} else {
			modified = prev.Modified
			if old, err := document.Parse(prev.Value); err == nil && old.Get("create_time") != nil {
				created = old.Get("create_time")
			}
		}
		r.body.Set("create_time", created)
		r.body.Set("update_time", document.NewInt(now))
		if ans, ok := a.attempt(r, "set", id, &modified); ok {
			return ans
		}
	}
	return storageFailed(errChanged)
}

// maxTries bounds how often a write starts again because somebody else wrote the
// same object, or what it refers to. Of writers that meet one gets through each
// time.
const maxTries = 1000

var errChanged = errors.New("value changed before overwritten")

// post makes an object with an id of its own.
func (a *API) post(r *request) answer {
	if _, refusal := a.admit(r, false); refusal != nil {
		return *refusal
	}
	a.seal(r.res, r.body)
	n, err := a.deps.Store.NextID(r.Context())
	if err != nil {
		return storageFailed(err)
	}
	id, now := fmt.Sprintf("%020d", n), document.NewInt(a.deps.Now().Unix())
	r.body.SetFirst("id", document.NewString(id))
	r.body.Set("create_time", now)
	r.body.Set("update_time", now)
	for range maxTries {
		if ans, ok := a.attempt(r, "create", id, nil); ok {
			return ans
		}
	}
	return storageFailed(errChanged)
}

// admit checks a whole object that a client sent and gives it its id.
func (a *API) admit(r *request, needID bool) (id string, refusal *answer) {
	if r.body == nil {
		ans := bad("missing configurations")
		return "", &ans
	}
	if id, refusal = a.identify(r, r.body, needID); refusal != nil {
		return "", refusal
	}
	for _, in := range []string{"", "upstream.", "plugins."} {
		for _, time := range []string{"create_time", "update_time"} {
			if dotted(r.body, in+time) != nil {
				ans := bad("the property is forbidden:  %s%s", in, time)
				return "", &ans
			}
		}
	}
	if refusal = a.check(r, id, r.body); refusal != nil {
		return "", refusal
	}
	if !r.body.Is(document.Object) {
		ans := bad("invalid configuration")
		return "", &ans
	}
	return id, nil
}

// identify finds the id of an object that is to be stored and puts it into the
// object.
func (a *API) identify(r *request, v *document.Value, need bool) (id string, refusal *answer) {
	switch r.res.naming {
	case byUsername:
		username := v.Get("username")
		if username.Is(document.String) {
			id = username.Text
		}
		return id, nil
	case byPath:
		return r.id, nil
	}
	id = r.id
	if id != "" && r.res.kind == model.KindSecret {
		id = r.owner + "/" + id
	}
	own := v.Get("id")
	text, isID := declared.ID(own)
	switch {
	case need && id == "" && own == nil:
		ans := bad("missing %s id", r.res.kind)
		return "", &ans
	case !need && (id != "" || own != nil):
		ans := bad("wrong %s id, do not need it", r.res.kind)
		return "", &ans
	case id != "" && own != nil && (!isID || text != id):
		ans := bad("wrong %s id", r.res.kind)
		return "", &ans
	}
	if id == "" {
		return text, nil // an id that is none fails the schema
	}
	if v.Is(document.Object) {
		v.SetFirst("id", document.NewString(id))
	}
	return r.id, nil
}

// checkParent sees that the object exists below which the request's one lies.
func (a *API) checkParent(r *request) *answer {
	parent, below := r.parent()
	if !below {
		return nil
	}
	kv, _, err := a.deps.Store.Get(r.Context(), "/"+parent.String())
	switch {
	case err != nil:
		ans := storageFailed(err)
		return &ans
	case kv == nil:
		ans := refuse(http.StatusNotFound, "%s not found", parent.Kind)
		return &ans
	}
	return nil
}

// patch changes an object in part.
func (a *API) patch(r *request) answer {
	switch {
	case r.id == "" && r.res.kind == model.KindSecret:
		return bad("no secret id")
	case r.id == "":
		return bad("missing %s id", r.res.kind)
	case r.body == nil:
		return bad("missing new configuration")
	case r.sub == "" && !r.body.Is(document.Object) && !r.body.Is(document.Array):
		return bad("invalid configuration")
	}
	prev, _, err := a.deps.Store.Get(r.Context(), r.key(r.id))
	if err != nil {
		return storageFailed(err)
	}
	if prev == nil {
		return notFound()
	}
	old, err := document.Parse(prev.Value)
	if err != nil {
		return bad("invalid configuration: the stored object is not JSON: %v", err)
	}
	a.open(r.res, old)
	next, keepTime := old, false
	if r.sub == "" {
		old.Merge(r.body)
		keepTime = r.body.Get("update_time") != nil
	} else if next, err = old.SetPath(r.sub, r.body); err != nil {
		return bad("%v", err)
	}
	if !next.Is(document.Object) {
		return bad("invalid configuration")
	}
	now := document.NewInt(a.deps.Now().Unix())
	if next.Get("create_time") == nil {
		next.Set("create_time", now)
	}
	if next.Get("update_time") == nil || !keepTime {
		next.Set("update_time", now)
	}
	id, refusal := a.identify(r, next, true)
	if refusal != nil {
		return *refusal
	}
	if refusal := a.check(r, id, next); refusal != nil {
		return *refusal
	}
	a.seal(r.res, next)
	r.body = next
	if ans, ok := a.attempt(r, "compareAndSwap", id, &prev.Modified); ok {
		return ans
	}
	return storageFailed(errChanged)
}

// attempt stores the request's body while what it needs is there and, unless
// modified is nil, the object is still as it was then. ok is false if somebody
// else wrote one of them meanwhile.
func (a *API) attempt(r *request, action, id string, modified *int64) (ans answer, ok bool) {
	ans = a.store(r, action, id, etcd.PutOptions{TTL: r.ttl, IfModified: modified, IfThere: r.needs(r.body)})
	if ans.status != http.StatusConflict {
		return ans, true
	}
	if refusal := a.recheck(r, id); refusal != nil {
		return *refusal, true
	}
	return ans, false
}

// store writes the request's body and answers when it is live. A condition that
// does not hold is status 409, which no client sees.
func (a *API) store(r *request, action, id string, opt etcd.PutOptions) answer {
	res, err := a.deps.Store.Put(r.Context(), r.key(id), r.body.Append(nil), opt)
	switch {
	case errors.Is(err, etcd.ErrChanged):
		return answer{status: http.StatusConflict}
	case err != nil:
		return storageFailed(err)
	}
	ans := answer{status: http.StatusOK, body: a.wrap(action, node{key: a.cfg.Prefix + r.key(id), value: r.body})}
	if res.Created {
		ans.status = http.StatusCreated
	}
	a.settle(r, action, id, res.Revision, &ans)
	return ans
}

// remove deletes an object and what lies below it.
func (a *API) remove(r *request) answer {
	if r.id == "" {
		return bad("missing %s id", r.res.kind)
	}
	if r.args.Get("force") != "true" {
		if refusal := a.checkUnused(r); refusal != nil {
			return *refusal
		}
	}
	var below []string
	if r.res.below != "" {
		below = append(below, r.key(r.id)+"/"+r.res.below+"/")
	}
	res, err := a.deps.Store.Delete(r.Context(), r.key(r.id), below...)
	if err != nil {
		return storageFailed(err)
	}
	if !res.Deleted {
		return notFound()
	}
	key := a.cfg.Prefix + r.key(r.id)
	ans := answer{status: http.StatusOK, body: object("deleted", "1", "key", key)}
	if !a.v3() {
		ans.body = object("action", "delete", "deleted", "1", "key", key)
	}
	a.settle(r, "delete", r.id, res.Revision, &ans)
	return ans
}

// checkUnused sees that nothing refers to an object.
func (a *API) checkUnused(r *request) *answer {
	if len(r.res.blockers) == 0 {
		return nil
	}
	uses := a.deps.View().Users(r.object(r.id))
	for _, b := range r.res.blockers {
		for _, u := range uses {
			if u.By.Kind == b.by && u.Plugin == b.plugin {
				ans := bad(b.format, u.By.ID)
				return &ans
			}
		}
	}
	return nil
}

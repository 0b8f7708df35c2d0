package admin

import (
	"net/http"

	"weir/internal/document"
	"weir/internal/model"
)

// bind sees that a call on the cost decorations of a service may go on, and puts
// the service into the decoration that is to be stored.
func (a *API) bind(r *request) *answer {
	if r.res.kind != model.KindCostDecoration {
		return nil
	}
	if r.owner == "" {
		ans := bad("missing service id")
		return &ans
	}
	switch r.Method {
	case http.MethodPut, http.MethodPost, http.MethodPatch:
	default:
		return nil
	}
	if !r.body.Is(document.Object) {
		ans := bad("invalid configuration")
		return &ans
	}
	service := r.body.Get("service_id")
	if r.Method == http.MethodPatch {
		if service != nil {
			ans := bad("service_id can not be patched")
			return &ans
		}
		return a.checkFieldPath(r)
	}
	if text, _ := service.Scalar(); service != nil && text != r.owner {
		ans := bad("wrong service_id, it is taken from the path")
		return &ans
	}
	if ans := a.checkParent(r); ans != nil {
		return ans
	}
	if ans := a.checkFieldPath(r); ans != nil {
		return ans
	}
	r.body.Set("service_id", document.NewString(r.owner))
	return nil
}

// checkFieldPath sees that no other decoration of the service is of the same
// field. Of two writes at the same time both may pass.
func (a *API) checkFieldPath(r *request) *answer {
	path := r.body.Get("field_path")
	if !path.Is(document.String) {
		return nil
	}
	kvs, _, err := a.deps.Store.List(r.Context(), r.dir())
	if err != nil {
		ans := storageFailed(err)
		return &ans
	}
	for _, kv := range kvs {
		other, err := document.Parse(kv.Value)
		if err != nil || kv.Key == a.cfg.Prefix+r.key(r.id) || !other.Get("field_path").Is(document.String) {
			continue
		}
		if id, _ := other.Get("id").Scalar(); other.Get("field_path").Text == path.Text {
			ans := bad("field_path %s is already decorated on this service by [%s]", path.Text, id)
			return &ans
		}
	}
	return nil
}

// forget deletes what lies below a service that is about to be made: it belonged
// to one of the same name that is gone.
func (a *API) forget(r *request) error {
	if r.res.kind != model.KindService {
		return nil
	}
	below := r.key(r.id) + "/" + r.res.below
	_, err := a.deps.Store.Delete(r.Context(), below, below+"/")
	return err
}

package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/etcd"
)

func (a *API) get(r *request) answer {
	if r.id == "" {
		return a.list(r)
	}
	kv, _, err := a.deps.Store.Get(r.Context(), r.key(r.id))
	if err != nil {
		return storageFailed(err)
	}
	if kv == nil {
		return notFound()
	}
	n := node{key: kv.Key, value: a.shown(r.res, *kv)}
	if a.v3() {
		n.created, n.modified = kv.Created, kv.Modified
	}
	return answer{status: http.StatusOK, body: a.wrap("get", n)}
}

// list answers with all objects of a kind that pass the filters.
func (a *API) list(r *request) answer {
	dir := r.dir()
	kvs, _, err := a.deps.Store.List(r.Context(), dir)
	if err != nil {
		return storageFailed(err)
	}
	if r.res.below != "" {
		depth := strings.Count(a.cfg.Prefix+dir, "/") + 1
		kvs = slices.DeleteFunc(kvs, func(kv etcd.KV) bool { return strings.Count(kv.Key, "/") > depth })
	}
	if len(kvs) == 0 && (r.res.kind == model.KindCredential || r.res.kind == model.KindCostDecoration) {
		return notFound()
	}
	all := make([]node, len(kvs))
	for i, kv := range kvs {
		all[i] = node{key: kv.Key, value: a.shown(r.res, kv), created: kv.Created, modified: kv.Modified}
	}
	if !a.v3() {
		return answer{status: http.StatusOK, body: directory(a.cfg.Prefix+dir, all)}
	}
	all = filter(all, r)
	total := len(all)
	all, ok := page(all, r.args)
	if !ok {
		return answer{status: http.StatusBadRequest, body: []byte("page_size must be between 10 and 500")}
	}
	body := []byte(`{"list":`)
	body = appendNodes(body, all)
	body = append(body, `,"total":`...)
	body = strconv.AppendInt(body, int64(total), 10)
	return answer{status: http.StatusOK, body: append(body, "}\n"...)}
}

// shown is a stored object as a client may see it: the secrets of plugins in
// plain text, private keys of certificates not at all.
func (a *API) shown(res *resource, kv etcd.KV) *document.Value {
	v, err := document.Parse(kv.Value)
	if err != nil {
		return document.NewString(string(kv.Value)) // somebody else's doing
	}
	if res.kind == model.KindSSL {
		v.Delete("key")
		v.Delete("keys")
	}
	a.open(res, v)
	return v
}

// A node is one object in an answer.
type node struct {
	key               string
	value             *document.Value
	created, modified int64 // 0: not told
}

func (n node) append(dst []byte) []byte {
	dst = append(dst, `{"key":`...)
	dst = document.NewString(n.key).Append(dst)
	dst = append(dst, `,"value":`...)
	dst = n.value.Append(dst)
	if n.modified != 0 {
		dst = append(dst, `,"createdIndex":`...)
		dst = strconv.AppendInt(dst, n.created, 10)
		dst = append(dst, `,"modifiedIndex":`...)
		dst = strconv.AppendInt(dst, n.modified, 10)
	}
	return append(dst, '}')
}

func appendNodes(dst []byte, list []node) []byte {
	dst = append(dst, '[')
	for i, n := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = n.append(dst)
	}
	return append(dst, ']')
}

// wrap prints one object in the form of the API's version.
func (a *API) wrap(action string, n node) []byte {
	if a.v3() {
		return append(n.append(nil), '\n')
	}
	body := []byte(`{"action":"` + action + `","node":`)
	return append(n.append(body), "}\n"...)
}

// directory is the list of version 2.
func directory(key string, list []node) []byte {
	body := []byte(`{"action":"get","node":{"dir":true,"key":`)
	body = document.NewString(key).Append(body)
	body = append(body, `,"nodes":`...)
	return append(appendNodes(body, list), "}}\n"...)
}

// filter keeps what the arguments name, label, uri and filter all let pass.
func filter(list []node, r *request) []node {
	var tests []func(*document.Value) bool
	if r.args.Has("name") {
		search := searcher(r.args.Get("name"))
		tests = append(tests, func(v *document.Value) bool {
			name, ok := v.Get("name").Scalar()
			if !ok {
				name = "nil" // as Lua prints a name that is not there
			}
			return search(name)
		})
	}
	if r.args.Has("label") {
		label := r.args.Get("label")
		tests = append(tests, func(v *document.Value) bool { return v.Get("labels").Get(label) != nil })
	}
	if r.args.Has("uri") {
		search := searcher(r.args.Get("uri"))
		tests = append(tests, func(v *document.Value) bool {
			uris := []*document.Value{v.Get("uri")}
			if several := v.Get("uris"); several != nil {
				uris = append(uris, several.Items...)
			}
			return slices.ContainsFunc(uris, func(u *document.Value) bool { return u.Is(document.String) && search(u.Text) })
		})
	}
	tests = append(tests, memberFilters(r)...)
	return slices.DeleteFunc(list, func(n node) bool {
		return slices.ContainsFunc(tests, func(passes func(*document.Value) bool) bool { return !passes(n.value) })
	})
}

// memberFilters are the tests of the argument filter=a%3Db%26c%3Dd. Members
// that the resource does not let filter by are ignored; of several values for
// one member the last counts; a number in an object equals nothing.
func memberFilters(r *request) []func(*document.Value) bool {
	given, err := url.ParseQuery(r.args.Get("filter"))
	if err != nil {
		return []func(*document.Value) bool{func(*document.Value) bool { return false }}
	}
	var tests []func(*document.Value) bool
	for _, name := range r.res.filters {
		if values := given[name]; len(values) > 0 {
			want := values[len(values)-1]
			tests = append(tests, func(v *document.Value) bool {
				got := v.Get(name)
				return got.Is(document.String) && got.Text == want
			})
		}
	}
	return tests
}

// page cuts one page out of a list, in the order of creation. It reports false
// for a page size out of bounds. Without both arguments there are no pages.
func page(list []node, args url.Values) ([]node, bool) {
	number, err1 := strconv.ParseFloat(args.Get("page"), 64)
	size, err2 := strconv.ParseFloat(args.Get("page_size"), 64)
	if err1 != nil || err2 != nil {
		return list, true
	}
	if !(size >= 10 && size <= 500) {
		return nil, false
	}
	slices.SortStableFunc(list, func(x, y node) int { return cmp.Compare(x.created, y.created) })
	per, from := int(size), 0
	if number > 1 {
		from = int(min((number-1)*float64(per), float64(len(list))))
	}
	return list[from:min(from+per, len(list))], true
}

package etcd

import (
	"strings"

	"weir/internal/model"
)

// initDir is the value of the keys "routes/" and the like that `apisix
// init_etcd` writes; it is not an object (apisix-admin.md §7.1).
const initDir = "init_dir"

// ObjectKey returns the key of the object that lies at path, which is relative
// to the prefix and has no leading slash: "routes/1". It reports false for what
// is not an object: directories, "gen_id", unknown places.
func ObjectKey(path string) (model.Key, bool) {
	dir, id, nested := strings.Cut(path, "/")
	if !nested {
		return model.Key{Kind: model.KindPlugins}, dir == model.KindPlugins.Dir()
	}
	if id == "" || strings.HasSuffix(id, "/") {
		return model.Key{}, false
	}
	for kind := range model.KindCount {
		if kind.Dir() != dir {
			continue
		}
		switch kind {
		case model.KindConsumer:
			return owned(kind, model.KindCredential, id)
		case model.KindService:
			return owned(kind, model.KindCostDecoration, id)
		case model.KindCredential, model.KindCostDecoration, model.KindPlugins:
			return model.Key{}, false
		case model.KindSecret:
			return model.Key{Kind: kind, ID: id}, strings.Count(id, "/") == 1 && id[0] != '/'
		}
		return model.Key{Kind: kind, ID: id}, true
	}
	return model.Key{}, false
}

// owned tells the owner "jack" from what lies below it,
// "jack/credentials/c1".
func owned(owner, inner model.Kind, id string) (model.Key, bool) {
	name, rest, nested := strings.Cut(id, "/")
	if !nested {
		return model.Key{Kind: owner, ID: id}, true
	}
	dir, last, deep := strings.Cut(rest, "/")
	ok := name != "" && deep && dir == inner.Dir() && last != "" && !strings.Contains(last, "/")
	return model.Key{Kind: inner, ID: id}, ok
}

package snapshot

import "weir/internal/model"

// users says which compiled objects refer to an object: a route to its service
// and plugin config, everything with plugins to their metadata.
type users map[model.Key]map[model.Key]struct{}

func (u users) add(k, by model.Key) {
	if k.ID == "" {
		return
	}
	if u[k] == nil {
		u[k] = map[model.Key]struct{}{}
	}
	u[k][by] = struct{}{}
}

func (u users) remove(k, by model.Key) {
	delete(u[k], by)
	if len(u[k]) == 0 {
		delete(u, k)
	}
}

// move replaces the references of an object.
func (u users) move(by model.Key, old, new func(func(model.Key) bool)) {
	for k := range old {
		u.remove(k, by)
	}
	for k := range new {
		u.add(k, by)
	}
}

// touch has everything that refers to k compiled again.
func (n *next) touch(k model.Key) {
	users := make([]model.Key, 0, len(n.users[k]))
	for by := range n.users[k] {
		users = append(users, by)
	}
	for _, by := range users {
		n.again(by)
	}
}

// again compiles the last good form of one object anew, because something it
// refers to has changed. Its faults stay: they are its own document's.
func (n *next) again(k model.Key) {
	var err error
	switch k.Kind {
	case model.KindRoute:
		n.touched[k.ID] = struct{}{}
	case model.KindStreamRoute:
		n.touchedStreams[k.ID] = struct{}{}
	case model.KindService:
		if e, ok := n.services.Get(k.ID); ok && e.service != nil {
			err = n.serviceAgain(e)
		}
	case model.KindConsumer:
		if e, ok := n.records[k.Kind].Get(k.ID); ok && !e.broken {
			err = n.recordAgain(e)
		}
	default:
		if e, ok := n.sets[k.Kind].Get(k.ID); ok && e.set != nil {
			err = n.setAgain(e)
		}
	}
	if err != nil {
		n.config.Log.Error("configuration object stays as it was", "object", k.String(), "err", err)
	}
}

// ofPlugins yields what plugins refer to: their metadata, and proto objects.
func (x *compiler) ofPlugins(plugins model.Plugins, yield func(model.Key) bool) bool {
	for name, raw := range plugins {
		spec, known := x.all[name]
		if known && spec.MetadataSchema() != nil && !yield(model.Key{Kind: model.KindPluginMetadata, ID: name}) {
			return false
		}
		if known && !yield(model.Key{Kind: model.KindProto, ID: spec.Proto(raw)}) {
			return false
		}
	}
	return true
}

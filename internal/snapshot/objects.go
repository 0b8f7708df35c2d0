package snapshot

import (
	"iter"

	"weir/internal/model"
)

// Objects yields the objects of a kind as they were delivered, whether or not
// they run, in no particular order.
func (s *Snapshot) Objects(k model.Kind) iter.Seq[model.Object] {
	return func(yield func(model.Object) bool) {
		switch k {
		case model.KindRoute:
			each(s.routes.All(), func(e *routeEntry) model.Object { return e.Object }, yield)
		case model.KindService:
			each(s.services.All(), func(e *serviceEntry) model.Object { return e.Object }, yield)
		case model.KindUpstream:
			each(s.upstreams.All(), func(e *upstreamEntry) model.Object { return e.Object }, yield)
		case model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule:
			each(s.sets[k].All(), func(e *setEntry) model.Object { return e.Object }, yield)
		case model.KindConsumer, model.KindCredential:
			each(s.records[k].All(), recordEntry.object, yield)
		case model.KindProduct:
			each(s.products.All(), func(e *productEntry) model.Object { return e.Object }, yield)
		default:
			each(s.documents[k].All(), func(d *storedDocument) model.Object { return d.Object }, yield)
		}
	}
}

func each[E any](all iter.Seq2[string, E], object func(E) model.Object, yield func(model.Object) bool) {
	for _, e := range all {
		if !yield(object(e)) {
			return
		}
	}
}

package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"

	"weir/internal/model"
)

// Missing yields every object that refers to one that is not there, with the
// reason why requests that need it are refused or not matched. What is switched
// off is left out.
func (s *Snapshot) Missing(yield func(path string, err error) bool) {
	for by, to := range s.references {
		if to.ID != "" && !s.Exists(to.Kind, to.ID) && !yield(by.String(), fmt.Errorf("it refers to %s, which is not there", to)) {
			return
		}
	}
}

// references yields what objects refer to, by their last documents that could be
// read.
func (s *Snapshot) references(yield func(by, to model.Key) bool) {
	for _, e := range s.routes.All() {
		if d := e.doc; d != nil && !d.Disabled && !(toService(e.Key, d.ServiceID, yield) && toUpstream(e.Key, d.UpstreamID, d.Plugins, yield) &&
			yield(e.Key, model.Key{Kind: model.KindPluginConfig, ID: d.PluginConfigID})) {
			return
		}
	}
	for _, e := range s.services.All() {
		if d := e.service; d != nil && !toUpstream(e.Key, d.UpstreamID, d.Plugins, yield) {
			return
		}
	}
	for _, e := range s.streams.All() {
		if d := e.doc; d != nil && !(toService(e.Key, d.ServiceID, yield) && toUpstream(e.Key, d.UpstreamID, d.Plugins, yield)) {
			return
		}
	}
	for k := range s.sets {
		for _, e := range s.sets[k].All() {
			if e.set != nil && !toUpstream(e.Key, "", e.set.Plugins, yield) {
				return
			}
		}
	}
	for _, r := range s.records[model.KindConsumer].All() {
		if !toGroup(r.record, yield) {
			return
		}
	}
}

func toService(by model.Key, id string, yield func(by, to model.Key) bool) bool {
	return yield(by, model.Key{Kind: model.KindService, ID: id})
}

// toUpstream yields an object's upstream and those that its traffic-split names.
func toUpstream(by model.Key, id string, plugins model.Plugins, yield func(by, to model.Key) bool) bool {
	if !yield(by, model.Key{Kind: model.KindUpstream, ID: id}) {
		return false
	}
	var split trafficSplit
	if raw, there := plugins["traffic-split"]; !there || json.Unmarshal(raw, &split) != nil {
		return true
	}
	for _, rule := range split.Rules {
		for _, u := range rule.Upstreams {
			if !yield(by, model.Key{Kind: model.KindUpstream, ID: string(u.ID)}) {
				return false
			}
		}
	}
	return true
}

func toGroup(r *record, yield func(by, to model.Key) bool) bool {
	raw := r.document()
	if !bytes.Contains(raw, []byte(`"group_id"`)) {
		return true
	}
	var doc struct {
		GroupID ident `json:"group_id"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return true
	}
	return yield(model.Key{Kind: model.KindConsumer, ID: r.id()}, model.Key{Kind: model.KindConsumerGroup, ID: string(doc.GroupID)})
}

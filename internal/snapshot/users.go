package snapshot

import (
	"bytes"
	"encoding/json"

	"weir/internal/model"
)

// A Use is a reference from one object to another.
type Use struct {
	By     model.Key
	Plugin string // whose configuration refers; empty: the object itself
}

// Users lists the objects that refer to one, by their stored documents, also
// those that do not run. It reads all of the state and is meant for deletions.
func (s *Snapshot) Users(of model.Key) []Use {
	var uses []Use
	if of.ID == "" {
		return nil
	}
	id := []byte(of.ID)
	s.documentsOf(referrers[of.Kind], func(by model.Key, raw []byte) {
		if !bytes.Contains(raw, id) {
			return
		}
		var doc mentions
		if json.Unmarshal(raw, &doc) != nil {
			return
		}
		for _, plugin := range doc.to(of) {
			uses = append(uses, Use{by, plugin})
		}
	})
	return uses
}

// referrers says which kinds can refer to a kind. It is immutable.
var referrers = [model.KindCount][]model.Kind{
	model.KindService:       {model.KindRoute, model.KindStreamRoute},
	model.KindPluginConfig:  {model.KindRoute},
	model.KindConsumerGroup: {model.KindConsumer},
	model.KindStreamRoute:   {model.KindStreamRoute},
	model.KindProto:         {model.KindRoute, model.KindService},
	model.KindUpstream: {
		model.KindRoute, model.KindService, model.KindStreamRoute, model.KindPluginConfig, model.KindConsumerGroup,
		model.KindGlobalRule, model.KindConsumer,
	},
}

// documentsOf calls f with every object of the kinds.
func (s *Snapshot) documentsOf(kinds []model.Kind, f func(model.Key, []byte)) {
	for _, k := range kinds {
		switch k {
		case model.KindRoute:
			for id, e := range s.routes.All() {
				f(model.Key{Kind: k, ID: id}, e.Raw)
			}
		case model.KindService:
			for id, e := range s.services.All() {
				f(model.Key{Kind: k, ID: id}, e.Raw)
			}
		default:
			for id, e := range s.sets[k].All() {
				f(model.Key{Kind: k, ID: id}, e.Raw)
			}
			for id, e := range s.records[k].All() {
				f(model.Key{Kind: k, ID: id}, e.document())
			}
			for id, o := range s.documents[k].All() {
				f(model.Key{Kind: k, ID: id}, o.Raw)
			}
		}
	}
}

// An ident is an id in a document, text or number.
type ident string

// UnmarshalJSON takes what cannot be an id as none.
func (i *ident) UnmarshalJSON(raw []byte) error {
	*i = ident(bytes.Trim(raw, `"`))
	return nil
}

// mentions are the members of a document that name other objects.
type mentions struct {
	ServiceID      ident `json:"service_id"`
	UpstreamID     ident `json:"upstream_id"`
	PluginConfigID ident `json:"plugin_config_id"`
	GroupID        ident `json:"group_id"`
	Protocol       struct {
		SuperiorID ident `json:"superior_id"`
	} `json:"protocol"`
	Plugins struct {
		TrafficSplit  trafficSplit `json:"traffic-split"`
		GRPCTranscode struct {
			ProtoID ident `json:"proto_id"`
		} `json:"grpc-transcode"`
	} `json:"plugins"`
}

// trafficSplit is what the plugin of that name refers to.
type trafficSplit struct {
	Rules []struct {
		Upstreams []struct {
			ID ident `json:"upstream_id"`
		} `json:"weighted_upstreams"`
	} `json:"rules"`
}

// to lists the references to one object, by the plugin that has them.
func (r *mentions) to(of model.Key) (plugins []string) {
	own := map[model.Kind]ident{
		model.KindService: r.ServiceID, model.KindUpstream: r.UpstreamID, model.KindPluginConfig: r.PluginConfigID,
		model.KindConsumerGroup: r.GroupID, model.KindStreamRoute: r.Protocol.SuperiorID,
	}
	if own[of.Kind] == ident(of.ID) {
		plugins = append(plugins, "")
	}
	if of.Kind == model.KindProto && r.Plugins.GRPCTranscode.ProtoID == ident(of.ID) {
		plugins = append(plugins, "grpc-transcode")
	}
	if of.Kind != model.KindUpstream {
		return plugins
	}
	for _, rule := range r.Plugins.TrafficSplit.Rules {
		for _, u := range rule.Upstreams {
			if u.ID == ident(of.ID) {
				return append(plugins, "traffic-split")
			}
		}
	}
	return plugins
}

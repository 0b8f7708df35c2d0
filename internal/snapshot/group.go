package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"weir/internal/model"
	"weir/internal/plan"
	"weir/internal/plugin"
)

// withPlugins are the kinds whose objects may have plugins that form groups. It
// is immutable.
var withPlugins = []model.Kind{
	model.KindRoute, model.KindService, model.KindPluginConfig, model.KindConsumerGroup, model.KindGlobalRule, model.KindConsumer,
}

var errMismatch = errors.New("group conf mismatched")

// Mismatch says whether a plugin of o is in a group (plugin.Groups) that is
// configured differently now, be it in o itself: as in APISIX, a group is changed
// by ending it. It is nil if not. It looks at all of the state, but only for a
// plugin in a group.
func (s *Snapshot) Mismatch(o model.Object) error {
	if !slices.Contains(withPlugins, o.Kind) {
		return nil
	}
	own := pluginsIn(o.Raw)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		spec, known := s.with.specs[name]
		if !known {
			continue
		}
		group := spec.Group(own[name])
		if group != "" && s.differs(spec, group, s.alike(spec, own[name])) {
			return &plugin.ConfigError{Plugin: name, Err: errMismatch}
		}
	}
	return nil
}

func pluginsIn(raw []byte) map[string]json.RawMessage {
	var doc struct {
		Plugins map[string]json.RawMessage `json:"plugins"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	return doc.Plugins
}

// differs looks for a member of the group that is not configured as conf says.
func (s *Snapshot) differs(spec plan.Spec, group string, conf []byte) bool {
	quoted, found := []byte(`"`+spec.Name+`"`), false
	s.documentsOf(withPlugins, func(_ model.Key, raw []byte) {
		if found || !bytes.Contains(raw, quoted) {
			return
		}
		other, there := pluginsIn(raw)[spec.Name]
		found = there && spec.Group(other) == group && !bytes.Equal(s.alike(spec, other), conf)
	})
	return found
}

// alike is a plugin's configuration, the same for all that mean the same.
func (s *Snapshot) alike(spec plan.Spec, raw json.RawMessage) []byte {
	filled, err := spec.ConfigSchema().Fill(s.with.config.Open(spec.Spec, raw, false))
	if err != nil {
		return raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(filled, &members) != nil {
		return filled
	}
	delete(members, "_meta")
	text, err := json.Marshal(members)
	if err != nil {
		return filled
	}
	return text
}

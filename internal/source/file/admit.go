package file

import (
	"slices"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
)

// admit returns the objects of a file that are to be in force, and why the
// others are not. An object that is as it was when it was checked is not checked
// again.
func (s *Source) admit(doc *document.Value) (items []declared.Item, skipped map[string]error) {
	check := s.cfg.Checker
	all := declared.Items(doc)
	list := s.enable(&check, all)
	if list != s.plugins {
		s.plugins, s.verdicts = list, nil
	}
	verdicts := make(map[model.Key]verdict, len(s.verdicts))
	skipped = map[string]error{}
	for _, it := range all {
		if ignored(it, &check) {
			continue
		}
		v, known := s.verdicts[it.Key]
		if !known || v.digest != it.Digest {
			v = verdict{it.Digest, check.Check(it)}
			if v.err != nil {
				s.cfg.Log.Error("configuration file: object is left out", "object", it.Key.String(), "err", v.err)
			}
		}
		if _, twice := verdicts[it.Key]; twice {
			s.cfg.Log.Warn("configuration file: id is there more than once, the last object counts", "object", it.Key.String())
		}
		verdicts[it.Key] = v
		if v.err == nil {
			items = append(items, it)
			continue
		}
		skipped[it.Key.String()] = v.err
		if mayGuard(it, &check) {
			items = append(items, it)
		}
	}
	s.verdicts = verdicts
	return items, skipped
}

// enable lets a checker admit the plugins that the file lists or, if it has no
// valid list, those of config.yaml. It returns what decided.
func (s *Source) enable(c *declared.Checker, items []declared.Item) string {
	for _, it := range items {
		if it.Section != model.KindPlugins || c.Documents.Check(model.KindPlugins, it.Raw) != nil {
			continue
		}
		listed := map[listing]bool{}
		for _, p := range it.Value.Items {
			stream := p.Get("stream")
			listed[listing{p.Get("name").Text, stream != nil && stream.Text == "true"}] = true
		}
		c.Enabled = func(name string, stream bool) bool { return listed[listing{name, stream}] }
		return string(it.Raw)
	}
	c.Enabled = func(name string, stream bool) bool {
		list := s.cfg.Plugins
		if stream {
			list = s.cfg.StreamPlugins
		}
		return list == nil || slices.Contains(list, name)
	}
	return ""
}

// A listing is an entry of the list of plugins.
type listing struct {
	name   string
	stream bool
}

// ignored says that an item is metadata of nothing: without a name, or of a
// plugin that is disabled or that nobody knows.
func ignored(it declared.Item, c *declared.Checker) bool {
	if it.Section != model.KindPluginMetadata || it.Index < 0 {
		return false
	}
	return it.Own == nil || !c.Enabled(it.ID, false) && !c.Enabled(it.ID, true) || !c.Known(it.ID)
}

// mayGuard says that a global rule names a plugin that restricts who or what
// passes, or one that could. Without it requests would pass that must not;
// delivered as it is, it closes the gateway until it is mended.
func mayGuard(it declared.Item, c *declared.Checker) bool {
	plugins := it.Value.Get("plugins")
	if it.Kind != model.KindGlobalRule || plugins == nil {
		return false
	}
	return slices.ContainsFunc(plugins.Members, func(m document.Member) bool {
		spec, here := c.Plugins[m.Name]
		return !here || spec.Guard
	})
}

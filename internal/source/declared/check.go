package declared

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/plugin"
)

// A Checker decides whether an object may be part of the configuration. It is
// the one place for what holds of an object alone, wherever it comes from;
// what other objects there must be is not asked. Its methods may be called by
// many goroutines. The texts of its errors are for clients.
type Checker struct {
	Documents *apisix.Checker
	Plugins   map[string]plugin.Spec // of this build

	// Streams are the plugins of stream routes.
	Streams map[string]plugin.StreamSpec

	// Enabled says that a plugin may be configured, in a stream route if stream.
	// nil: every plugin of this build may, outside of stream routes.
	Enabled func(name string, stream bool) bool

	// Compile compiles an object as the gateway would run it.
	Compile func(model.Object) error

	// Versioned lets items have a modifiedIndex, which Compile and the schemas do
	// not see.
	Versioned bool
}

// Known says that there is a plugin of the name, here or in APISIX.
func (c *Checker) Known(name string) bool {
	_, here := c.Plugins[name]
	_, streams := c.Streams[name]
	return here || streams || slices.Contains(apisix.PluginNames(), name)
}

// Document checks a document by its schema and by the rules between its
// members.
func (c *Checker) Document(key model.Key, raw []byte) error {
	switch key.Kind {
	case model.KindSecret:
		manager, _, ok := strings.Cut(key.ID, "/")
		if !ok {
			return fmt.Errorf("invalid secret id: %s", key.ID)
		}
		if manager == "" {
			return errors.New("missing secret type")
		}
		return c.Documents.CheckSecret(manager, raw)
	case model.KindPluginMetadata:
		return c.metadata(key, raw)
	}
	return c.Documents.Check(key.Kind, raw)
}

func (c *Checker) metadata(key model.Key, raw []byte) error {
	spec, here := c.Plugins[key.ID]
	described := spec.MetadataSchema()
	if !here {
		var stream plugin.StreamSpec
		if stream, here = c.Streams[key.ID]; here {
			described = stream.MetadataSchema()
		}
	}
	switch {
	case key.ID == "":
		return errors.New("missing plugin name")
	case here:
		if err := c.Documents.Check(key.Kind, raw); err != nil || described == nil {
			return err
		}
		if err := described.Check(raw); err != nil {
			return fmt.Errorf("invalid configuration: %w", err)
		}
		return nil
	case slices.Contains(apisix.PluginNames(), key.ID):
		return notYet(key.ID)
	}
	return errors.New("invalid plugin name")
}

// Runs checks that the plugins of an object may be configured, and compiles it.
func (c *Checker) Runs(key model.Key, v *document.Value, raw []byte) error {
	prefix := ""
	if key.Kind == model.KindConsumer || key.Kind == model.KindCredential {
		prefix = "invalid plugins configuration: "
	}
	if err := c.pluginNames(v.Get("plugins"), key.Kind == model.KindStreamRoute); err != nil {
		return fmt.Errorf("%s%w", prefix, err)
	}
	if err := c.Compile(model.Object{Key: key, Raw: raw}); err != nil {
		return fmt.Errorf("%s%w", prefix, err)
	}
	return c.authOnly(key, v)
}

// authOnly sees that a credential has plugins that authenticate and no others.
// Of one that nobody knows nothing is said here.
func (c *Checker) authOnly(key model.Key, v *document.Value) error {
	plugins := v.Get("plugins")
	if key.Kind != model.KindCredential || plugins == nil {
		return nil
	}
	for _, m := range plugins.Members {
		if spec, here := c.Plugins[m.Name]; here && spec.Type != "auth" {
			return errors.New("only supports auth type plugins in consumer credential")
		}
	}
	return nil
}

func (c *Checker) pluginNames(plugins *document.Value, stream bool) error {
	if plugins == nil {
		return nil
	}
	for _, m := range plugins.Members {
		if !m.Value.Is(document.Object) && !m.Value.Is(document.Array) {
			return fmt.Errorf("invalid plugin conf %s for plugin [%s]", m.Value, m.Name)
		}
		_, here := c.Plugins[m.Name]
		if stream {
			_, here = c.Streams[m.Name]
		}
		enabled := c.Enabled == nil || c.Enabled(m.Name, stream)
		switch {
		case here && enabled:
		case enabled && exists(m.Name, stream):
			return notYet(m.Name)
		default:
			return fmt.Errorf("unknown plugin [%s]", m.Name)
		}
	}
	return nil
}

// streamNames are the plugins of stream routes in APISIX. It is immutable.
var streamNames = []string{"ip-restriction", "limit-conn", "mqtt-proxy", "prometheus", "syslog", "traffic-split"}

// exists says that APISIX has such a plugin for such routes.
func exists(name string, stream bool) bool {
	if stream {
		return slices.Contains(streamNames, name)
	}
	return name != "mqtt-proxy" && slices.Contains(apisix.PluginNames(), name)
}

func notYet(plugin string) error {
	return fmt.Errorf("plugin [%s] is not supported by this version of Weir yet", plugin)
}

// Check reports why an item may not be part of the configuration.
func (c *Checker) Check(it Item) error {
	if err := c.Read(it); err != nil || it.Section == model.KindPlugins {
		return err
	}
	return c.Runs(it.Key, it.Value, it.Raw)
}

// Read reports what is wrong with an item's document, without compiling it or
// asking which plugins there are.
func (c *Checker) Read(it Item) error {
	if it.Section == model.KindPlugins {
		return c.Documents.Check(model.KindPlugins, it.Raw)
	}
	if err := c.version(it); err != nil {
		return err
	}
	if it.Value.Is(document.Object) || it.Index < 0 {
		if err := it.Named(); err != nil {
			return err
		}
	}
	if err := c.Document(it.Key, it.Raw); err != nil {
		return err
	}
	return c.authOnly(it.Key, it.Value)
}

func (c *Checker) version(it Item) error {
	if it.Version == nil {
		return nil
	}
	if !c.Versioned {
		return fmt.Errorf("invalid configuration: additional properties forbidden, found %s", versionMember)
	}
	if n, err := strconv.ParseFloat(it.Version.Text, 64); !it.Version.Is(document.Number) || err != nil || n != float64(int64(n)) {
		return fmt.Errorf("invalid configuration: property %q validation failed: wrong type: expected integer, got %s", versionMember, it.Version.Kind)
	}
	return nil
}

// A Problem is what is wrong with a document.
type Problem struct {
	Section model.Kind
	Index   int             // of the item, from 0; -1: it is about the section
	ID      *document.Value // of the item; nil: it has none
	Err     error
}

// Validate returns what is wrong with a document: everything, or, if all is
// false, the first problem that there is. Items that pass says were checked
// before are not checked again; it may be nil.
func (c *Checker) Validate(doc *document.Value, all bool, pass func(Item) bool) []Problem {
	var out []Problem
	items := Items(doc)
	for _, section := range Sections() {
		if _, err := SectionVersion(doc, section); err != nil {
			if all {
				err = fmt.Errorf("%w, got %s", err, luaType(doc.Get(section.Dir()+VersionSuffix)))
			}
			out = append(out, Problem{Section: section, Index: -1, Err: err})
		}
		seen := map[string]bool{}
		for len(items) > 0 && items[0].Section == section && (all || len(out) == 0) {
			it := items[0]
			items = items[1:]
			if pass == nil || !pass(it) {
				if err := c.Check(it); err != nil {
					out = append(out, Problem{section, it.Index, it.Own, err})
				}
			}
			if err := duplicate(it, seen); err != nil {
				out = append(out, Problem{section, it.Index, it.Own, err})
			}
		}
		if !all && len(out) > 0 {
			return out[:1]
		}
	}
	return out
}

// duplicate reports that an id is there a second time.
func duplicate(it Item, seen map[string]bool) error {
	id, named := ID(it.Own)
	if !named {
		return nil
	}
	if !seen[id] {
		seen[id] = true
		return nil
	}
	what := "id"
	if it.Section == model.KindConsumer {
		what = "username"
		if it.Value.Get("id") != nil {
			what = "credential id"
		}
	}
	return fmt.Errorf("found duplicate %s %s in %s", what, id, it.Section.Dir())
}

// luaType names a type as the messages of APISIX do.
func luaType(v *document.Value) string {
	switch v.Kind {
	case document.Array, document.Object:
		return "table"
	case document.Null:
		return "userdata"
	}
	return v.Kind.String()
}

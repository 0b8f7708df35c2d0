// Package declared reads whole configurations that stand in one document
// (apisix-config.md section 3): a table of sections, each an array of objects.
// It finds the objects and their ids, checks them, and tells two versions of a
// document apart object by object.
package declared

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
)

// VersionSuffix follows a section's name in the name of its version.
const VersionSuffix = "_conf_version"

// versionMember is the item's own version.
const versionMember = "modifiedIndex"

// Sections are the sections of a document by the kind of their objects, in the
// order in which they are read. Each has the name of its kind's directory.
// Credentials stand among the consumers.
func Sections() []model.Kind {
	var out []model.Kind
	for k := range model.KindCount {
		if k != model.KindCredential && k != model.KindCostDecoration {
			out = append(out, k)
		}
	}
	return out
}

// An Item is one object of a document.
type Item struct {
	model.Key
	Section model.Kind
	Index   int             // in the section, from 0; -1: the section as a whole
	Value   *document.Value // without its modifiedIndex
	Raw     []byte          // Value as JSON
	Digest  Digest          // of Raw

	// Version is the item's modifiedIndex; nil: it has none.
	Version *document.Value

	// Own is the item's id as it stands there, for consumers without one the
	// username; nil: it has neither, the Key is made of its place.
	Own *document.Value

	// Fault, if not nil, is what is known to be wrong with it. It is in force as
	// far as whoever applies it lets it be.
	Fault error
}

// Named reports why an item is no object that could be told from others; nil:
// it is one, whatever else is wrong with it.
func (it Item) Named() error {
	switch {
	case it.Section == model.KindPlugins:
		return nil
	case it.Index < 0:
		return fmt.Errorf("invalid configuration: wrong type: expected array, got %s", it.Value.Kind)
	case !it.Value.Is(document.Object):
		return fmt.Errorf("invalid configuration: wrong type: expected object, got %s", it.Value.Kind)
	case it.Own != nil:
		return nil
	}
	switch it.Section { // a place in the list is no name for them
	case model.KindPluginMetadata:
		return errors.New("missing plugin name")
	case model.KindSecret:
		return errors.New("invalid secret id: ")
	case model.KindConsumer:
		return errors.New(`invalid configuration: property "username" is required`)
	}
	return nil
}

// A Digest stands for a content.
type Digest = [sha256.Size]byte

// Items returns the objects of a document, in order. A section that is missing
// or empty has none; one that is no array is one Item of its own, which does
// not pass Check. The list of plugins is one object.
func Items(doc *document.Value) []Item {
	var out []Item
	for _, section := range Sections() {
		v := doc.Get(section.Dir())
		switch {
		case isEmpty(v) && (section != model.KindPlugins || v == nil):
		case section == model.KindPlugins:
			if !v.Is(document.Array) && isEmpty(v) {
				v = &document.Value{Kind: document.Array}
			}
			out = append(out, newItem(model.Key{Kind: section}, section, -1, v))
		case !v.Is(document.Array):
			out = append(out, newItem(model.Key{Kind: section}, section, -1, v))
		default:
			for i, item := range v.Items {
				out = append(out, member(section, i, item))
			}
		}
	}
	return out
}

// Strays are the names of lists in a document that are no sections, in order: most
// likely one is spelled wrong. Lists under names that begin like those of
// extensions in such documents ("x-", "." and "_") are there to be referred to.
func Strays(doc *document.Value) (names []string) {
	for _, m := range doc.Members {
		known := slices.ContainsFunc(Sections(), func(k model.Kind) bool { return k.Dir() == m.Name })
		meant := strings.HasPrefix(m.Name, "x-") || strings.HasPrefix(m.Name, ".") || strings.HasPrefix(m.Name, "_")
		if !known && !meant && m.Value.Is(document.Array) && len(m.Value.Items) > 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// isEmpty says that v is nothing, in one of the ways in which Lua writes that.
func isEmpty(v *document.Value) bool {
	return v == nil || v.Kind == document.Null || v.Is(document.Object) && len(v.Members) == 0
}

func member(section model.Kind, i int, v *document.Value) Item {
	kind, own := section, v.Get("id")
	if own == nil {
		own = v.Get("username")
	}
	id, named := ID(own)
	if !named {
		id, own = "arr_"+strconv.Itoa(i+1), nil
	}
	if section == model.KindConsumer {
		if strings.Contains(id, "/credentials/") {
			kind = model.KindCredential
		} else if name := v.Get("username"); name.Is(document.String) {
			id = name.Text // what requests and credentials know the consumer by
		}
	}
	it := newItem(model.Key{Kind: kind, ID: id}, section, i, v)
	it.Own = own
	return it
}

func newItem(key model.Key, section model.Kind, i int, v *document.Value) Item {
	it := Item{Key: key, Section: section, Index: i, Value: v}
	if it.Version = v.Get(versionMember); it.Version != nil {
		plain := *v
		plain.Members = slices.DeleteFunc(slices.Clone(v.Members), func(m document.Member) bool { return m.Name == versionMember })
		it.Value = &plain
	}
	it.Raw = it.Value.Append(nil)
	it.Digest = sha256.Sum256(it.Raw)
	return it
}

// ID is the text of an id, and whether v can be one. A whole number is its
// digits however it is written.
func ID(v *document.Value) (string, bool) {
	text, ok := v.Scalar()
	if ok && v.Is(document.Number) {
		if f, err := strconv.ParseFloat(text, 64); err == nil && f == float64(int64(f)) {
			return strconv.FormatInt(int64(f), 10), true
		}
	}
	return text, ok && text != ""
}

// errVersion says that a version is no number.
var errVersion = errors.New("must be a number")

// SectionVersion is the version that a document gives a section, NaN if it gives
// none. The error's text is for the client, without what the version is instead.
func SectionVersion(doc *document.Value, section model.Kind) (float64, error) {
	v := doc.Get(section.Dir() + VersionSuffix)
	if v == nil {
		return math.NaN(), nil
	}
	n, err := strconv.ParseFloat(v.Text, 64)
	if !v.Is(document.Number) || err != nil {
		return 0, fmt.Errorf("%s%s %w", section.Dir(), VersionSuffix, errVersion)
	}
	return n, nil
}

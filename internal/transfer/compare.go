package transfer

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
)

// What happens to an object.
const (
	Created = "created"
	Changed = "changed"
	Deleted = "deleted"
)

// A Change is one object that two States do not share.
type Change struct {
	Key    model.Key
	Action string // Created, Changed, Deleted: what makes the first State the second

	// Properties are those of a changed object that differ, secrets by number.
	Properties []Property

	from, to *document.Value // in the form of their States; nil: not there
}

// A Property is a difference inside an object. From and To are JSON; one that is
// not there is empty.
type Property struct {
	Path string `json:"path"` // dotted; items of lists by their number from 1
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Compare lists what makes from into to, by kind and id. Times, defaults that
// are spelled out, the order of members and the form of secrets, sealed or open,
// are no differences. Where one side lacks the private keys of a certificate,
// because the Admin API does not give them out, they are not compared. The list
// of plugins of a gateway is left out.
func (s *Schemas) Compare(from, to *State) []Change {
	var out []Change
	for key, v := range to.Objects {
		was, had := from.Objects[key]
		switch {
		case key.Kind == model.KindPlugins:
		case !had:
			out = append(out, Change{Key: key, Action: Created, to: v})
		default:
			if p := s.properties(key, was, v); len(p) > 0 {
				out = append(out, Change{Key: key, Action: Changed, Properties: p, from: was, to: v})
			}
		}
	}
	for key, was := range from.Objects {
		if _, has := to.Objects[key]; !has && key.Kind != model.KindPlugins {
			out = append(out, Change{Key: key, Action: Deleted, from: was})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return compareKeys(a.Key, b.Key) })
	return out
}

func (s *Schemas) properties(key model.Key, a, b *document.Value) []Property {
	if equal(a, b) {
		return nil
	}
	a, b = clone(a), clone(b)
	s.Open(key, a)
	s.Open(key, b)
	if key.Kind == model.KindSSL && (a.Get("key") == nil || b.Get("key") == nil) {
		for _, name := range []string{"key", "keys"} {
			a.Delete(name)
			b.Delete(name)
		}
	}
	if equal(a, b) {
		return nil
	}
	a, b = s.filled(key, a), s.filled(key, b)
	numbers := map[string]string{}
	number := func(secret string) string {
		if numbers[secret] == "" {
			numbers[secret] = fmt.Sprintf("(secret %d)", len(numbers)+1)
		}
		return numbers[secret]
	}
	s.Mask(key, a, number)
	s.Mask(key, b, number)
	return appendProperties(nil, "", a, b)
}

func appendProperties(out []Property, path string, a, b *document.Value) []Property {
	switch {
	case a != nil && b != nil && equal(a, b):
		return out
	case isTable(a) && isTable(b):
		for _, name := range names(a, b) {
			out = appendProperties(out, join(path, name), a.Get(name), b.Get(name))
		}
		return out
	case a.Is(document.Array) && b.Is(document.Array) && len(a.Items) == len(b.Items):
		for i := range a.Items {
			out = appendProperties(out, join(path, strconv.Itoa(i+1)), a.Items[i], b.Items[i])
		}
		return out
	}
	text := func(v *document.Value) string {
		if v == nil {
			return ""
		}
		return v.String()
	}
	return append(out, Property{Path: path, From: text(a), To: text(b)})
}

// names are those of the members of either object, in byte order.
func names(a, b *document.Value) []string {
	var all []string
	for _, v := range []*document.Value{a, b} {
		for _, m := range v.Members {
			all = append(all, m.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isTable says that v is an object, or the empty list that Lua writes for one.
func isTable(v *document.Value) bool {
	return v.Is(document.Object) || v.Is(document.Array) && len(v.Items) == 0
}

// equal says that two values mean the same: objects whatever the order of their
// members, numbers by value, the empty list and the empty object alike.
func equal(a, b *document.Value) bool {
	switch {
	case isTable(a) && isTable(b):
		if len(a.Members) != len(b.Members) {
			return false
		}
		for i, m := range a.Members {
			other := b.Members[i]
			if other.Name != m.Name { // in another order
				other.Value = b.Get(m.Name)
			}
			if other.Value == nil || !equal(m.Value, other.Value) {
				return false
			}
		}
		return true
	case a.Kind != b.Kind:
		return false
	case a.Is(document.Array):
		return slices.EqualFunc(a.Items, b.Items, equal)
	case a.Is(document.Number):
		return a.Text == b.Text || decimal(a.Text) == decimal(b.Text)
	}
	return a.Text == b.Text
}

// decimal is one text for all ways to write a number: its digits without zeros
// at either end, and an exponent of any size.
func decimal(s string) string {
	exponent := new(big.Int)
	mantissa := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		exponent.SetString(s[i+1:], 10)
	}
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0"
	}
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(short)-len(fraction))))
	if negative {
		short = "-" + short
	}
	return short + "e" + exponent.String()
}

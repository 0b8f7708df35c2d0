package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// words picks the first failure of err, in the order in which APISIX's validator
// (api7/jsonschema 0.9) looks, and says it in that validator's words. Among siblings
// that have no order there, the document's order counts. root is the document
// that was checked.
func (s *Schema) words(root any, err *jsonschema.ValidationError) string {
	t := translator{order: s.order, root: root}
	t.collect(base{at: place{node: root}}, err)
	first := slices.MinFunc(t.failures, func(a, b failure) int {
		return slices.CompareFunc(a.order, b.order, step.compare)
	})
	return first.text
}

// A translator gathers the failures of one check.
type translator struct {
	order    map[string]int
	root     any
	failures []failure
}

// A failure is one reason, with what places it among others.
type failure struct {
	text  string
	order []step
}

// A step is one decision of the order: where among the keywords of a schema,
// then which of several at the same place.
type step struct {
	stage stage
	n     int
	name  string
}

func (a step) compare(b step) int {
	return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.n, b.n), cmp.Compare(a.name, b.name))
}

// A stage is a place in the order in which the keywords of one schema are looked at.
type stage int

const (
	stageType stage = iota
	stageProperty
	stageRequired
	stageDependency
	stageOtherProperty
	stagePropertyCount
	stageItemCount
	stageItem
	stageUnique
	stageLength
	stagePattern
	stageNumber
	stageEnum
	stageAllOf
	stageAnyOf
	stageOneOf
	stageIf
	stageNot
	stageFormat
	stageRest
)

// A base is where the locations of errors are counted from: the document's
// root, or the target of a reference.
type base struct {
	skip int // tokens that lead to the base itself
	at   place
}

// A place is a schema within the document and the words that lead to it.
type place struct {
	node   any
	ptr    string // JSON pointer in the document as it was given
	depth  int    // of the value
	prefix string
	order  []step
	closed bool // the prefix says it all
}

func (t *translator) collect(from base, err *jsonschema.ValidationError) {
	at := from.at
	t.follow(&at, tokens(err.SchemaURL)[from.skip:], err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf:
		for _, c := range err.Causes {
			t.collect(from, c)
		}
		return
	case *kind.Reference:
		toks := tokens(k.URL)
		at.node, at.ptr = target(t.root, toks)
		for _, c := range err.Causes {
			t.collect(base{skip: len(toks), at: at}, c)
		}
		return
	}
	f := failure{text: at.prefix, order: at.order}
	if !at.closed {
		last, text := t.leaf(&at, err)
		f.text += text
		f.order = append(slices.Clip(f.order), last)
	}
	t.failures = append(t.failures, f)
}

// tokens are the parts of a location's fragment.
func tokens(location string) []string {
	_, frag, _ := strings.Cut(location, "#")
	if un, err := url.PathUnescape(frag); err == nil {
		frag = un
	}
	if frag == "" {
		return nil
	}
	parts := strings.Split(frag[1:], "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

// target finds the schema that a reference means.
func target(root any, toks []string) (node any, ptr string) {
	node = root
	for _, tok := range toks {
		wrapped := false
		switch x := node.(type) {
		case map[string]any:
			wrapped = tok == "else" && x["$comment"] == refMark
			node = x[tok]
		case []any:
			node = x[atoi(tok)]
		}
		if !wrapped {
			ptr += "/" + escape(tok)
		}
	}
	return node, ptr
}

// follow moves p along toks, collecting the words and the order on the way.
func (t *translator) follow(p *place, toks, instance []string) {
	for len(toks) > 0 && !p.closed {
		obj, _ := p.node.(map[string]any)
		kw, arg := toks[0], ""
		if len(toks) > 1 {
			arg = toks[1]
		}
		if kw == "else" && obj["$comment"] == refMark {
			p.node, toks = obj[kw], toks[1:]
			continue
		}
		name := ""
		if p.depth < len(instance) {
			name = instance[p.depth]
		}
		used := t.enter(p, obj, kw, arg, name)
		toks = toks[min(used, len(toks)):]
	}
}

// enter moves p into the subschema under kw and returns how many tokens that took.
func (t *translator) enter(p *place, obj map[string]any, kw, arg, name string) int {
	words, at, used, deeper := "", step{stage: stageRest, name: kw}, 1, false
	switch kw {
	case "properties":
		words, used, deeper = "property "+quote(arg)+" validation failed: ", 2, true
		at = step{stage: stageProperty, n: t.order[p.ptr+"/properties/"+escape(arg)]}
	case "patternProperties":
		words, used, deeper = "failed to validate "+name+" (matching "+quote(arg)+"): ", 2, true
		at = step{stage: stageOtherProperty, name: name}
	case "additionalProperties":
		words, deeper = "failed to validate additional property "+name+": ", true
		at = step{stage: stageOtherProperty, name: name}
	case "items":
		if _, tuple := obj[kw].([]any); tuple {
			used = 2
		}
		words, deeper = fmt.Sprintf("failed to validate item %d: ", atoi(name)+1), true
		at = step{stage: stageItem, n: atoi(name)}
	case "additionalItems":
		words, deeper = fmt.Sprintf("failed to validate additional item %d: ", atoi(name)+1), true
		at = step{stage: stageItem, n: atoi(name)}
	case "allOf":
		words, used = fmt.Sprintf("allOf %d failed: ", atoi(arg)+1), 2
		at = step{stage: stageAllOf, n: atoi(arg)}
	case "dependencies":
		words, used = "failed to validate dependent schema for "+quote(arg)+": ", 2
		at = t.dependency(p, obj, arg)
	case "then", "else":
		words, at = kw+" clause did not match", step{stage: stageIf}
		p.closed = true
	}
	p.node = obj[kw]
	p.ptr += "/" + kw
	if used == 2 {
		p.node, _ = target(p.node, []string{arg})
		p.ptr += "/" + escape(arg)
	}
	p.prefix += words
	p.order = append(slices.Clip(p.order), at)
	if deeper {
		p.depth++
	}
	return used
}

// leaf is the failure itself, seen from the schema at p.
func (t *translator) leaf(p *place, err *jsonschema.ValidationError) (step, string) {
	obj, _ := p.node.(map[string]any)
	switch k := err.ErrorKind.(type) {
	case *kind.FalseSchema:
		return step{}, "expect false always"
	case *kind.Type:
		return step{}, "wrong type: expected " + wanted(obj["type"]) + ", got " + luaType(k.Got)
	case *kind.Required:
		at, name := t.firstMissing(p, obj, k.Missing)
		return at, "property " + quote(name) + " is required"
	case *kind.Dependency:
		return t.dependency(p, obj, k.Prop), "property " + quote(k.Missing[0]) + " is required when " + quote(k.Prop) + " is set"
	case *kind.AdditionalProperties:
		name := slices.Min(k.Properties)
		return step{stage: stageOtherProperty, name: name}, "additional properties forbidden, found " + name
	case *kind.AnyOf:
		return step{stage: stageAnyOf}, "object matches none of the required" + requireds(obj["anyOf"])
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return step{stage: stageOneOf}, "value should match only one schema, but matches none"
		}
		return step{stage: stageOneOf}, fmt.Sprintf("value should match only one schema, but matches both schemas %d and %d",
			k.Subschemas[0]+1, k.Subschemas[1]+1)
	case *kind.Not:
		return step{stage: stageNot}, "value wasn't supposed to match schema"
	case *kind.Enum:
		return step{stage: stageEnum}, "matches none of the enum values"
	case *kind.Const:
		return step{stage: stageRest}, "failed to check const value"
	case *kind.Contains:
		return step{stage: stageRest, n: 1}, "failed to check contains"
	case *kind.Format:
		return step{stage: stageFormat}, fmt.Sprintf("expect valid %s but got: %v", formatName(k.Want), k.Got)
	}
	return sizes(err.ErrorKind)
}

// sizes words the failures of lengths, counts and numbers.
func sizes(err jsonschema.ErrorKind) (step, string) {
	number := func(n int, got, want *big.Rat, how string) (step, string) {
		return step{stage: stageNumber, n: n}, "expected " + luaNumber(got) + " to be " + how + " " + luaNumber(want)
	}
	switch k := err.(type) {
	case *kind.MinProperties:
		return step{stage: stagePropertyCount}, fmt.Sprintf("expect object to have at least %d properties", k.Want)
	case *kind.MaxProperties:
		return step{stage: stagePropertyCount, n: 1}, fmt.Sprintf("expect object to have at most %d properties", k.Want)
	case *kind.MinItems:
		return step{stage: stageItemCount}, fmt.Sprintf("expect array to have at least %d items", k.Want)
	case *kind.MaxItems:
		return step{stage: stageItemCount, n: 1}, fmt.Sprintf("expect array to have at most %d items", k.Want)
	case *kind.AdditionalItems:
		return step{stage: stageItem, n: 1 << 30}, "found unexpected extra items in array"
	case *kind.UniqueItems:
		i, j := k.Duplicates[0]+1, k.Duplicates[1]+1
		return step{stage: stageUnique}, fmt.Sprintf("expected unique items but items %d and %d are equal", min(i, j), max(i, j))
	case *kind.MinLength:
		return step{stage: stageLength}, fmt.Sprintf("string too short, expected at least %d, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return step{stage: stageLength, n: 1}, fmt.Sprintf("string too long, expected at most %d, got %d", k.Want, k.Got)
	case *kind.Pattern:
		return step{stage: stagePattern}, "failed to match pattern " + quote(k.Want) + " with " + quote(withoutPassword(k.Got))
	case *kind.Minimum:
		return number(0, k.Got, k.Want, "at least")
	case *kind.ExclusiveMinimum:
		return number(1, k.Got, k.Want, "greater than")
	case *kind.Maximum:
		return number(2, k.Got, k.Want, "at most")
	case *kind.ExclusiveMaximum:
		return number(3, k.Got, k.Want, "smaller than")
	case *kind.MultipleOf:
		return number(4, k.Got, k.Want, "a multiple of")
	}
	return step{stage: stageRest, n: 2}, "value does not match the schema"
}

// dependency is the place of a dependency of the property name: behind the
// property, if the schema describes it.
func (t *translator) dependency(p *place, obj map[string]any, name string) step {
	props, _ := obj["properties"].(map[string]any)
	if _, described := props[name]; described {
		return step{stage: stageProperty, n: t.order[p.ptr+"/properties/"+escape(name)], name: "dependency"}
	}
	return step{stage: stageDependency, n: t.order[p.ptr+"/dependencies/"+escape(name)]}
}

// firstMissing picks the property to name: first those that the schema
// describes, in its order, then the others in the order of the requirement.
func (t *translator) firstMissing(p *place, obj map[string]any, missing []string) (step, string) {
	props, _ := obj["properties"].(map[string]any)
	var best step
	name := ""
	for i, m := range missing {
		at := step{stage: stageRequired, n: i}
		if _, described := props[m]; described {
			at = step{stage: stageProperty, n: t.order[p.ptr+"/properties/"+escape(m)]}
		}
		if name == "" || at.compare(best) < 0 {
			best, name = at, m
		}
	}
	return best, name
}

// requireds lists what the branches of an anyOf require, if they do.
func requireds(anyOf any) string {
	branches, _ := anyOf.([]any)
	var lists []string
	for _, b := range branches {
		obj, _ := unwrap(b).(map[string]any)
		if req, ok := obj["required"]; ok {
			if text, err := marshal(req); err == nil {
				lists = append(lists, string(text))
			}
		}
	}
	if lists == nil {
		return ""
	}
	return ": " + strings.Join(lists, " or ")
}

func wanted(typ any) string {
	list, ok := typ.([]any)
	if !ok {
		return fmt.Sprint(typ)
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = fmt.Sprint(t)
	}
	return "one of " + strings.Join(names, ", ")
}

// luaType is the name Lua has for a JSON type.
func luaType(t string) string {
	switch t {
	case "object", "array":
		return "table"
	case "null":
		return "userdata"
	case "integer":
		return "number"
	}
	return t
}

// luaNumber prints as Lua does, with fourteen significant digits.
func luaNumber(r *big.Rat) string {
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', 14, 64)
}

func formatName(name string) string {
	switch name {
	case "email":
		return "email address"
	case "ipv4", "ipv6":
		return name + " address"
	}
	return name
}

// withoutPassword is s with *** for the user and password of what may be a URL:
// messages are logged.
func withoutPassword(s string) string {
	end := strings.LastIndexByte(s, '@')
	if end < 0 {
		return s
	}
	start := 0
	if i := strings.Index(s[:end], "//"); i >= 0 {
		start = i + len("//")
	}
	if !strings.Contains(s[start:end], ":") {
		return s
	}
	return s[:start] + "***" + s[end:]
}

// quote is Lua's %q for text on one line.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case 0:
			b.WriteString(`\0`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

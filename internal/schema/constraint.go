package schema

import "encoding/json"

// A Constraint ties several properties of an object together.
type Constraint struct {
	keyword string
	value   any
}

// ExactlyOne admits objects that have all properties of one group and of no other.
func ExactlyOne(groups ...[]string) Constraint { return Constraint{"oneOf", required(groups)} }

// AtLeastOne admits objects that have all properties of some group.
func AtLeastOne(groups ...[]string) Constraint { return Constraint{"anyOf", required(groups)} }

func required(groups [][]string) []members {
	var alternatives []members
	for _, g := range groups {
		alternatives = append(alternatives, members{{"required", g}})
	}
	return alternatives
}

// Requires admits objects without property name, and those that also have others.
func Requires(name string, others ...string) Constraint {
	return Constraint{"dependencies", members{{name, others}}}
}

// Excludes admits objects without property name, and those that have none of others.
func Excludes(name string, others ...string) Constraint {
	var each [][]string
	for _, o := range others {
		each = append(each, []string{o})
	}
	return Constraint{"dependencies", members{{name, members{{"not", members{{"anyOf", required(each)}}}}}}}
}

// When demands props of objects whose property name is value.
func When(name, value string, props ...string) Constraint {
	return Constraint{"if", members{
		{"if", members{{"properties", members{{name, members{{"enum", []string{value}}}}}}, {"required", []string{name}}}},
		{"then", members{{"required", props}}},
	}}
}

// Keyword adds a JSON Schema keyword with the given value, as JSON. It panics if
// that is not JSON. The keyword if is not for it: give allOf with the whole of
// it inside.
func Keyword(name, value string) Constraint {
	if !json.Valid([]byte(value)) {
		panic("schema: not JSON: " + value)
	}
	return Constraint{name, json.RawMessage(value)}
}

// Conditional adds the keywords if, then and else, given as the members of a
// JSON object; the branches may describe properties of their own. It panics if
// doc is not one.
func Conditional(doc string) Constraint { return Constraint{"if", ordered([]byte(doc))} }

// constrain adds constraints to a schema. A keyword that is taken goes under allOf,
// dependencies of different properties are put together.
func constrain(doc *members, list []Constraint) {
	var more []members
	for _, c := range list {
		taken, there := doc.find(c.keyword)
		switch {
		case !there && c.keyword == "if":
			*doc = append(*doc, c.parts()...)
		case !there:
			doc.add(c.keyword, c.value)
		case c.keyword == "dependencies" && disjoint(taken, c.value):
			doc.set(c.keyword, append(taken.(members), c.value.(members)...))
		default:
			more = append(more, c.parts())
		}
	}
	if more != nil {
		doc.add("allOf", more)
	}
}

// parts is the constraint as a schema of its own.
func (c Constraint) parts() members {
	if m, ok := c.value.(members); ok && c.keyword == "if" {
		return m
	}
	return members{{c.keyword, c.value}}
}

func disjoint(a, b any) bool {
	x, ok := a.(members)
	y, also := b.(members)
	if !ok || !also {
		return false
	}
	for _, m := range y {
		if _, there := x.find(m.name); there {
			return false
		}
	}
	return true
}

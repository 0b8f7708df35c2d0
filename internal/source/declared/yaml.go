package declared

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"weir/internal/document"
)

// ParseYAML reads the first document of a YAML text as a JSON document. Plain
// scalars mean what they mean to APISIX, which reads YAML 1.1 (lyaml): yes, no,
// on and off are booleans, 0755 is octal, and null, or nothing at all, is an
// empty object, so that "key-auth:" configures a plugin. Numbers with a fraction
// or exponent keep their digits. Merge keys are merged. The error tells the
// line.
func ParseYAML(text []byte) (*document.Value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, atLine(err)
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("yaml: the document is empty")
	}
	// Aliases let a short text stand for a huge document.
	const spare = 1 << 20
	r := yamlReader{left: len(text) + spare}
	return r.read(doc.Content[0], 0)
}

// atLine corrects the line in a syntax error: of what the grammar, not the
// scanner, refuses, package yaml counts lines from 0.
func atLine(err error) error {
	rest, found := strings.CutPrefix(err.Error(), "yaml: line ")
	digits, what, _ := strings.Cut(rest, ": ")
	line, notNumber := strconv.Atoi(digits)
	expected, isGrammar := strings.CutPrefix(what, "did not find expected ")
	if !found || notNumber != nil || !isGrammar {
		return err
	}
	switch expected {
	case "',' or '}'", "',' or ']'", "key", "'-' indicator", "node content", "<document start>":
		return fmt.Errorf("yaml: line %d: %s", line+1, what)
	}
	return err
}

// A yamlReader turns YAML nodes into JSON values.
type yamlReader struct{ left int }

func (r *yamlReader) read(y *yaml.Node, depth int) (*document.Value, error) {
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("yaml: line %d: aliases make the document too large", y.Line)
	}
	if depth > document.MaxDepth {
		return nil, fmt.Errorf("yaml: line %d: nested more than %d levels deep", y.Line, document.MaxDepth)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.read(y.Alias, depth+1)
	case yaml.MappingNode:
		o := object{value: document.NewObject()}
		return o.value, r.members(&o, y, depth)
	case yaml.SequenceNode:
		v := &document.Value{Kind: document.Array, Items: make([]*document.Value, 0, len(y.Content))}
		for _, c := range y.Content {
			item, err := r.read(c, depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, item)
		}
		return v, nil
	}
	return scalar(y)
}

func (r *yamlReader) members(o *object, y *yaml.Node, depth int) error {
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("yaml: line %d: a key is not a text", key.Line)
		}
		v, err := r.read(value, depth+1)
		if err != nil {
			return err
		}
		if key.Value != "<<" {
			o.set(key.Value, v, true)
			continue
		}
		if err := o.merge(v); err != nil {
			return fmt.Errorf("yaml: line %d: %w", key.Line, err)
		}
	}
	return nil
}

// An object is one in the making. index has the places of its members.
type object struct {
	value *document.Value
	index map[string]int
}

func (o *object) set(name string, v *document.Value, replace bool) {
	const large = 16 // from which on a search costs more than a map
	at, there := o.index[name]
	if o.index == nil {
		for at = range o.value.Members {
			if there = o.value.Members[at].Name == name; there {
				break
			}
		}
	}
	if there {
		if replace {
			o.value.Members[at].Value = v
		}
		return
	}
	o.value.Members = append(o.value.Members, document.Member{Name: name, Value: v})
	switch n := len(o.value.Members); {
	case o.index != nil:
		o.index[name] = n - 1
	case n == large:
		o.index = make(map[string]int, 2*large)
		for i, m := range o.value.Members {
			o.index[m.Name] = i
		}
	}
}

// merge adds the members of the value of a merge key that are not there yet.
func (o *object) merge(v *document.Value) error {
	from := []*document.Value{v}
	if v.Is(document.Array) {
		from = v.Items
	}
	for _, f := range from {
		if !f.Is(document.Object) {
			return fmt.Errorf("cannot merge what is of type %s", f.Kind)
		}
		for _, m := range f.Members {
			o.set(m.Name, m.Value, false)
		}
	}
	return nil
}

func scalar(y *yaml.Node) (*document.Value, error) {
	tag := y.ShortTag()
	explicit := y.Style&yaml.TaggedStyle != 0
	switch {
	case explicit && (tag == "!!int" || tag == "!!float" || tag == "!!bool" || tag == "!!null"):
		v := plain(y.Value)
		if v.Is(document.String) {
			return nil, fmt.Errorf("yaml: line %d: invalid '%s' value", y.Line, tag)
		}
		return v, nil
	case explicit && tag == "!!str", y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return document.NewString(y.Value), nil
	}
	return plain(y.Value), nil
}

// plain is what a scalar without quotes means.
func plain(s string) *document.Value {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return document.NewObject()
	case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON":
		return &document.Value{Kind: document.Bool, Text: "true"}
	case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF":
		return &document.Value{Kind: document.Bool, Text: "false"}
	}
	if c := s[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return document.NewString(s)
	}
	if n, ok := number(s); ok {
		return &document.Value{Kind: document.Number, Text: n}
	}
	return document.NewString(s)
}

// number returns the JSON form of a YAML number. Infinities have none and stay
// texts, and so do the sexagesimal numbers of YAML 1.1.
func number(s string) (string, bool) {
	if isJSONNumber(s) {
		return s, true
	}
	digits := strings.ReplaceAll(s, "_", "")
	sign := ""
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		sign, digits = strings.TrimPrefix(digits[:1], "+"), digits[1:]
	}
	if digits == "" || digits[0] != '.' && (digits[0] < '0' || digits[0] > '9') {
		return "", false
	}
	base := 10
	switch {
	case strings.HasPrefix(digits, "0x"):
		base, digits = 16, digits[2:]
	case strings.HasPrefix(digits, "0b"):
		base, digits = 2, digits[2:]
	case len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "01234567") == "":
		base = 8
	}
	if n, err := strconv.ParseUint(digits, base, 64); err == nil {
		return sign + strconv.FormatUint(n, 10), true
	}
	if base != 10 || !strings.ContainsAny(digits, ".eE") || strings.ContainsAny(digits, "xXpP") {
		return "", false
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	return sign + strconv.FormatFloat(f, 'g', -1, 64), true
}

// isJSONNumber says that a text is a number in JSON (RFC 8259 section 6).
func isJSONNumber(s string) bool {
	v, err := document.Parse([]byte(s))
	return err == nil && v.Is(document.Number) && v.Text == s
}

// YAML prints a document.
func YAML(v *document.Value) ([]byte, error) { return yaml.Marshal(node(v)) }

func node(v *document.Value) *yaml.Node {
	switch v.Kind {
	case document.Object:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, m := range v.Members {
			n.Content = append(n.Content, text(m.Name), node(m.Value))
		}
		if len(v.Members) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case document.Array:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v.Items {
			n.Content = append(n.Content, node(item))
		}
		if len(v.Items) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case document.String:
		return text(v.Text)
	case document.Null:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case document.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: v.Text}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: v.Text}
}

// text is a string, in quotes where it would be read as something else.
func text(s string) *yaml.Node {
	s = strings.ToValidUTF8(s, "\ufffd")
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if s == "<<" || !plain(s).Is(document.String) || strings.ContainsAny(s, "\n\r\t") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

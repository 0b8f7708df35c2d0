package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"go.yaml.in/yaml/v3"

	"weir/internal/document"
)

// maxValues bounds a file, against aliases that grow without end.
const maxValues = 1 << 24

// parseYAML reads a YAML document as the JSON document that means the same. An
// empty one is an empty object.
func parseYAML(text []byte) (*document.Value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return document.NewObject(), nil
	}
	r := yamlReader{}
	return r.value(doc.Content[0], 0)
}

// A yamlReader turns nodes into values and counts them.
type yamlReader struct{ values int }

func (r *yamlReader) value(y *yaml.Node, depth int) (*document.Value, error) {
	if r.values++; r.values > maxValues || depth > document.MaxDepth {
		return nil, fmt.Errorf("line %d: the document is nested too deeply or too large", y.Line)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.value(y.Alias, depth+1)
	case yaml.SequenceNode:
		v := &document.Value{Kind: document.Array}
		for _, c := range y.Content {
			item, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, item)
		}
		return v, nil
	case yaml.MappingNode:
		return r.object(y, depth)
	}
	return scalar(y)
}

// object reads a mapping. What a merge key brings yields to the mapping's own
// members, wherever it stands.
func (r *yamlReader) object(y *yaml.Node, depth int) (*document.Value, error) {
	v := document.NewObject()
	seen := map[string]bool{}
	var merged []*document.Value
	for i := 0; i < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		value, err := r.value(y.Content[i+1], depth+1)
		switch {
		case err != nil:
			return nil, err
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key that is no text", key.Line)
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			continue
		case seen[key.Value]:
			return nil, fmt.Errorf("line %d: %q is given twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		v.Members = append(v.Members, document.Member{Name: key.Value, Value: value})
	}
	for _, from := range merged {
		if err := inherit(v, seen, from); err != nil {
			return nil, fmt.Errorf("line %d: %w", y.Line, err)
		}
	}
	return v, nil
}

// inherit adds what a merge key names: a mapping, or several of which the first
// wins.
func inherit(v *document.Value, seen map[string]bool, from *document.Value) error {
	sources := []*document.Value{from}
	if from.Is(document.Array) {
		sources = from.Items
	}
	for _, s := range sources {
		if !s.Is(document.Object) {
			return errors.New("<< names what is no mapping")
		}
		for _, m := range s.Members {
			if !seen[m.Name] {
				seen[m.Name] = true
				v.Members = append(v.Members, m)
			}
		}
	}
	return nil
}

func scalar(y *yaml.Node) (*document.Value, error) {
	if y.Style == 0 && isNumber(y.Value) {
		// However large: the library takes what a float cannot hold for a text.
		return &document.Value{Kind: document.Number, Text: y.Value}, nil
	}
	switch y.ShortTag() {
	case "!!null":
		return &document.Value{Kind: document.Null}, nil
	case "!!bool":
		var b bool
		if err := y.Decode(&b); err != nil {
			return nil, err
		}
		return &document.Value{Kind: document.Bool, Text: strconv.FormatBool(b)}, nil
	case "!!int", "!!float":
		return number(y)
	case "!!binary":
		return nil, fmt.Errorf("line %d: binary data has no form in JSON", y.Line)
	}
	return document.NewString(y.Value), nil
}

// number reads the forms that JSON does not have: 0x1F, 1_000, .5
func number(y *yaml.Node) (*document.Value, error) {
	v := &document.Value{Kind: document.Number}
	if i, ok := new(big.Int).SetString(y.Value, 0); ok {
		v.Text = i.String()
		return v, nil
	}
	var f float64
	if err := y.Decode(&f); err != nil {
		return nil, err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("line %d: %s has no form in JSON", y.Line, y.Value)
	}
	v.Text = string(b)
	return v, nil
}

// isNumber reports whether s is a number as JSON writes it.
func isNumber(s string) bool {
	v, err := document.Parse([]byte(s))
	return err == nil && v.Is(document.Number)
}

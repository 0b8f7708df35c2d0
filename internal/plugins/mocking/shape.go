package mocking

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/plugin"
)

const (
	// enough bytes: what follows has one item in each array, which keeps an answer within this
	// and what the schema prints once. Arrays of arrays would otherwise multiply without end.
	enough = 1 << 20

	// mostLevels bounds the reading of a schema, which looks at what is inside once a level, and
	// the white space of XML.
	mostLevels = 100
)

// A shape is what random values look like.
type shape struct {
	kind       string
	example    any // string, float64 or bool, of the kind; nil: none
	properties []property
	items      *shape // nil: an array without items is none
}

type property struct {
	name string
	*shape
}

func (s *shape) addAll(list map[string]json.RawMessage, level int) error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		sub, err := shapeOf(list[name], level+1)
		if err != nil {
			return fmt.Errorf("response_schema: property %q: %w", name, err)
		}
		s.properties = append(s.properties, property{name, sub})
	}
	return nil
}

// shapeOf is the shape of the schema raw, which lies in level others.
func shapeOf(raw json.RawMessage, level int) (*shape, error) {
	if level > mostLevels {
		return nil, fmt.Errorf("it lies deeper than %d levels", mostLevels)
	}
	var doc struct {
		Type       string          `json:"type"`
		Example    any             `json:"example"`
		Properties json.RawMessage `json:"properties"`
		Items      json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	s := &shape{kind: strings.ToLower(doc.Type)}
	switch s.kind {
	case "object":
		return objectOf(doc.Properties, level)
	case "array":
		if doc.Items == nil {
			return s, nil
		}
		var err error
		s.items, err = shapeOf(doc.Items, level+1)
		return s, err
	case "":
		return nil, fmt.Errorf("it has no type")
	}
	if fits(s.kind, doc.Example) {
		s.example = doc.Example
	}
	return s, nil
}

func fits(kind string, example any) bool {
	switch example.(type) {
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer"
	case bool:
		return kind == "boolean" && example == true // APISIX draws lots for false
	}
	return false
}

// there says that the value exists.
func (s *shape) there() bool {
	return slices.Contains([]string{"object", "string", "number", "integer", "boolean"}, s.kind) || s.items != nil
}

// appendJSON appends a value.
func (s *shape) appendJSON(dst []byte, rand func() float64) []byte {
	switch s.kind {
	case "object":
		dst = append(dst, '{')
		for _, p := range s.properties {
			if !p.there() {
				continue
			}
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(append(dst, jsonText(p.name)...), ':')
			dst = p.appendJSON(dst, rand)
		}
		return append(dst, '}')
	case "array":
		if !s.items.there() {
			return append(dst, "{}"...) // as APISIX prints an empty table
		}
		dst = append(dst, '[')
		for i := range below(3, rand) + 1 {
			if i > 0 && len(dst) >= enough {
				break
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = s.items.appendJSON(dst, rand)
		}
		return append(dst, ']')
	case "string":
		return append(dst, jsonText(s.scalar(rand))...)
	}
	return append(dst, s.scalar(rand)...)
}

// jsonText is s as a string of JSON.
func jsonText(s string) []byte {
	b := plugin.JSON(0, s).Body
	return b[:len(b)-1]
}

// appendXML appends the elements of an object, as xml2lua prints them.
func (s *shape) appendXML(dst []byte, level int, rand func() float64) []byte {
	for _, p := range s.properties {
		n := 1
		of := p.shape
		if p.kind == "array" && p.items != nil {
			n, of = below(3, rand)+1, p.items
		}
		for of.kind == "array" && of.items != nil {
			of = of.items
		}
		if !of.there() {
			continue
		}
		indent := strings.Repeat("  ", level)
		for i := range n {
			if i > 0 && len(dst) >= enough {
				break
			}
			dst = append(append(append(append(dst, indent...), '<'), p.name...), '>')
			if of.kind == "object" {
				dst = append(of.appendXML(append(dst, '\n'), level+1, rand), indent...)
			} else {
				var b strings.Builder
				xml.EscapeText(&b, []byte(of.scalar(rand)))
				dst = append(dst, b.String()...)
			}
			dst = append(append(append(dst, "</"...), p.name...), ">\n"...)
		}
	}
	return dst
}

// scalar is the text of a simple value.
func (s *shape) scalar(rand func() float64) string {
	switch x := s.example.(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case float64:
		if s.kind == "integer" {
			x = math.Floor(x)
		}
		return strconv.FormatFloat(x, 'g', 14, 64)
	}
	switch s.kind {
	case "string":
		text := make([]byte, below(10, rand)+1)
		for i := range text {
			text[i] = 'a' + byte(below(26, rand))
		}
		return string(text)
	case "number":
		return strconv.FormatFloat(rand()*10000, 'g', 14, 64)
	case "integer":
		return strconv.Itoa(below(10000, rand) + 1)
	}
	return strconv.FormatBool(below(2, rand) == 1)
}

// below is a random number from 0 to n-1.
func below(n int, rand func() float64) int { return int(rand() * float64(n)) }

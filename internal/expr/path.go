package expr

import (
	"encoding/json"
	"fmt"
	"strings"

	"weir/internal/document"
)

// A JSONPath selects values of a JSON text.
type JSONPath struct{ path *jsonPath }

// CompileJSONPath compiles a path; the "$" that begins it may be left out.
func CompileJSONPath(text string) (*JSONPath, error) {
	rest, rooted := strings.CutPrefix(text, "$")
	if !rooted {
		path, err := compileJSONPath(text)
		return &JSONPath{path}, err
	}
	p := &pathParser{text: rest}
	path := new(jsonPath)
	for {
		if p.space(); p.at == len(p.text) {
			return &JSONPath{path}, nil
		}
		s, ok := p.step(false)
		if !ok {
			return nil, fmt.Errorf(`invalid expression "%s" near "%s"`, text, p.text[min(p.at, len(p.text)):])
		}
		path.steps = append(path.steps, s)
	}
}

// Find returns the values that the path leads to in doc; none, if doc is not
// JSON.
func (p *JSONPath) Find(doc []byte) []json.RawMessage {
	root, err := document.Parse(doc)
	if err != nil {
		return nil
	}
	var found []json.RawMessage
	for _, v := range p.path.find(root) {
		found = append(found, v.Append(nil))
	}
	return found
}

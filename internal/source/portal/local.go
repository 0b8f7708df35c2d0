package portal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"weir/internal/dialect/apicast"
	"weir/internal/document"
)

// A place is where a configuration comes from: one of the three.
type where struct {
	file     string
	data     []byte // a JSON document
	endpoint string
}

// locate reads APICAST_CONFIGURATION, or else the other two settings
// (apicast.md §3.1).
func locate(configuration, file, endpoint string) (where, error) {
	scheme, rest, _ := strings.Cut(configuration, ":")
	switch {
	case configuration == "":
		return where{file: file, endpoint: endpoint}, nil
	case scheme == "file":
		return where{file: strings.TrimPrefix(rest, "//")}, nil
	case scheme == "http", scheme == "https":
		return where{file: file, endpoint: configuration}, nil
	case scheme == "data":
		data, err := dataURL(rest)
		if err != nil {
			return where{}, fmt.Errorf("data URL: %w", err)
		}
		return where{data: data}, nil
	}
	return where{file: configuration}, nil
}

// dataURL is the JSON document in a data URL (RFC 2397) without its scheme.
func dataURL(rest string) ([]byte, error) {
	head, data, found := strings.Cut(rest, ",")
	if !found {
		return nil, errors.New("there is no comma in it")
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	text, err := url.PathUnescape(data)
	if err == nil && isBase64 {
		var raw []byte
		raw, err = base64.StdEncoding.DecodeString(text)
		text = string(raw)
	}
	if err != nil {
		return nil, errors.New("its text is not encoded as it says")
	}
	mediaType, _, _ := strings.Cut(head, ";")
	switch strings.TrimSpace(mediaType) {
	case "application/json":
		return []byte(text), nil
	case "application/yaml":
		return yamlToJSON([]byte(text))
	}
	return nil, fmt.Errorf("unsupported mediatype %q", mediaType)
}

// readFile reads the document of a file, which is YAML if its name says so.
func readFile(path string) (*apicast.Document, error) {
	raw, err := fileJSON(path)
	if err != nil {
		return nil, err
	}
	d, err := apicast.Read(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// fileJSON is a file's text as JSON.
func fileJSON(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".yml") || strings.HasSuffix(path, ".yaml") {
		if raw, err = yamlToJSON(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return raw, nil
}

// yamlToJSON is the JSON text of a YAML document.
func yamlToJSON(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	const spare = 1 << 20 // aliases let a short text stand for a huge document
	left := len(text) + spare
	v, err := fromYAML(doc.Content[0], 0, &left)
	if err != nil {
		return nil, err
	}
	return v.Append(nil), nil
}

func fromYAML(y *yaml.Node, depth int, left *int) (*document.Value, error) {
	if *left--; *left < 0 || depth > document.MaxDepth {
		return nil, fmt.Errorf("yaml: line %d: the document is too large", y.Line)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return fromYAML(y.Alias, depth+1, left)
	case yaml.SequenceNode:
		v := &document.Value{Kind: document.Array}
		for _, c := range y.Content {
			item, err := fromYAML(c, depth+1, left)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, item)
		}
		return v, nil
	case yaml.MappingNode:
		v := document.NewObject()
		for i := 0; i+1 < len(y.Content); i += 2 {
			member, err := fromYAML(y.Content[i+1], depth+1, left)
			if err != nil {
				return nil, err
			}
			v.Set(y.Content[i].Value, member)
		}
		return v, nil
	}
	switch y.ShortTag() {
	case "!!null":
		return &document.Value{}, nil
	case "!!bool":
		return &document.Value{Kind: document.Bool, Text: strings.ToLower(y.Value)}, nil
	case "!!int", "!!float":
		if v, err := document.Parse([]byte(y.Value)); err == nil && v.Is(document.Number) {
			return v, nil
		}
	}
	return document.NewString(y.Value), nil
}

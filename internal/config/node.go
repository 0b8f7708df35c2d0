package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A kind is a type of value, named as Lua names it in APISIX's messages.
type kind string

const (
	null   kind = "nil"
	text   kind = "string"
	number kind = "number"
	truth  kind = "boolean"
	table  kind = "table"
	list   kind = "table " // a table to the reader of a message
)

func (k kind) String() string { return strings.TrimSpace(string(k)) }

// A node is one value of a configuration file.
type node struct {
	kind   kind
	text   string   // of a scalar
	keys   []string // of a table, in order
	nodes  []*node  // values of keys, or elements of a list
	line   int
	hidden bool // the text came from the environment and may be a secret
}

// get returns the value under key; nil: there is none.
func (n *node) get(key string) *node {
	if n == nil || n.kind != table {
		return nil
	}
	for i, k := range n.keys {
		if k == key {
			return n.nodes[i]
		}
	}
	return nil
}

// same says that two values are written alike, wherever they stand.
func (n *node) same(other *node) bool {
	return other != nil && n.kind == other.kind && n.text == other.text && slices.Equal(n.keys, other.keys) &&
		slices.EqualFunc(n.nodes, other.nodes, (*node).same)
}

// at follows keys downwards.
func (n *node) at(keys ...string) *node {
	for _, k := range keys {
		n = n.get(k)
	}
	return n
}

// below follows a path of keys and places in lists, which count from 1.
func (n *node) below(path string) *node {
	for key := range strings.SplitSeq(path, ".") {
		if n != nil && n.kind == list {
			if i, err := strconv.Atoi(key); err == nil && 1 <= i && i <= len(n.nodes) {
				n = n.nodes[i-1]
				continue
			}
		}
		n = n.get(key)
	}
	return n
}

// set gives key a value; nil removes it.
func (n *node) set(key string, value *node) {
	for i, k := range n.keys {
		switch {
		case k != key:
			continue
		case value == nil:
			n.keys = append(n.keys[:i:i], n.keys[i+1:]...)
			n.nodes = append(n.nodes[:i:i], n.nodes[i+1:]...)
		default:
			n.nodes[i] = value
		}
		return
	}
	if value != nil {
		n.keys, n.nodes = append(n.keys, key), append(n.nodes, value)
	}
}

// put gives a value to a key several levels down, making tables on the way.
func (n *node) put(value *node, keys ...string) {
	for _, k := range keys[:len(keys)-1] {
		next := n.get(k)
		if next == nil || next.kind != table {
			next = &node{kind: table, line: value.line}
			n.set(k, next)
		}
		n = next
	}
	n.set(keys[len(keys)-1], value)
}

// Limits of a file, against aliases that grow without end.
const (
	maxDepth = 64
	maxNodes = 1 << 20
)

// parse reads YAML into a table. An empty file is an empty table.
func parse(source []byte) (*node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return &node{kind: table}, nil
	}
	r := reader{}
	n, err := r.read(doc.Content[0], "", 0)
	switch {
	case err != nil:
		return nil, err
	case n.kind == null:
		return &node{kind: table}, nil
	case n.kind != table:
		return nil, errors.New("the file is not a table of keys")
	}
	return n, nil
}

type reader struct{ nodes int }

func (r *reader) read(y *yaml.Node, path string, depth int) (*node, error) {
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		return nil, errors.New("the file is nested too deeply or too large")
	}
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.AliasNode:
		return r.read(y.Alias, path, depth+1)
	case yaml.SequenceNode:
		n.kind = list
		for i, c := range y.Content {
			e, err := r.read(c, join(path, strconv.Itoa(i+1)), depth+1)
			if err != nil {
				return nil, err
			}
			n.nodes = append(n.nodes, e)
		}
		return n, nil
	case yaml.MappingNode:
		n.kind = table
		return n, r.readTable(n, y, path, depth)
	}
	n.kind, n.text = scalarKind(y), y.Value
	return n, nil
}

func (r *reader) readTable(n *node, y *yaml.Node, path string, depth int) error {
	for i := 0; i < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return fmt.Errorf("line %d: path[%s] has a key that is not a plain text", key.Line, path)
		}
		if n.get(key.Value) != nil {
			return fmt.Errorf("line %d: path[%s] is given twice", key.Line, join(path, key.Value))
		}
		v, err := r.read(y.Content[i+1], join(path, key.Value), depth+1)
		if err != nil {
			return err
		}
		n.set(key.Value, v)
	}
	return nil
}

func scalarKind(y *yaml.Node) kind {
	switch y.ShortTag() {
	case "!!null":
		return null
	case "!!bool":
		return truth
	case "!!int", "!!float":
		return number
	}
	return text
}

// join appends a key to a path as APISIX's messages write it.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "->" + key
}

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is immutable and safe for concurrent use. The zero Schema is not useful.
type Schema struct {
	doc   []byte            // the JSON Schema, properties in the order they were given
	root  any               // doc, parsed
	order map[string]int    // position of every property of doc, by JSON pointer
	typ   reflect.Type      // what Decode fills; nil if made by Parse
	docs  map[string]string // meaning of the properties of typ, by JSON pointer

	check func() *checker // made when first needed
	texts func() *texts   // likewise; nil: typ is not as simple
}

type checker struct {
	compiled *jsonschema.Schema
	root     any // the document that was compiled
}

// Of describes the struct type C by its tags; see the package comment. It panics
// on a malformed tag: tags are code, and any test that loads the type finds it.
func Of[C any]() *Schema {
	t := reflect.TypeFor[C]()
	tree := describe(t, nil)
	docs := map[string]string{}
	tree = takeDocs(tree, "", docs)
	doc, err := json.Marshal(tree)
	if err != nil {
		panic(fmt.Sprintf("schema: %v: %v", t, err))
	}
	s := Parse(t.String(), doc)
	s.typ, s.docs = t, docs
	return s
}

// Parse makes a Schema from a JSON Schema document (draft 7). It panics if doc
// is not JSON: schemas are code. A document that is JSON but not a schema panics
// at the first Check.
func Parse(name string, doc []byte) *Schema {
	order := map[string]int{}
	root, err := parse(doc, order)
	if err != nil {
		panic(fmt.Sprintf("schema: %s: %v", name, err))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil {
		panic(fmt.Sprintf("schema: %s: %v", name, err))
	}
	s := &Schema{doc: compact.Bytes(), root: root, order: order}
	s.check = sync.OnceValue(func() *checker {
		c, err := newChecker(withReferences(root))
		if err != nil {
			panic(fmt.Sprintf("schema: %s: %v", name, err))
		}
		return c
	})
	s.texts = sync.OnceValue(func() *texts { return textsOf(root, s.typ) })
	return s
}

func newChecker(root any) (*checker, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseRegexpEngine(compileRegexp)
	c.UseLoader(noLoader{})
	const url = "weir:schema"
	if err := c.AddResource(url, root); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	return &checker{compiled: compiled, root: root}, nil
}

// noLoader keeps a schema from reading files.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema cannot refer to another document", url)
}

// Check reports why doc does not match: a *SyntaxError if it is not JSON,
// otherwise the first failure, in the words of APISIX's validator. Properties
// that are absent and have a default count as having it.
func (s *Schema) Check(doc []byte) error {
	_, err := s.filled(doc)
	return err
}

// Decode checks doc like Check and stores it in dst, a pointer to the type the
// Schema was made of, with defaults in place of what is absent. Properties that
// the type does not have are ignored, unless the schema forbids them.
func (s *Schema) Decode(doc []byte, dst any) error {
	to := reflect.ValueOf(dst)
	if to.Kind() != reflect.Pointer || to.Type().Elem() != s.typ {
		panic(fmt.Sprintf("schema: Decode into %T, want *%v", dst, s.typ))
	}
	if s.texts().decode(doc, to.Elem()) {
		return nil
	}
	v, err := s.filled(doc)
	if err != nil {
		return err
	}
	return assign(to.Elem(), v)
}

// Fill returns doc, checked, with the defaults in place of what is absent.
func (s *Schema) Fill(doc []byte) ([]byte, error) {
	v, err := s.filled(doc)
	if err != nil {
		return nil, err
	}
	return marshal(v)
}

func (s *Schema) filled(doc []byte) (any, error) {
	v, err := parse(doc, nil)
	if err != nil {
		return nil, err
	}
	return s.conform(v)
}

// conform fills v in and checks it.
func (s *Schema) conform(v any) (any, error) {
	c := s.check()
	v = fill(c.compiled, v)
	if err := c.compiled.Validate(v); err != nil {
		var ve *jsonschema.ValidationError
		if !errors.As(err, &ve) {
			return nil, err
		}
		return nil, errors.New(s.words(c.root, ve))
	}
	return v, nil
}

// MarshalJSON returns the JSON Schema document.
func (s *Schema) MarshalJSON() ([]byte, error) { return s.doc, nil }

// With returns a Schema for the same type whose document has the property name,
// described by doc, too, and that $comment. It panics if there is such a property.
func (s *Schema) With(name string, doc []byte, comment string) *Schema {
	out := ordered(s.doc)
	props := members{}
	if given, ok := out.find("properties"); ok {
		props = ordered(given.(json.RawMessage))
	}
	if _, there := props.find(name); there {
		panic(fmt.Sprintf("schema: property %q is already there", name))
	}
	props.add(name, json.RawMessage(doc))
	out.set("properties", props)
	out.set("$comment", comment)
	text, err := json.Marshal(out)
	if err != nil {
		panic(fmt.Sprintf("schema: %v", err))
	}
	with := Parse("with "+name, text)
	with.typ, with.docs = s.typ, s.docs
	return with
}

// Secrets are the properties to be stored encrypted, as dotted paths; arrays on
// the way are not mentioned. The caller owns the slice.
func (s *Schema) Secrets() []string {
	root, _ := s.root.(map[string]any)
	list, _ := root["encrypt_fields"].([]any)
	var paths []string
	for _, p := range list {
		if path, ok := p.(string); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// marshal prints v without escaping HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

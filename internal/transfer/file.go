package transfer

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
	"weir/internal/source/etcd"
)

// A File is a configuration in a file, in one of three forms that its content
// tells apart:
//
//   - APISIX's standalone document in YAML, whose last line is #END
//   - the same in JSON (apisix.json, and what GET /apisix/admin/configs answers)
//   - what `etcdctl get PREFIX --prefix -w json` prints
type File struct {
	Path string // "-": standard input

	// Prefix is where the objects of an etcd dump are; empty: "/apisix".
	Prefix string

	// Environ are variables in the form of os.Environ for ${{NAME}} in a
	// standalone document.
	Environ []string
}

// String names the file in messages.
func (f File) String() string {
	if f.Path == "-" {
		return "standard input"
	}
	return f.Path
}

// Read reads the file.
func (f File) Read(context.Context) (*State, error) {
	text, err := f.text()
	if err != nil {
		return nil, err
	}
	s, err := f.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	return s, nil
}

func (f File) text() ([]byte, error) {
	if f.Path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(f.Path)
}

func (f File) parse(text []byte) (*State, error) {
	trimmed := bytes.TrimLeft(text, " \t\r\n")
	if bytes.HasPrefix(trimmed, []byte("{")) {
		v, err := document.Parse(text)
		switch {
		case err != nil:
			return nil, err
		case v.Get("kvs").Is(document.Array):
			return f.dump(v)
		}
		if err := expand(v, environment(f.Environ)); err != nil {
			return nil, err
		}
		return standalone(v)
	}
	if !ended(text) {
		return nil, fmt.Errorf("missing valid end flag in file %s: its last line must be #END", f)
	}
	expanded, err := environment(f.Environ).expand(string(text))
	if err != nil {
		return nil, err
	}
	v, err := declared.ParseYAML([]byte(expanded))
	if err != nil {
		return nil, err
	}
	return standalone(v)
}

// ended looks for the mark that a YAML file was written to its end, as APISIX
// does: in the last ten bytes.
func ended(text []byte) bool {
	tail := bytes.TrimRight(text[max(0, len(text)-10):], " \t\r\n\v\f")
	return bytes.HasSuffix(tail, []byte("#END"))
}

// An environment finds variables by name.
type environment []string

func (env environment) lookup(name string) (string, bool) {
	for _, kv := range slices.Backward(env) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// expand replaces ${{NAME}} and ${{NAME:=default}} in a text.
func (env environment) expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${{")
		inside, after, closed := strings.Cut(rest, "}}")
		if !found || !closed {
			b.WriteString(text)
			return b.String(), nil
		}
		name, value, hasDefault := strings.Cut(inside, ":=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !isWord(name) {
			b.WriteString(before + "${{")
			text = rest
			continue
		}
		if v, ok := env.lookup(name); ok {
			value = v
		} else if !hasDefault {
			return "", fmt.Errorf("can't find environment variable %s", name)
		}
		b.WriteString(before + value)
		text = after
	}
}

// isWord says that a variable may have the name.
func isWord(name string) bool {
	return name != "" && strings.Trim(name[:1], "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// expand replaces variables in the texts of a JSON document. A text that named
// one and then looks like a number, true or false becomes one.
func expand(v *document.Value, env environment) error {
	if v.Is(document.String) && strings.Contains(v.Text, "${{") {
		text, err := env.expand(v.Text)
		switch {
		case err != nil:
			return err
		case text == v.Text:
		case isNumber(text):
			v.Kind = document.Number
		case text == "true" || text == "false":
			v.Kind = document.Bool
		}
		v.Text = text
	}
	for _, item := range v.Items {
		if err := expand(item, env); err != nil {
			return err
		}
	}
	for _, m := range v.Members {
		if err := expand(m.Value, env); err != nil {
			return err
		}
	}
	return nil
}

// isNumber says that a text is a number in JSON.
func isNumber(s string) bool {
	v, err := document.Parse([]byte(s))
	return err == nil && v.Is(document.Number)
}

// sections are the kinds in the order in which Document prints them.
// Credentials are in the section of consumers and cost decorations in that of
// services, as they are in the store.
func sections() []model.Kind {
	return []model.Kind{
		model.KindRoute, model.KindService, model.KindUpstream, model.KindConsumer, model.KindConsumerGroup,
		model.KindPluginConfig, model.KindGlobalRule, model.KindPluginMetadata, model.KindSSL, model.KindStreamRoute,
		model.KindProto, model.KindSecret,
	}
}

// section is where objects of a kind stand.
func section(kind model.Kind) model.Kind {
	switch kind {
	case model.KindCredential:
		return model.KindConsumer
	case model.KindCostDecoration:
		return model.KindService
	}
	return kind
}

// standalone reads a document in the standalone form (apisix-config.md §3).
func standalone(doc *document.Value) (*State, error) {
	if !doc.Is(document.Object) {
		return nil, fmt.Errorf("the document is of type %v, not a table of sections like routes and services", doc.Kind)
	}
	known := map[string]bool{model.KindPlugins.Dir(): true, "X-Digest": true, "X-Last-Modified": true}
	var all []string
	for _, k := range sections() {
		known[k.Dir()] = true
		all = append(all, k.Dir())
	}
	for _, m := range doc.Members {
		if !known[m.Name] && !strings.HasSuffix(m.Name, declared.VersionSuffix) {
			// To ignore it would be to delete what it was meant to hold.
			return nil, fmt.Errorf("there is no section %q; sections are %s", m.Name, strings.Join(all, ", "))
		}
	}
	s := newState()
	for _, it := range declared.Items(doc) {
		if it.Section == model.KindPlugins {
			s.put(it.Key, it.Value)
			continue
		}
		if err := s.item(it); err != nil {
			return nil, fmt.Errorf("%s, item %d: %w", it.Section.Dir(), it.Index+1, err)
		}
	}
	return s, nil
}

func (s *State) item(it declared.Item) error {
	if it.Index < 0 {
		return fmt.Errorf("the section is of type %v, not a list", it.Value.Kind)
	}
	if !it.Value.Is(document.Object) {
		return fmt.Errorf("it is of type %v, not object", it.Value.Kind)
	}
	key, ok := etcd.ObjectKey(it.Section.Dir() + "/" + it.ID)
	if !ok || section(key.Kind) != it.Section {
		return fmt.Errorf("%q cannot be the id of a %s", it.ID, it.Section)
	}
	if _, twice := s.Objects[key]; twice {
		return fmt.Errorf("%s is given twice", key)
	}
	s.put(key, it.Value)
	return nil
}

// dump reads what etcdctl prints: keys and values in base64.
func (f File) dump(v *document.Value) (*State, error) {
	prefix := strings.TrimRight(f.Prefix, "/")
	if f.Prefix == "" {
		prefix = defaultPrefix
	}
	s := newState()
	for i, kv := range v.Get("kvs").Items {
		key, err1 := decode64(kv.Get("key"))
		value, err2 := decode64(kv.Get("value"))
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("kvs, item %d: %w", i+1, err)
		}
		path, below := strings.CutPrefix(string(key), prefix+"/")
		if below {
			s.stored(path, value)
		}
	}
	if len(v.Get("kvs").Items) > 0 && len(s.Objects)+len(s.Broken) == 0 {
		s.note("no object is below the prefix %s; another one is given with --prefix", prefix)
	}
	return s, nil
}

func decode64(v *document.Value) ([]byte, error) {
	if v == nil {
		return nil, nil // etcdctl leaves out what is empty
	}
	return base64.StdEncoding.DecodeString(v.Text)
}

const defaultPrefix = "/apisix"

// stored takes a value of a store that lies at a path below the prefix.
func (s *State) stored(path string, value []byte) {
	if string(value) == "init_dir" {
		return
	}
	key, ok := etcd.ObjectKey(path)
	switch {
	case ok:
		s.putRaw(key, value)
	case path == "gen_id", strings.HasPrefix(path, "data_plane/"), strings.HasSuffix(path, "/"):
	default:
		s.note("the key %s is none of APISIX 3.18 and is left out", path)
	}
}

// Document is the State as one standalone document, without the list of
// plugins, which mirrors the config.yaml of a gateway. Within a section objects
// are in byte order of their ids, and a consumer's credentials follow it.
func (s *State) Document() *document.Value {
	doc := document.NewObject()
	for _, kind := range sections() {
		keys := s.keys(kind.Dir())
		if len(keys) == 0 {
			continue
		}
		list := &document.Value{Kind: document.Array}
		for _, k := range keys {
			list.Items = append(list.Items, withID(k, s.Objects[k]))
		}
		doc.Set(kind.Dir(), list)
	}
	return doc
}

// keys are those of the objects in one section of the document.
func (s *State) keys(name string) []model.Key {
	var keys []model.Key
	for k := range s.Objects {
		if k.Kind != model.KindPlugins && section(k.Kind).Dir() == name {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b model.Key) int {
		return slices.Compare(strings.Split(a.ID, "/"), strings.Split(b.ID, "/"))
	})
	return keys
}

// AppendStandalone appends the State as a file that File reads: YAML that ends
// with #END, or JSON.
func (s *State) AppendStandalone(dst []byte, asJSON bool) ([]byte, error) {
	doc := s.Document()
	if asJSON {
		return AppendJSON(dst, doc), nil
	}
	dst, err := AppendYAML(dst, doc)
	if err != nil {
		return nil, err
	}
	return append(dst, "#END\n"...), nil
}

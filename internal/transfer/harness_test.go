package transfer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/keyring"
	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugins"
	"weir/internal/source/etcd"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The keys that APISIX has by default (apisix-admin.md §8), and one that it
// does not have.
const (
	firstKey   = "qeddd145sfvddff3"
	secondKey  = "edd1c9f0985e76a2"
	foreignKey = "0123456789abcdef"
)

// What AES-128-CBC makes of "jack-key" with the key as initialisation vector,
// by openssl.
const (
	jackByFirst  = "1jhUSuP5Dz3oF/IEiJ1SAg=="
	jackBySecond = "aHjCGOCvDinqchkBIWtwUA=="
)

func newRing(t testing.TB, keys ...string) *keyring.Ring {
	t.Helper()
	r, err := keyring.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// schemas are those of this build with APISIX's keyring.
func schemas(t testing.TB) *Schemas {
	t.Helper()
	built := map[string]Plugin{}
	for _, s := range plugins.All() {
		built[s.Name] = Plugin{s.ConfigSchema(), s.CredentialSchema(), s.MetadataSchema()}
	}
	return NewSchemas(built, newRing(t, firstKey, secondKey), true)
}

// stored are the keys and values of an APISIX's etcd, one a line.
func storedAPISIX(t testing.TB) (list [][2]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/apisix.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		list = append(list, [2]string{key, value})
	}
	return list
}

// dumped is what etcdctl prints of them.
func dumped(list [][2]string) []byte {
	var kvs []string
	for i, kv := range list {
		item := fmt.Sprintf(`{"key":%q,"create_revision":%d,"mod_revision":%[2]d,"version":1`, base64.StdEncoding.EncodeToString([]byte(kv[0])), i+2)
		if kv[1] != "" {
			item += fmt.Sprintf(`,"value":%q`, base64.StdEncoding.EncodeToString([]byte(kv[1])))
		}
		kvs = append(kvs, item+"}")
	}
	return fmt.Appendf(nil, `{"header":{"revision":99},"kvs":[%s],"count":%d}`, strings.Join(kvs, ","), len(kvs))
}

// state reads a standalone document in YAML.
func state(t testing.TB, yaml string) *State {
	t.Helper()
	s, err := File{Path: "test"}.parse([]byte(yaml + "\n#END\n"))
	if err != nil {
		t.Fatalf("%s: %v", yaml, err)
	}
	return s
}

func key(t testing.TB, path string) model.Key {
	t.Helper()
	k, ok := etcd.ObjectKey(path)
	if !ok {
		t.Fatalf("%s is no object", path)
	}
	return k
}

// shown is a short form of changes.
func shown(changes []Change) string {
	var b bytes.Buffer
	mark := map[string]string{Created: "+", Changed: "~", Deleted: "-"}
	for i, c := range changes {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(mark[c.Action] + c.Key.String())
		for _, p := range c.Properties {
			fmt.Fprintf(&b, " %s:%s>%s", p.Path, p.From, p.To)
		}
	}
	return b.String()
}

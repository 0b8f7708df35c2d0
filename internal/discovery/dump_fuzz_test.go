package discovery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// FuzzDump: what is read is what is read again after it was written.
func FuzzDump(f *testing.F) {
	f.Add(`{"services":{"a":[{"host":"1.1.1.1","port":80,"weight":1,"metadata":{"a":[1]}}],"b":{}},"last_update":1,"expire":0}`)
	f.Add(`{"services":{"":null},"last_update":-1}`)
	f.Add(`{"last_update":1e3}`)
	d := NewDump(filepath.Join(f.TempDir(), "dump"), true, time.Minute)
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(d.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := d.read()
		if err != nil {
			return
		}
		services := map[string][]Node{}
		for key, nodes := range first.Services {
			services[key] = nodes
		}
		if err := d.write(services); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		second, err := d.read()
		if err != nil || !same(first.Services, second.Services) {
			t.Errorf("%s: %v, %v", text, second, err)
		}
	})
}

// same compares metadata as JSON values: how they are written may differ, and no
// services may be null.
func same(a, b map[string]dumpedNodes) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	value := func(x any) (v any) {
		text, err := json.Marshal(x)
		if err != nil || json.Unmarshal(text, &v) != nil {
			return err
		}
		return v
	}
	return reflect.DeepEqual(value(a), value(b))
}

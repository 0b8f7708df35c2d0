package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// etcdDump is the script command "etcddump FROM TO": it makes what etcdctl
// prints with -w json of lines of a key, a space and a value.
func etcdDump(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: etcddump FROM TO")
	}
	type kv struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	var dump struct {
		KVs []kv `json:"kvs"`
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		dump.KVs = append(dump.KVs, kv{base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(value))})
	}
	text, err := json.Marshal(dump)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o600))
}

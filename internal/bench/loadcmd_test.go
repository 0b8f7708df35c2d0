package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	needEtcd(t)
	dir := t.TempDir()
	m, err := newManaged(dir, "unused", etcdPath())
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	store, err := openStore([]string{m.storeURL()}, "/apisix")
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	list := filepath.Join(dir, "list")
	if err := os.WriteFile(list, []byte("bench_a k1\nbench_b k2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("jack k1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := Command()
		cmd.SilenceErrors = true
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"load", "--etcd", m.storeURL(), "--timeout", time.Minute.String()}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	count := func() int64 {
		r, err := store.client.Get(t.Context(), "/apisix/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return r.Count
	}
	if _, err := load("--upstream", "127.0.0.1:1", "--from", list); err != nil || count() != 3 {
		t.Errorf("%d keys after --from: %v", count(), err)
	}
	text, err := load("--upstream", "127.0.0.1:1", "--consumers", "250", "--print")
	if err != nil || count() != 253 || strings.Count(text, "\n") != 250 || !strings.HasPrefix(text, "bench_0 "+apiKey(1, 0)+"\n") {
		t.Errorf("%d keys, printed %.60q: %v", count(), text, err)
	}
	if _, err := load("--remove"); err != nil || count() != 0 {
		t.Errorf("%d keys after --remove: %v", count(), err)
	}
	if _, err := load("--upstream", "x:1", "--from", bad); err == nil || !strings.Contains(err.Error(), "bad:1: want a name") {
		t.Errorf("bad list: %v", err)
	}
	if _, err := load(); err == nil || !strings.Contains(err.Error(), "--upstream is required") {
		t.Errorf("no upstream: %v", err)
	}
}

func TestProductsCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "products.json")
	for _, args := range [][]string{{"--out", file}, {}} {
		cmd := productsCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(append(args, "--products", "3", "--upstream", "http://127.0.0.1:1", "--backend", "http://127.0.0.1:2", "--batcher"))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		text := out.Bytes()
		if len(args) > 0 {
			var err error
			if text, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		if !json.Valid(text) || bytes.Count(text, []byte("3scale_batcher")) != 3 {
			t.Errorf("%.200s", text)
		}
	}
	cmd := productsCommand()
	cmd.SetArgs(nil)
	cmd.SetErr(io.Discard)
	cmd.SetOut(io.Discard)
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--upstream and --backend are required") {
		t.Error(err)
	}
}

package embed

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("WEIR_EMBED_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func child(dir string) {}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, name := range []string{"cold", "warm"} {
		began := time.Now()
		s := start(t, Config{Dir: dir, Listen: "127.0.0.1:0"})
		t.Logf("%s start in %v at %s", name, time.Since(began), s.ClientURL())
		if _, err := s.Client().Put(t.Context(), "/a", name); err != nil {
			t.Fatal(err)
		}
		remote, err := clientv3.New(clientv3.Config{Endpoints: []string{s.ClientURL()}, Context: context.Background()})
		if err != nil {
			t.Fatal(err)
		}
		res, err := remote.Get(t.Context(), "/a")
		if err != nil || string(res.Kvs[0].Value) != name {
			t.Fatal(res, err)
		}
		remote.Close()
		began = time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped in %v", time.Since(began))
	}
}

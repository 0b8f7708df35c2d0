package embed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"weir/internal/leaktest"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("WEIR_EMBED_CHILD"); mode != "" {
		children[mode](os.Getenv("WEIR_EMBED_DIR"))
		return
	}
	leaktest.Main(m)
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
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

func remote(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.ClientURL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	var log bytes.Buffer
	for i, name := range []string{"cold", "warm"} {
		began := time.Now()
		s := start(t, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		t.Logf("%s start in %v", name, time.Since(began))
		c := remote(t, s)
		res, err := c.Get(t.Context(), "/a")
		if err != nil || len(res.Kvs) != i {
			t.Fatal(res, err)
		}
		if _, err := s.Client().Put(t.Context(), "/a", name); err != nil {
			t.Fatal(err)
		}
		if res, err = c.Get(t.Context(), "/a"); err != nil || string(res.Kvs[0].Value) != name {
			t.Fatal(res, err)
		}
		// A watch from another process does not hold up the end.
		<-c.Watch(t.Context(), "/a", clientv3.WithCreatedNotify())
		began = time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped in %v", time.Since(began))
		if s.Err() != nil {
			t.Error(s.Err())
		}
	}
	if log.Len() > 0 {
		t.Errorf("log of good starts:\n%s", &log)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error("mode of the directory:", info.Mode(), err)
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{Dir: dir, Listen: Off})
	if _, err := Start(t.Context(), Config{Dir: dir, Listen: Off}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir, Listen: Off})
}

func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := start(t, Config{Listen: taken.Addr().String()})
	if s.ClientURL() == "http://"+taken.Addr().String() || !strings.HasPrefix(s.ClientURL(), "http://127.0.0.1:") {
		t.Error("beside a taken port:", s.ClientURL())
	}
	if _, err := remote(t, s).Get(t.Context(), "/a"); err != nil {
		t.Error(err)
	}
	off := start(t, Config{Listen: Off})
	if off.ClientURL() != "" {
		t.Error("off:", off.ClientURL())
	}
	if _, err := off.Client().Put(t.Context(), "/a", "b"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "192.0.2.1:2379"} {
		if _, err := Start(t.Context(), Config{Dir: t.TempDir(), Listen: bad}); err == nil {
			t.Error(bad, "is accepted")
		} else {
			t.Log(err)
		}
	}
}

// A web page in a browser on this machine must not be able to write.
func TestNoJSON(t *testing.T) {
	s := start(t, Config{})
	res, err := http.Post(s.ClientURL()+"/v3/kv/put", "text/plain", strings.NewReader(`{"key":"YQ==","value":"YQ=="}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if got, err := s.Client().Get(t.Context(), "a"); err != nil || len(got.Kvs) != 0 || res.StatusCode != http.StatusNotFound {
		t.Error(res.Status, got, err)
	}
}

func TestDisk(t *testing.T) {
	s := Server{fatal: newFatal(slog.New(slog.DiscardHandler))}
	if s.etcdConfig(Config{Dir: "x", Quota: 1}, nil).UnsafeNoFsync {
		t.Error("writes are acknowledged before they are on disk")
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", blocked} {
		if _, err := Start(t.Context(), Config{Dir: dir, Listen: Off}); err == nil {
			t.Errorf("directory %q is accepted", dir)
		}
	}
}

func TestStartCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := Start(ctx, Config{Dir: dir, Listen: Off}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir, Listen: Off})
}

// Damaged data is an error of Start, not the end of the process.
func TestDamaged(t *testing.T) {
	for name, pattern := range map[string]string{"log": "wal/0*.wal", "database": "snap/db"} {
		t.Run(name, func(t *testing.T) { testDamaged(t, pattern) })
	}
}

func testDamaged(t *testing.T, pattern string) {
	dir := t.TempDir()
	s := start(t, Config{Dir: dir, Listen: Off})
	if _, err := s.Client().Put(t.Context(), "/a", "b"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	logs, err := filepath.Glob(filepath.Join(dir, "etcd", "member", pattern))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	if err := os.WriteFile(logs[0], bytes.Repeat([]byte("x"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := child(t, "damaged", dir).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "refused: ") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v %s", err, out)
	}
	t.Logf("%s", out)
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	f := newFatal(slog.New(slog.NewTextHandler(&out, nil)))
	lg := f.logger().With(zap.String("a", "1"))
	lg.Info("info")
	lg.Warn("careful", zap.Int("b", 2))
	if got := out.String(); strings.Contains(got, "info") || !strings.Contains(got, `level=WARN msg="embedded store: careful"`) ||
		!strings.Contains(got, "a=1") || !strings.Contains(got, "b=2") {
		t.Error(got)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lg.Fatal("over", zap.Error(errors.New("disk")))
	}()
	<-ended
	<-f.done
	if got := f.cause(); got == nil || got.Error() != "the server failed: over: disk" {
		t.Error(got)
	}
}

func BenchmarkStart(b *testing.B) {
	for _, keys := range []int{0, 50_000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			dir := b.TempDir()
			cfg := Config{Dir: dir, Listen: Off}
			s, err := Start(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			value := strings.Repeat("x", 1000)
			for i := range keys / 100 {
				ops := make([]clientv3.Op, 100)
				for j := range ops {
					ops[j] = clientv3.OpPut(fmt.Sprintf("/apisix/routes/%d", 100*i+j), value)
				}
				if _, err := s.Client().Txn(b.Context()).Then(ops...).Commit(); err != nil {
					b.Fatal(err)
				}
			}
			s.Close()
			for b.Loop() {
				s, err := Start(b.Context(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Close()
				b.StartTimer()
			}
		})
	}
}

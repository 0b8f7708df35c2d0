package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/version"

	"weir/internal/source/embed"
)

func TestWrites(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	for name, store := range map[string]*Store{
		"embedded": inProcess(t, server, Config{Prefix: "/a/"}),
		"external": open(t, server.ClientURL(), Config{Prefix: "/b"}),
	} {
		t.Run(name, func(t *testing.T) { testWrites(t, store) })
	}
}

func testWrites(t *testing.T, s *Store) {
	ctx := t.Context()
	if kv, rev, err := s.Get(ctx, "/routes/1"); kv != nil || rev == 0 || err != nil {
		t.Fatal("absent:", kv, rev, err)
	}
	value := []byte(`{"a":1}`)
	made, err := s.Put(ctx, "/routes/1", value, PutOptions{})
	if err != nil || !made.Created || made.Prev != nil {
		t.Fatal("create:", made, err)
	}
	value[0] = 'x'
	kv, rev, err := s.Get(ctx, "/routes/1")
	if err != nil || string(kv.Value) != `{"a":1}` || kv.Key != s.cfg.Prefix+"/routes/1" ||
		kv.Created != made.Revision || kv.Modified != made.Revision || rev != made.Revision {
		t.Fatal("get:", kv, rev, err)
	}
	again, err := s.Put(ctx, "/routes/1", []byte("2"), PutOptions{IfModified: &kv.Modified})
	if err != nil || again.Created || again.Prev == nil || string(again.Prev.Value) != `{"a":1}` {
		t.Fatal("swap:", again, err)
	}
	if _, err := s.Put(ctx, "/routes/1", []byte("3"), PutOptions{IfModified: &kv.Modified}); !errors.Is(err, ErrChanged) {
		t.Fatal("lost race:", err)
	}
	absent := int64(0)
	if _, err := s.Put(ctx, "/routes/1", []byte("3"), PutOptions{IfModified: &absent}); !errors.Is(err, ErrChanged) {
		t.Fatal("must be absent:", err)
	}
	if res, err := s.Put(ctx, "/routes/2", []byte("3"), PutOptions{IfModified: &absent}); err != nil || !res.Created {
		t.Fatal("absent:", res, err)
	}
	if _, err := s.Put(ctx, "/routes/2", []byte("4"), PutOptions{IfThere: []string{"/routes/1", "/services/1"}}); !errors.Is(err, ErrChanged) {
		t.Fatal("others must be there:", err)
	}
	if _, err := s.Put(ctx, "/routes/2", []byte("3"), PutOptions{IfThere: []string{"/routes/1"}}); err != nil {
		t.Fatal("another is there:", err)
	}
	if s.owned {
		if v, err := s.Version(ctx); err != nil || v != version.Version {
			t.Fatal("version:", v, err)
		}
	}
	a, err := s.NextID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.NextID(ctx); err != nil || b <= a {
		t.Fatal("ids:", a, b, err)
	}
	for _, key := range []string{"/consumers/jack", "/consumers/jack/credentials/1", "/consumers/jacky"} {
		if _, err := s.Put(ctx, key, []byte("{}"), PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := s.Delete(ctx, "/consumers/jack", "/consumers/jack/credentials/")
	if now, err2 := s.Revision(ctx); err != nil || err2 != nil || !gone.Deleted || gone.Revision != now {
		t.Fatal("delete:", gone, now, err, err2)
	}
	if list, _, err := s.List(ctx, "/consumers"); err != nil || len(list) != 1 || !strings.HasSuffix(list[0].Key, "/jacky") {
		t.Fatal("after delete:", list, err)
	}
	if gone, err := s.Delete(ctx, "/consumers/jack"); err != nil || gone.Deleted {
		t.Fatal("delete nothing:", gone, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	s := inProcess(t, server, Config{PageSize: 7})
	put(t, server.Client(), "routes/", initDir)
	put(t, server.Client(), "routesx/1", "{}")
	for i := range 50 {
		put(t, server.Client(), fmt.Sprintf("routes/%02d", i), "{}")
	}
	list, rev, err := s.List(t.Context(), "/routes")
	if err != nil || len(list) != 50 || rev == 0 {
		t.Fatal(len(list), rev, err)
	}
	for i, kv := range list {
		if want := fmt.Sprintf("/apisix/routes/%02d", i); kv.Key != want {
			t.Fatalf("%d is %s", i, kv.Key)
		}
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	s := inProcess(t, server, Config{})
	r := receive(t, s)
	if _, err := s.Put(t.Context(), "/routes/1", []byte("{}"), PutOptions{TTL: 1}); err != nil {
		t.Fatal(err)
	}
	r.has(map[string]string{"routes/1": "{}"})
	r.has(map[string]string{})
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	s := open(t, "http://admin:"+secret+"@"+freePort(t), Config{User: "root", Password: secret,
		Timeout: 300 * time.Millisecond, DialTimeout: 300 * time.Millisecond})
	_, _, err := s.Get(t.Context(), "/routes/1")
	if !errors.Is(err, ErrUnavailable) {
		t.Error("not unavailable:", err)
	}
	for _, want := range []string{"get /apisix/routes/1", "127.0.0.1:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("%q tells the password", err)
	}
	if _, err := Open(Config{Endpoints: []string{"no url " + secret}}); err == nil || strings.Contains(err.Error(), secret) {
		t.Error("bad endpoint:", err)
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("no endpoint is accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	server := startEmbed(t, embed.Config{})
	if _, _, err := inProcess(t, server, Config{}).Get(ctx, "/routes/1"); !errors.Is(err, context.Canceled) {
		t.Error("cancelled:", err)
	}
	large := make([]byte, 9<<20)
	if _, err := open(t, server.ClientURL(), Config{}).Put(t.Context(), "/routes/1", large, PutOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Error("too large:", err)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startEmbed(t, embed.Config{Dir: dir, Quota: 4 << 20})
	s := inProcess(t, server, Config{})
	value := make([]byte, 256<<10)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = s.Put(t.Context(), fmt.Sprint("/protos/", i), value, PutOptions{})
	}
	if !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "/x", "/protos/"); err != nil {
		t.Fatal("a full store must take deletions:", err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	server = startEmbed(t, embed.Config{Dir: dir, Quota: 4 << 20})
	if _, err := inProcess(t, server, Config{}).Put(t.Context(), "/routes/1", value, PutOptions{}); err != nil {
		t.Fatal("after deletions and a new start:", err)
	}
}

func TestAuth(t *testing.T) {
	t.Parallel()
	server := startEmbed(t, embed.Config{})
	c := server.Client()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, c, "routes/1", "{}")
	must(c.UserAdd(t.Context(), "root", "hunter2"))
	must(c.UserGrantRole(t.Context(), "root", "root"))
	must(c.AuthEnable(t.Context()))
	good := open(t, server.ClientURL(), Config{User: "root", Password: "hunter2"})
	r := receive(t, good)
	r.has(map[string]string{"routes/1": "{}"})
	must(good.Put(t.Context(), "/routes/2", []byte("{}"), PutOptions{}))
	r.has(map[string]string{"routes/1": "{}", "routes/2": "{}"})
	bad := open(t, server.ClientURL(), Config{User: "root", Password: "wrong-pass"})
	_, _, err := bad.Get(t.Context(), "/routes/1")
	if err == nil || strings.Contains(err.Error(), "wrong-pass") {
		t.Error(err)
	}
}

// A store that is gone for good answers at once, whatever its client does.
func TestGone(t *testing.T) {
	gone := make(chan struct{})
	s, err := Open(Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/apisix", Gone: gone})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := make(chan error)
	go func() {
		_, err := s.Put(t.Context(), "/routes/1", []byte("{}"), PutOptions{})
		done <- err
	}()
	close(gone)
	if err := <-done; !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "failed") {
		t.Error(err)
	}
	if st := s.Status(); st.Connected || st.LastError == "" {
		t.Errorf("%+v", st)
	}
}

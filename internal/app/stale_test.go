package app

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/source/embed"
)

// Field report 60: a gateway whose store is down at the start serves the last
// good configuration, says so, and catches up.
func TestStaleStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	etcdDir, dir := filepath.Join(t.TempDir(), "etcd"), t.TempDir()
	run := func() *embed.Server {
		s, err := embed.Start(t.Context(), embed.Config{Dir: etcdDir, Listen: addr})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := newSite(t, "") // for its upstream
	gateway := func() site {
		o, _ := options(t, dir, fmt.Sprintf(
			"deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: %s, role: admin}]}, etcd: {host: [\"http://%s\"], timeout: 2}}\n", siteKey, addr))
		g := start(t, o)
		mine := *s
		mine.g, mine.proxy, mine.admin = g, "http://"+g.Data()[0].String(), "http://"+g.Admin().String()+"/apisix/admin/"
		return mine
	}
	server := run()
	first := gateway()
	first.put("routes/1", first.route("/a", s.echo, `,"plugins":{"key-auth":{}}`))
	first.put("consumers/jack", consumer("jack", "k1"))
	first.put("consumers/gone", consumer("gone", "k2"))
	first.del("consumers/gone")
	stop(t, first.g)
	server.Close()

	second := gateway()
	if a, b := second.get("/a", "k1"), second.get("/a", "k2"); a != 200 || b != 401 {
		t.Errorf("from the saved copy: %d and %d", a, b)
	}
	if second.g.revision().StaleSince == nil {
		t.Error("it does not say that it is stale")
	}
	server = run()
	defer func() { server.Close() }()
	deadline := time.Now().Add(30 * time.Second)
	for second.g.revision().StaleSince != nil && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	second.put("consumers/new", consumer("new", "k3"))
	if a, b := second.get("/a", "k1"), second.get("/a", "k3"); a != 200 || b != 200 {
		t.Errorf("after the store came back: %d and %d", a, b)
	}
	stop(t, second.g)
}

package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/source/embed"
	"weir/internal/source/etcd"
)

// noOptions writes a key as it is.
var noOptions etcd.PutOptions

// A store that goes away: traffic does not notice, writes are refused, nothing
// acknowledged is lost, and what was written meanwhile arrives.
func TestStoreGoesAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	run := func() *embed.Server {
		s, err := embed.Start(t.Context(), embed.Config{Dir: dir, Listen: addr})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	server := run()
	defer func() { server.Close() }()
	s := newSite(t, "") // embedded store of its own, for its upstream only
	o, _ := options(t, t.TempDir(), fmt.Sprintf(
		"deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: %s, role: admin}]}, etcd: {host: [\"http://%s\"], timeout: 2}}\n", siteKey, addr))
	g := start(t, o)
	defer stop(t, g)
	mine := *s
	mine.g, mine.proxy, mine.admin = g, "http://"+g.Data()[0].String(), "http://"+g.Admin().String()+"/apisix/admin/"

	mine.put("routes/1", mine.route("/a", s.echo, `,"plugins":{"key-auth":{}}`))
	mine.put("consumers/jack", consumer("jack", "k1"))
	for round := range 3 {
		server.Close()
		for range 20 {
			if got := mine.get("/a", "k1"); got != 200 {
				t.Errorf("without a store: %d", got)
			}
		}
		if got := mine.call("PUT", "consumers/lost", consumer("lost", "lost")); got != 503 {
			t.Errorf("a write without a store: %d", got)
		}
		server = run()
		name := fmt.Sprintf("after%d", round)
		deadline := time.Now().Add(30 * time.Second)
		for mine.call("PUT", "consumers/"+name, consumer(name, name)) >= 400 && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if got := mine.get("/a", name); got != 200 {
			t.Errorf("written after the store came back: %d", got)
		}
		if got := mine.get("/a", "k1"); got != 200 {
			t.Errorf("after the store came back: %d", got)
		}
	}
}

// child runs the gateway that TestKill kills, with the configuration in file.
func child(file string) error {
	if os.Getenv("LISTEN_PID") == "self" { // systemd knows the number beforehand, a test does not
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	c, err := config.Load(file, os.Environ())
	if err != nil {
		return err
	}
	return Run(context.Background(), Options{Config: c, Version: "test", Out: os.Stdout})
}

// kill -9 under writes: whatever was acknowledged is there after the restart.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	ports := freePorts(t, 2)
	file := filepath.Join(dir, "config.yaml")
	source := fmt.Sprintf(`
apisix: {node_listen: [{ip: 127.0.0.1, port: %d}], ssl: {enable: false}, enable_control: false}
nginx_config: {http: {enable_access_log: false}}
deployment: {admin: {admin_listen: {ip: 127.0.0.1, port: %d}, admin_key: [{name: a, key: %s, role: admin}]}}
weir: {store: {dir: %s/data, listen: "off"}}
`, ports[0], ports[1], siteKey, dir)
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, "")
	killed := *s
	killed.proxy, killed.admin = fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d/apisix/admin/", ports[1])
	var acked []string
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WEIR_TEST_CHILD="+file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed.await(t)
		killed.put("routes/1", killed.route("/a", s.echo, `,"plugins":{"key-auth":{}}`))
		for _, key := range acked {
			if got := killed.get("/a", key); got != 200 {
				t.Errorf("acknowledged before the kill, and %s answers %d", key, got)
			}
		}
		timer := time.AfterFunc(time.Duration(50+100*round)*time.Millisecond, func() { cmd.Process.Kill() })
		for i := 0; ; i++ {
			name := fmt.Sprintf("r%d_%d", round, i)
			if !killed.tryPut("consumers/"+name, consumer(name, name)) {
				break
			}
			acked = append(acked, name)
		}
		timer.Stop()
		cmd.Process.Kill()
		_ = cmd.Wait()
		s.http.CloseIdleConnections()
	}
	if len(acked) == 0 {
		t.Error("nothing was acknowledged")
	}
}

// await returns when the child serves its Admin API.
func (s *site) await(t *testing.T) {
	t.Helper()
	for range 600 {
		req, _ := http.NewRequest("GET", s.admin+"routes", nil)
		req.Header.Set("X-API-KEY", siteKey)
		if res, err := s.http.Do(req); err == nil {
			res.Body.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the child does not serve")
}

// tryPut reports whether the write was acknowledged.
func (s *site) tryPut(path, body string) bool {
	req, _ := http.NewRequest("PUT", s.admin+path, strings.NewReader(body))
	req.Header.Set("X-API-KEY", siteKey)
	res, err := s.http.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode < 300
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		defer l.Close()
	}
	return ports
}

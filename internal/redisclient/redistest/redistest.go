// Package redistest runs a real Redis for tests.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is a running redis-server.
type Server struct {
	Host string
	Port int
	cmd  *exec.Cmd
}

// Start runs an empty Redis until the test ends. Where redis-server is not
// installed, the test is skipped.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := run(tb, "", args...)
	s.await(tb)
	return s
}

// Cluster runs a cluster of one node.
func Cluster(tb testing.TB) *Server {
	tb.Helper()
	s := run(tb, "", "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
	s.await(tb)
	c := s.Client(0)
	defer c.Close()
	ctx := tb.Context()
	if err := c.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		tb.Fatal(err)
	}
	until(tb, "the cluster", func() bool {
		info, err := c.ClusterInfo(ctx).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	return s
}

// Sentinel runs a sentinel that knows a master by that name.
func Sentinel(tb testing.TB, master *Server, name string) *Server {
	tb.Helper()
	conf := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s %s %d 1\n", name, master.Host, master.Port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s := run(tb, conf, "--sentinel")
	s.await(tb)
	return s
}

// Addr is host:port.
func (s *Server) Addr() string { return fmt.Sprintf("%s:%d", s.Host, s.Port) }

// Client connects to the server; the caller closes it.
func (s *Server) Client(db int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), DB: db, Protocol: 2, DisableIdentity: true})
}

// Stop ends the server before the test ends.
func (s *Server) Stop() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // killed
	}
}

func run(tb testing.TB, conf string, args ...string) *Server {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Skip("redis-server is not installed")
	}
	s := &Server{Host: "127.0.0.1", Port: freePort(tb)}
	var all []string
	if conf != "" {
		all = append(all, conf)
	}
	all = append(all, "--port", fmt.Sprint(s.Port), "--bind", s.Host, "--dir", tb.TempDir())
	if conf == "" {
		all = append(all, "--save", "", "--appendonly", "no")
	}
	s.cmd = exec.Command(path, append(all, args...)...)
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *Server) await(tb testing.TB) {
	tb.Helper()
	c := s.Client(0)
	defer c.Close()
	until(tb, "redis-server", func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), time.Second)
		defer cancel()
		err := c.Ping(ctx).Err()
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH")
	})
}

func until(tb testing.TB, what string, ready func() bool) {
	tb.Helper()
	for range 1000 {
		if ready() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	tb.Fatalf("%s does not get ready", what)
}

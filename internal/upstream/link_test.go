package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"weir/internal/model"
)

// nodeOf is a node that says its name and closes.
func nodeOf(t *testing.T, name string) model.Node {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, name) // the client compares
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return model.Node{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Weight: 1}
}

// connected is which node a session reaches.
func connected(u *Upstream, s *Session) (string, error) {
	link, err := u.Connect(context.Background(), s)
	if err != nil {
		return "", err
	}
	defer link.Close()
	b, err := io.ReadAll(link)
	return string(b), err
}

func TestConnect(t *testing.T) {
	pools := NewPools()
	defer pools.Close()
	a, b := nodeOf(t, "a"), nodeOf(t, "b")
	dead := model.Node{Host: "127.0.0.1", Port: 1, Weight: 1, Priority: 1}
	none, one := 0, 1
	for _, c := range []struct {
		name  string
		m     model.Upstream
		want  string
		kind  Kind
		tries int
	}{
		{"one node", model.Upstream{Nodes: []model.Node{a}}, "a", 0, 1},
		{"priorities", model.Upstream{Nodes: []model.Node{dead, b}}, "b", 0, 2},
		{"no retries", model.Upstream{Nodes: []model.Node{dead, b}, Retries: &none}, "", Dial, 1},
		{"all tried", model.Upstream{Nodes: []model.Node{dead}, Retries: &one}, "", Dial, 2},
		{"http is tcp", model.Upstream{Scheme: "http", Nodes: []model.Node{a}}, "a", 0, 1},
		{"no nodes", model.Upstream{}, "", NoNodes, 0},
		{"no port", model.Upstream{Nodes: []model.Node{{Host: "127.0.0.1", Weight: 1}}}, "", NoPort, 0},
		{"no TLS there", model.Upstream{Scheme: "tls", Nodes: []model.Node{a}}, "", Dial, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.m.Scheme == "" {
				c.m.Scheme = "tcp"
			}
			u, err := Compile(&c.m, Env{Pools: pools})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			s := &Session{Network: "tcp"}
			got, err := connected(u, s)
			var failed *Error
			if errors.As(err, &failed) != (c.kind != 0) || failed != nil && failed.Kind != c.kind {
				t.Errorf("%v", err)
			}
			if got != c.want || len(s.Tries) != c.tries {
				t.Errorf("%q after %d tries", got, len(s.Tries))
			}
		})
	}
}

// TestConnectBusy: a node is busy as long as its link is open, and the key of a
// session decides like that of a request.
func TestConnectBusy(t *testing.T) {
	pools := NewPools()
	defer pools.Close()
	nodes := []model.Node{nodeOf(t, "a"), nodeOf(t, "b")}
	least, err := Compile(&model.Upstream{Scheme: "tcp", Type: leastConn, Nodes: nodes}, Env{Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	defer least.Close()
	link, err := least.Connect(context.Background(), &Session{Network: "tcp"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := io.ReadAll(link)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := connected(least, &Session{Network: "tcp"}); err != nil || got == string(first) {
			t.Errorf("%s again, %v", got, err)
		}
	}
	link.Close()
	link.Close()
	if n := least.set.Load().nodes[0].load.active.Load() + least.set.Load().nodes[1].load.active.Load(); n != 0 {
		t.Errorf("%d sessions after the last", n)
	}
	ring, err := Compile(&model.Upstream{Scheme: "tcp", Type: chashType, Nodes: nodes}, Env{Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	seen := map[string]bool{}
	for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		s := func() *Session { return &Session{Network: "tcp", HashKey: func() string { return key }} }
		x, err1 := connected(ring, s())
		y, err2 := connected(ring, s())
		if x != y || err1 != nil || err2 != nil {
			t.Errorf("%s: %s, then %s (%v, %v)", key, x, y, err1, err2)
		}
		seen[x] = true
	}
	if len(seen) != 2 {
		t.Errorf("eight keys at %v", seen)
	}
}

func TestConnectAborted(t *testing.T) {
	pools := NewPools()
	defer pools.Close()
	u, err := Compile(&model.Upstream{Scheme: "tcp", Nodes: []model.Node{nodeOf(t, "a")}}, Env{Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	ctx, cancel := context.WithCancel(context.Background())
	_, err = u.Connect(ctx, &Session{Network: "tcp", BeforeTry: func(int) error {
		cancel()
		time.Sleep(10 * time.Millisecond) // until the end is known
		return nil
	}})
	var failed *Error
	if !errors.As(err, &failed) || failed.Kind != Aborted {
		t.Errorf("%v", err)
	}
}

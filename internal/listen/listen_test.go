package listen

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain is also the process that systemd starts: it says what it was given.
func TestMain(m *testing.M) {
	if os.Getenv("LISTEN_CHILD") == "" {
		os.Exit(m.Run())
	}
	// systemd knows the child's number before it runs; this parent does not.
	environ := func(name string) string {
		if name == "LISTEN_PID" {
			return fmt.Sprint(os.Getpid())
		}
		return os.Getenv(name)
	}
	s, err := New(false, environ)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, want := range strings.Fields(os.Getenv("LISTEN_CHILD")) {
		network, addr, _ := strings.Cut(want, "/")
		var c io.Closer
		if strings.HasPrefix(network, "udp") {
			c, err = s.ListenPacket(context.Background(), network, addr)
		} else {
			c, err = s.Listen(context.Background(), network, addr)
		}
		fmt.Println(want, err)
		if err == nil {
			c.Close()
		}
	}
	fmt.Println("unused", s.Unused())
	s.Close()
	os.Exit(0)
}

func TestInherited(t *testing.T) {
	dual, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer dual.Close()
	v4, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer v4.Close()
	packet, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packet.Close()
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cmd := exec.Command(os.Args[0])
	for _, s := range []any{dual, v4, packet, other} {
		f, err := s.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	_, port, _ := net.SplitHostPort(dual.Addr().String())
	ask := []string{"tcp4/0.0.0.0:" + port, "tcp6/[::]:" + port, "tcp4/" + v4.Addr().String(), "udp4/" + packet.LocalAddr().String(), "tcp4/127.0.0.1:0"}
	cmd.Env = append(os.Environ(), "LISTEN_FDS=4", "LISTEN_CHILD="+strings.Join(ask, " "))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	want := fmt.Sprintf("%s <nil>\n%s %v\n%s <nil>\n%s <nil>\n%s <nil>\nunused [tcp %s]\n",
		ask[0], ask[1], ErrCovered, ask[2], ask[3], ask[4], other.Addr())
	if string(out) != want {
		t.Errorf("got:\n%swant:\n%s", out, want)
	}
}

func TestNotForUs(t *testing.T) {
	for _, env := range []map[string]string{{}, {"LISTEN_PID": "1", "LISTEN_FDS": "7"}} {
		if s, err := New(false, func(n string) string { return env[n] }); err != nil || len(s.inherited) != 0 {
			t.Errorf("%v: %v %v", env, s, err)
		}
	}
	env := map[string]string{"LISTEN_PID": fmt.Sprint(os.Getpid()), "LISTEN_FDS": "x"}
	if _, err := New(false, func(n string) string { return env[n] }); err == nil {
		t.Error("nonsense was understood")
	}
}

// A greeter accepts connections and says its name.
type greeter struct {
	*Sockets
	l    net.Listener
	name string
	wg   sync.WaitGroup
}

func newGreeter(t *testing.T, addr, name string) *greeter {
	s, err := New(true, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	g := &greeter{Sockets: s, name: name}
	if g.l, err = s.Listen(t.Context(), "tcp4", addr); err != nil {
		t.Fatal(err)
	}
	g.wg.Go(func() {
		for {
			c, err := g.l.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() {
				defer c.Close()
				io.WriteString(c, g.name)
			})
		}
	})
	return g
}

func (g *greeter) replace() {
	g.HandOver(context.Background())
	g.l.Close()
	g.wg.Wait()
}

// One process after the other has the address; no connection is refused.
func TestHandOver(t *testing.T) {
	old := newGreeter(t, "127.0.0.1:0", "0")
	addr := old.l.Addr().String()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var greeted atomic.Int64
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(c); err != nil || len(b) != 1 {
					t.Errorf("%q %v", b, err)
				}
				c.Close()
				greeted.Add(1)
			}
		})
	}
	for i := range 3 {
		next := newGreeter(t, addr, fmt.Sprint(i+1))
		time.Sleep(20 * time.Millisecond)
		old.replace()
		old = next
	}
	close(stop)
	clients.Wait()
	if greeted.Load() < 100 {
		t.Errorf("only %d connections", greeted.Load())
	}
	if c, err := net.Dial("tcp", addr); err != nil {
		t.Error(err)
	} else {
		if b, _ := io.ReadAll(c); string(b) != "3" {
			t.Errorf("%q answers", b)
		}
		c.Close()
	}
	old.replace()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("somebody is left")
	}
}

func TestNotShared(t *testing.T) {
	s, err := New(false, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if again, err := s.Listen(t.Context(), "tcp4", l.Addr().String()); err == nil {
		again.Close()
		t.Error("opened twice")
	}
}

func TestNotify(t *testing.T) {
	at := t.TempDir() + "/notify"
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := Notify("READY=1", func(string) string { return at }); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("%q %v", b[:n], err)
	}
	if err := Notify("READY=1", func(string) string { return "" }); err != nil {
		t.Error(err)
	}
	if err := Notify("READY=1", func(string) string { return at + "/nowhere" }); err == nil {
		t.Error("nobody was told")
	}
}

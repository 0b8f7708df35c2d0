package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A process is a gateway in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
}

// launch starts a gateway with the configuration in file and waits until it is
// ready, as an operator does: by what it prints.
func launch(t *testing.T, file string, env []string, sockets ...*os.File) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "WEIR_TEST_CHILD="+file), env...)
	cmd.ExtraFiles = sockets
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t, cmd}
	t.Cleanup(func() { cmd.Process.Kill() })
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "ready") {
				ready <- true
				break
			}
		}
		close(ready)
		io.Copy(io.Discard, out)
	}()
	if !<-ready {
		t.Fatal("the gateway ended before it was ready")
	}
	return p
}

func (p *process) quit() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGQUIT)
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}

// standaloneConfig writes a configuration whose objects stand in a file.
func standaloneConfig(t *testing.T, port int, more string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	source := fmt.Sprintf(`
apisix: {node_listen: [{ip: 127.0.0.1, port: %d}], ssl: {enable: false}, enable_control: false%s}
nginx_config: {http: {enable_access_log: false}}
plugin_attr: {prometheus: {enable_export_server: false}}
deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}
weir: {store: {dir: %s/data}}
`, port, more, dir)
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := "routes: []\n#END\n"
	if err := os.WriteFile(filepath.Join(dir, "apisix.yaml"), []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// askOnce sends a request on a connection of its own and reports that it was
// answered, by nobody's route.
func askOnce(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	if r.StatusCode != 404 {
		return fmt.Errorf("status %d", r.StatusCode)
	}
	return nil
}

// load asks all the time until it is told to stop; every request must be answered.
func load(t *testing.T, addr string) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := askOnce(addr); err != nil {
					t.Error(err)
				}
				asked.Add(1)
			}
		})
	}
	stop = sync.OnceValue(func() int64 {
		cancel()
		wg.Wait()
		return asked.Load()
	})
	t.Cleanup(func() { stop() })
	return stop
}

// A new process takes over from the old one, twice; no connection is refused.
func TestUpgrade(t *testing.T) {
	port := freePorts(t, 1)[0]
	file := standaloneConfig(t, port, ", enable_reuseport: true")
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	old := launch(t, file, nil)
	stop := load(t, addr)
	for range 2 {
		next := launch(t, file, nil)
		old.quit()
		old = next
	}
	if n := stop(); n < 100 {
		t.Errorf("only %d requests", n)
	}
	old.quit()
	if askOnce(addr) == nil {
		t.Error("somebody still serves")
	}
}

// systemd keeps the socket open while its service restarts: requests wait.
func TestSocketActivation(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	file := standaloneConfig(t, l.Addr().(*net.TCPAddr).Port, "")
	at := filepath.Join(t.TempDir(), "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	env := []string{"LISTEN_FDS=1", "LISTEN_PID=self", "NOTIFY_SOCKET=" + at}
	stop := load(t, l.Addr().String())
	for range 2 {
		p := launch(t, file, env, socket)
		b := make([]byte, 64)
		if n, err := notify.Read(b); err != nil || string(b[:n]) != "READY=1" {
			t.Errorf("%q %v", b[:n], err)
		}
		time.Sleep(50 * time.Millisecond)
		p.quit()
		if n, err := notify.Read(b); err != nil || string(b[:n]) != "STOPPING=1" {
			t.Errorf("%q %v", b[:n], err)
		}
	}
	p := launch(t, file, env, socket)
	if n := stop(); n < 20 {
		t.Errorf("only %d requests", n)
	}
	p.quit()
}

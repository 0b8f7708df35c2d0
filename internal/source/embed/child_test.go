package embed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// children are what the test binary does when it is started by a test.
var children = map[string]func(dir string){
	"write": childWrite,
	"quiet": childQuiet,
	"full":  childFull,
	"damaged": func(dir string) {
		_, err := Start(context.Background(), Config{Dir: dir, Listen: Off})
		fmt.Println("refused:", err)
	},
}

func child(t *testing.T, mode, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WEIR_EMBED_CHILD="+mode, "WEIR_EMBED_DIR="+dir)
	return cmd
}

func mustStart(dir, listen string) *Server {
	s, err := Start(context.Background(), Config{Dir: dir, Listen: listen})
	if err != nil {
		fmt.Println("start:", err)
		os.Exit(1)
	}
	return s
}

// childWrite writes until it is killed and prints each key after its answer.
func childWrite(dir string) {
	s := mustStart(dir, Off)
	run := time.Now().UnixNano()
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("/k/%d/%d/%d", run, writer, i)
				if _, err := s.Client().Put(context.Background(), key, key); err != nil {
					fmt.Println("put:", err)
					os.Exit(1)
				}
				os.Stdout.WriteString(key + "\n")
			}
		})
	}
	wg.Wait()
}

// A write that was acknowledged is there after kill -9.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var acked []string
	for range 4 {
		cmd := child(t, "write", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		stop := 20 + rand.IntN(200)
		for n := 0; ; n++ {
			if n == stop {
				cmd.Process.Kill()
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			acked = append(acked, strings.TrimSuffix(line, "\n"))
		}
		cmd.Wait()
	}
	s := start(t, Config{Dir: dir, Listen: Off})
	t.Log(len(acked), "acknowledged writes")
	for _, key := range acked {
		if res, err := s.Client().Get(t.Context(), key); err != nil || len(res.Kvs) != 1 || string(res.Kvs[0].Value) != key {
			t.Fatalf("%s is lost: %v %v", key, res, err)
		}
	}
}

// childQuiet lists the sockets it listens on.
func childQuiet(dir string) {
	s := mustStart(dir, "127.0.0.1:0")
	if _, err := s.Client().Put(context.Background(), "/a", "b"); err != nil {
		fmt.Println(err)
	}
	for _, addr := range listening() {
		fmt.Println("listens on", addr)
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
	}
}

// listening reads the TCP listeners of this process from the kernel.
func listening() []string {
	mine := map[string]bool{}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil {
			mine[name] = true
		}
	}
	var found []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && mine["socket:["+f[9]+"]"] {
				found = append(found, strings.Split(f[1], ":")[0])
			}
		}
	}
	return found
}

// The server says nothing on the standard streams, and nobody outside reaches
// it.
func TestQuiet(t *testing.T) {
	cmd := child(t, "quiet", t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	const loopback = "0100007F"
	if out.String() != "listens on "+loopback+"\n" || errs.Len() != 0 {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

// childFull takes away the disk from a running server.
func childFull(dir string) {
	s := mustStart(dir, Off)
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 1, Max: 1}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := s.Client().Put(ctx, "/a", "b")
	fmt.Println("written:", err == nil)
	select {
	case <-s.Failed():
		fmt.Println("told:", s.Err() != nil && errors.Is(s.Err(), syscall.EFBIG))
	case <-time.After(5 * time.Second):
		fmt.Println("not told")
	}
	s.Close()
	fmt.Println("alive")
}

// A disk that takes no more ends the server, not the process.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	out, err := child(t, "full", dir).CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	if got := string(out); got != "written: false\ntold: true\nalive\n" {
		t.Errorf("%q", got)
	}
	start(t, Config{Dir: dir, Listen: Off})
}

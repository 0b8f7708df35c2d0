package standalone

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/source/declared"
)

// child pushes until it is killed and prints a number after each answer.
func child(dir string) {
	s, err := Open(Config{Dir: dir, Checker: &declared.Checker{
		Documents: documents(), Plugins: map[string]plugin.Spec{}, Compile: func(model.Object) error { return nil }, Versioned: true,
	}})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	n, _ := strconv.Atoi(s.Current().Digest)
	for {
		n++
		doc, err := document.Parse(fmt.Appendf(nil, `{"routes":[{"id":"r","uri":"/%d","plugins":{}}]}`, n))
		if err == nil {
			_, err = s.Push(strconv.Itoa(n), doc)
		}
		if err != nil {
			fmt.Println("push:", err)
			os.Exit(1)
		}
		os.Stdout.WriteString(strconv.Itoa(n) + "\n")
	}
}

// A push that was answered is there after kill -9, or one that came after it.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	last := 0
	for range 4 {
		cmd := exec.CommandContext(context.Background(), os.Args[0])
		cmd.Env = append(os.Environ(), "WEIR_STANDALONE_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, stop := bufio.NewReader(out), 10+rand.IntN(50)
		for n := 0; ; n++ {
			if n == stop {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if last, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
				t.Fatalf("the child says %q", line)
			}
		}
		_ = cmd.Wait() // it was killed
		s, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		doc := s.Current()
		got, err := strconv.Atoi(doc.Digest)
		if err != nil || got < last || got > last+1 {
			t.Errorf("%d was answered, %d is there (%v)", last, got, err)
		}
		if uri := doc.Value.Get("routes").Items[0].Get("uri").Text; uri != "/"+doc.Digest {
			t.Errorf("digest %s with %s", doc.Digest, uri)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, temporary)); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	}
	t.Log(last, "answered pushes")
}

package bench

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// echoed sends a line and reads it back.
func echoed(nc net.Conn) bool {
	_ = nc.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := nc.Write([]byte("hello\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(nc).ReadString('\n')
	return err == nil && line == "hello\n"
}

func TestRelay(t *testing.T) {
	target, err := listenAndServe(func(nc net.Conn) { _, _ = io.Copy(nc, nc) })
	if err != nil {
		t.Fatal(err)
	}
	defer target.close()
	r, err := newRelay(target.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", r.server.addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	first := dial()
	if !echoed(first) {
		t.Fatal("a good network does not pass on")
	}
	r.delay.Store(int64(30 * time.Millisecond))
	if began := time.Now(); !echoed(first) || time.Since(began) < 60*time.Millisecond {
		t.Errorf("both ways took %v", time.Since(began))
	}
	r.silent.Store(true)
	if echoed(first) || echoed(dial()) {
		t.Error("something came through silence")
	}
	r.mend()
	if echoed(first) {
		t.Error("a connection lives on that has lost bytes")
	}
	second := dial()
	if !echoed(second) {
		t.Error("a mended network does not pass on")
	}
	r.cut()
	if echoed(second) || echoed(dial()) {
		t.Error("something came through a cut")
	}
	r.mend()
	if !echoed(dial()) {
		t.Error("a mended network does not pass on")
	}
}

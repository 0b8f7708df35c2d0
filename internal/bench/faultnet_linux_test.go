package bench

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenWithin opens a listener that answers what it is sent, in a namespace.
func listenWithin(t *testing.T, n *namespace) net.Listener {
	t.Helper()
	type result struct {
		ln  net.Listener
		err error
	}
	opened := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: a thread that was elsewhere ends
		fd, err := unix.Open("/run/netns/"+n.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err != nil {
			opened <- result{err: err}
			return
		}
		ln, err := net.Listen("tcp", n.address+":0")
		opened <- result{ln, err}
	}()
	r := <-opened
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.ln.Close() })
	return r.ln
}

// Between gateway and store all is lost, on connections old and new, until it is not.
func TestNamespace(t *testing.T) {
	if err := needNamespace(nil); err != nil {
		t.Skip(err)
	}
	n, err := newNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	ln := listenWithin(t, n)
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			_, _ = nc.Write([]byte("x"))
		}
	}()
	reaches := func(patience time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		nc, err := tcpDialer(ln.Addr().String())(ctx)
		if err != nil {
			return false
		}
		defer nc.Close()
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		_, err = nc.Read(make([]byte, 1))
		return err == nil
	}
	const patience, short = 20 * time.Second, 300 * time.Millisecond
	for _, c := range []struct {
		name       string
		part, join func() error
	}{{"packets", n.lose, n.find}, {"link", n.unplug, n.plug}} {
		if !reaches(patience) {
			t.Fatalf("%s: nothing is reached", c.name)
		}
		if err := c.part(); err != nil {
			t.Fatal(err)
		}
		if reaches(short) {
			t.Errorf("%s: nothing is lost", c.name)
		}
		if err := c.join(); err != nil {
			t.Fatal(err)
		}
		if !reaches(patience) {
			t.Errorf("%s: nothing is reached again", c.name)
		}
	}
}

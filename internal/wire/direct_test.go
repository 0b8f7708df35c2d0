package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDirectMovesBytes: both ways at once, through buffers that are smaller than
// what is written.
func TestDirectMovesBytes(t *testing.T) {
	a, b := tcpPair(t)
	for _, c := range []*net.TCPConn{a, b} {
		if err := c.SetWriteBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
	}
	left, right := Direct(a), Direct(b)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var wg sync.WaitGroup
	for _, way := range []struct{ from, to io.ReadWriter }{{left, right}, {right, left}} {
		wg.Go(func() {
			if n, err := way.from.Write(text); n != len(text) || err != nil {
				t.Errorf("%d of %d written: %v", n, len(text), err)
			}
		})
		wg.Go(func() {
			got := make([]byte, len(text))
			if _, err := io.ReadFull(way.to, got); err != nil || !bytes.Equal(got, text) {
				t.Errorf("read something else: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestDirectEnds(t *testing.T) {
	a, b := tcpPair(t)
	c := Direct(a)
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing is asked for: %d, %v", n, err)
	}
	a.SetReadDeadline(time.Now().Add(time.Millisecond))
	var timeout net.Error
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("the deadline: %d, %v", n, err)
	}
	a.SetReadDeadline(time.Time{})
	if _, err := b.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	b.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "last" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	b.SetLinger(0)
	b.Close()
	var err error
	for range 100 { // the reset is on its way
		if _, err = c.Write([]byte("x")); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer is gone: %v", err)
	}
}

func TestDirectIsClosed(t *testing.T) {
	a, _ := tcpPair(t)
	c := Direct(a)
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	time.Sleep(time.Millisecond)
	a.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read that was under way: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write afterwards: %v", err)
	}
	if left, right := net.Pipe(); Direct(left) != io.ReadWriter(left) || right.Close() != nil {
		t.Error("a connection of another kind is its own way")
	}
}

func TestDirectAllocatesNothing(t *testing.T) {
	a, b := tcpPair(t)
	from, to := Direct(a), Direct(b)
	text, got := []byte("hello"), make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := from.Write(text); err != nil {
			t.Fatal(err)
		}
		if n, err := to.Read(got); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

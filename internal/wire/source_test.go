package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here.(*net.TCPConn), there.(*net.TCPConn)
}

func TestSource(t *testing.T) {
	for name, as := range map[string]func(*net.TCPConn) net.Conn{
		"plain TCP": func(c *net.TCPConn) net.Conn { return c },
		"any":       func(c *net.TCPConn) net.Conn { return struct{ net.Conn }{c} },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := tcpPair(t)
			testSource(t, from, NewSource(as(to), 1000))
		})
	}
}

func testSource(t *testing.T, from *net.TCPConn, s *Source) {
	sent := bytes.Repeat([]byte("0123456789"), 1000)
	go func() {
		_, _ = from.Write(sent) // what is missing shows below
		_ = from.CloseWrite()
	}()
	var got []byte
	for {
		b, n, waiting, err := s.Read()
		if err == io.EOF {
			break
		}
		if err != nil || n == 0 || n > 1000 || n < 1000 && waiting > 0 || waiting > len(sent) {
			t.Fatalf("%d bytes, %d waiting, %v", n, waiting, err)
		}
		got = append(got, b.B[:n]...)
		b.Free()
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, want %d", len(got), len(sent))
	}
}

// A deadline ends a read that waits, and the next one goes on.
func TestSourceDeadline(t *testing.T) {
	from, to := tcpPair(t)
	s := NewSource(to, 1000)
	_ = to.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, _, _, err := s.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = to.SetReadDeadline(time.Time{})
	if _, err := from.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	b, n, _, err := s.Read()
	if err != nil || n != 1 || b.B[0] != 'x' {
		t.Fatal(n, err)
	}
	b.Free()
	_ = from.SetLinger(0)
	from.Close()
	if _, _, _, err := s.Read(); err == nil || err == io.EOF {
		t.Error("a reset: ", err)
	}
}

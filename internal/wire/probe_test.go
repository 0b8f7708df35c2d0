package wire

import (
	"io"
	"net"
	"testing"
	"time"
)

// connect returns the two ends of a TCP connection.
func connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// await waits until the probe sees the state; the kernel takes its time.
func await(t *testing.T, p *Probe, want ProbeState) {
	t.Helper()
	for range 2000 {
		if p.State() == want {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("state %v, want %v", p.State(), want)
}

func TestProbe(t *testing.T) {
	client, server := connect(t)
	p := NewProbe(client)
	if s := p.State(); s != Quiet {
		t.Fatalf("new connection: %v", s)
	}
	send(t, server, "x")
	await(t, p, Readable)
	var b [1]byte
	if _, err := io.ReadFull(client, b[:]); err != nil || b[0] != 'x' {
		t.Fatalf("the probe took the byte: %q %v", b, err)
	}
	if s := p.State(); s != Quiet {
		t.Fatalf("after reading: %v", s)
	}
	server.Close()
	await(t, p, Ended)
	client.Close()
	if s := p.State(); s != Ended {
		t.Fatalf("closed here: %v", s)
	}
}

// A probe must not wait for a reader.
func TestProbeWhileReading(t *testing.T) {
	client, server := connect(t)
	p := NewProbe(client)
	done := make(chan error, 1)
	go func() {
		_, err := client.Read(make([]byte, 1))
		done <- err
	}()
	for range 100 {
		if s := p.State(); s != Quiet {
			t.Fatalf("state %v", s)
		}
	}
	send(t, server, "x")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestProbeReset(t *testing.T) {
	client, server := connect(t)
	p := NewProbe(client)
	if err := server.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	server.Close()
	await(t, p, Ended)
}

func TestNoProbe(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if p := NewProbe(a); p != nil {
		t.Error("a probe of a pipe")
	}
}

package etcd

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A proxy stands between the client and the store and spoils connections.
type proxy struct {
	url    string
	target string
	ln     net.Listener
	refuse atomic.Bool  // new connections are closed at once
	delay  atomic.Int64 // nanoseconds before each piece from the store
	passed atomic.Int64 // bytes from the store

	mu    sync.Mutex
	pairs map[*pair]bool
	wg    sync.WaitGroup
}

type pair struct {
	client, server net.Conn
	mute           atomic.Bool // what the store sends is lost
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + ln.Addr().String(), target: target, ln: ln, pairs: map[*pair]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || p.refuse.Load() {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		p.pairs[c] = true
		p.mu.Unlock()
		p.wg.Go(func() { io.Copy(server, client); c.close() })
		p.wg.Go(func() {
			p.back(c)
			c.close()
			p.mu.Lock()
			delete(p.pairs, c)
			p.mu.Unlock()
		})
	}
}

func (c *pair) close() { c.client.Close(); c.server.Close() }

func (p *proxy) back(c *pair) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(p.delay.Load()))
		if c.mute.Load() {
			continue
		}
		p.passed.Add(int64(n))
		if _, err := c.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) each(f func(*pair)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		f(c)
	}
}

// cut closes all connections.
func (p *proxy) cut() { p.each((*pair).close) }

// mute turns the present connections into black holes.
func (p *proxy) mute() { p.each(func(c *pair) { c.mute.Store(true) }) }

func (p *proxy) connections() int {
	n := 0
	p.each(func(*pair) { n++ })
	return n
}

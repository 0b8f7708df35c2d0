package load

import (
	"bytes"
	"net"
	"sync"
)

const originResponse = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"

// An Origin is a server for gateways to forward to: it answers every request
// head with the same 200 and does nothing else, so that it takes little from
// the machine it shares. It knows no request bodies.
type Origin struct {
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// ServeOrigin answers on ln until Close.
func ServeOrigin(ln net.Listener) *Origin {
	o := &Origin{ln: ln, conns: map[net.Conn]struct{}{}}
	o.wg.Go(o.accept)
	return o
}

// Addr is where the origin listens.
func (o *Origin) Addr() net.Addr { return o.ln.Addr() }

// Close ends the listener and every connection, and waits for them.
func (o *Origin) Close() {
	_ = o.ln.Close()
	o.mu.Lock()
	for c := range o.conns {
		_ = c.Close()
	}
	o.conns = nil
	o.mu.Unlock()
	o.wg.Wait()
}

func (o *Origin) accept() {
	for {
		c, err := o.ln.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		if o.conns == nil {
			_ = c.Close()
		} else {
			o.conns[c] = struct{}{}
			o.wg.Go(func() { o.serve(c) })
		}
		o.mu.Unlock()
	}
}

func (o *Origin) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		o.mu.Lock()
		delete(o.conns, c)
		o.mu.Unlock()
	}()
	buf := make([]byte, 16<<10)
	held := 0
	for {
		n, err := c.Read(buf[held:])
		if err != nil {
			return
		}
		held += n
		for {
			end := bytes.Index(buf[:held], []byte("\r\n\r\n"))
			if end < 0 {
				break
			}
			if _, err := c.Write([]byte(originResponse)); err != nil {
				return
			}
			held = copy(buf, buf[end+4:held])
		}
		if held == len(buf) {
			return
		}
	}
}

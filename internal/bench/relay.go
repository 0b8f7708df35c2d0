package bench

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A relay stands between a gateway and one member of its store and does to their
// connections what networks do.
type relay struct {
	server *server
	target string        // host:port
	ended  chan struct{} // closed by close

	refused atomic.Bool  // new connections are closed at once
	silent  atomic.Bool  // what either side sends is lost, on connections old and new
	delay   atomic.Int64 // nanoseconds before each piece, in both directions

	mu    sync.Mutex
	links map[*link]struct{}
}

// A link is one connection through a relay.
type link struct{ client, target net.Conn }

func (l *link) close() { l.client.Close(); l.target.Close() }

// relayPiece is how much is passed on at once.
const relayPiece = 64 << 10

func newRelay(target string) (*relay, error) {
	r := &relay{target: target, ended: make(chan struct{}), links: map[*link]struct{}{}}
	var err error
	r.server, err = listenAndServe(r.serve)
	return r, err
}

func (r *relay) serve(client net.Conn) {
	if r.refused.Load() {
		return
	}
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	target, err := d.DialContext(ctx, "tcp", r.target)
	cancel()
	if err != nil {
		return
	}
	l := &link{client: client, target: target}
	defer l.close()
	r.mu.Lock()
	r.links[l] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.links, l)
		r.mu.Unlock()
	}()
	var wg sync.WaitGroup
	wg.Go(func() { r.pass(target, client); l.close() })
	r.pass(client, target)
	l.close()
	wg.Wait()
}

// pass moves what comes from one side to the other.
func (r *relay) pass(to io.Writer, from io.Reader) {
	buf := make([]byte, relayPiece)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if d := r.delay.Load(); d > 0 {
			select {
			case <-time.After(time.Duration(d)):
			case <-r.ended:
			}
		}
		if r.silent.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut closes all connections and refuses new ones until mend.
func (r *relay) cut() {
	r.refused.Store(true)
	r.drop()
}

// drop closes all connections.
func (r *relay) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.close()
	}
}

// mend makes it a good network again. What was lost in silence stays lost, so
// those connections end.
func (r *relay) mend() {
	r.refused.Store(false)
	r.delay.Store(0)
	if r.silent.Swap(false) {
		r.drop()
	}
}

func (r *relay) close() {
	close(r.ended)
	r.drop()
	r.server.close()
}

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// websocketsOptions are the flags of `weir bench websockets`.
type websocketsOptions struct {
	count int
	idle  time.Duration
}

const websocketsLong = `Websockets opens WebSockets through the gateway to an origin, leaves them idle,
and shows the resident memory that each of them costs the gateway, which has two
connections and two buffers for it. At the end every one has to carry a byte both
ways. What the kernel keeps is not in it.

A process may have no more descriptors than "ulimit -Hn" says, two for each
WebSocket: fewer are opened if they do not fit.`

func websocketsCommand() *cobra.Command {
	o := &websocketsOptions{}
	cmd := figureCommand("websockets", "Memory of idle WebSockets", websocketsLong,
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	cmd.Flags().IntVar(&o.count, "count", 10000, "number of WebSockets")
	cmd.Flags().DurationVar(&o.idle, "idle", 10*time.Second, "how long they are left idle")
	return cmd
}

// A WebsocketsReport is the outcome of `weir bench websockets`.
type WebsocketsReport struct {
	Wanted int     `json:"wanted"`
	Count  int     `json:"count"`
	Before float64 `json:"rss_before_mib"`
	Open   float64 `json:"rss_open_mib"` // right after the last one was opened
	Idle   float64 `json:"rss_idle_mib"` // after they were idle
	Used   float64 `json:"rss_used_mib"` // after a byte each way on all of them
	Each   float64 `json:"each_kib"`     // the highest of these less before, for each
}

func (r *WebsocketsReport) table(w io.Writer) {
	fmt.Fprintf(w, "%d WebSockets (%d wanted): resident %.1f MiB before, %.1f MiB once open, %.1f MiB after they were idle, %.1f MiB after a byte each way: at most %.1f KiB each\n",
		r.Count, r.Wanted, r.Before, r.Open, r.Idle, r.Used, r.Each)
}

const websocketRules = `
routes:
  - id: bench
    uri: ` + abPath + `
    enable_websocket: true
    upstream: {type: roundrobin, timeout: {connect: 60, send: 600, read: 600}, nodes: {"` + originMark + `": 1}}
`

// spareDescriptors are those that a process needs besides its WebSockets.
const spareDescriptors = 200

// fitting is how many of n WebSockets a process has descriptors for.
func fitting(n int) int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return n
	}
	return int(min(int64(n), (int64(l.Cur)-spareDescriptors)/2))
}

func (o *websocketsOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*WebsocketsReport, error) {
	r := &WebsocketsReport{Wanted: o.count, Count: fitting(o.count)}
	if r.Count < 1 {
		return nil, Misuse{errors.New("--count must be positive, and there must be descriptors for it")}
	}
	origin, err := listenAndServe(echoWebsocket)
	if err != nil {
		return nil, err
	}
	defer origin.close()
	gateway, stop, err := f.startGateway(ctx, websocketRules, origin.addr())
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := r.fill(ctx, gateway, o.idle, p); err != nil {
		return nil, gateway.explain(err)
	}
	return r, nil
}

func (r *WebsocketsReport) fill(ctx context.Context, gateway *target, idle time.Duration, p *progress) (err error) {
	first, err := openWebsockets(ctx, gateway, 1)
	defer hangUp(first)
	if err != nil {
		return err
	}
	rss := func(into *float64) {
		u, e := processUsage(gateway.pid)
		*into, err = mib(u.rss), errors.Join(err, e)
	}
	rss(&r.Before)
	p.say("resident %.1f MiB before", r.Before)
	all, openErr := openWebsockets(ctx, gateway, r.Count)
	defer hangUp(all)
	if openErr != nil {
		return openErr
	}
	rss(&r.Open)
	p.say("%d are open: resident %.1f MiB", len(all), r.Open)
	if !sleepUntil(ctx, time.Now().Add(idle)) {
		return ctx.Err()
	}
	rss(&r.Idle)
	for i, nc := range all {
		if e := carries(nc); e != nil {
			return fmt.Errorf("WebSocket %d: %w", i, e)
		}
	}
	rss(&r.Used)
	r.Each = (max(r.Open, r.Idle, r.Used) - r.Before) * 1024 / float64(r.Count)
	return err
}

func hangUp(all []net.Conn) {
	for _, nc := range all {
		nc.Close()
	}
}

// openWebsockets opens n, a few at once. What is returned has to be closed,
// whatever the error.
func openWebsockets(ctx context.Context, t *target, n int) (all []net.Conn, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := make(chan struct{}, 32)
	for range n {
		turn <- struct{}{}
		mu.Lock()
		failed := err != nil
		mu.Unlock()
		if failed {
			break
		}
		wg.Go(func() {
			defer func() { <-turn }()
			nc, e := openWebsocket(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				err = e
				return
			}
			all = append(all, nc)
		})
	}
	wg.Wait()
	return all, err
}

func openWebsocket(ctx context.Context, t *target) (net.Conn, error) {
	nc, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprint(nc, "GET "+abPath+" HTTP/1.1\r\nHost: bench.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	_ = nc.SetReadDeadline(time.Now().Add(requestTimeout))
	head, err := readHeadText(bufio.NewReaderSize(nc, 512)) // no more than the head has been sent
	if err == nil && (len(head) < 12 || head[9:12] != "101") {
		err = fmt.Errorf("answered with %.40q", head)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// carries sends a byte and reads its echo.
func carries(nc net.Conn) error {
	_ = nc.SetDeadline(time.Now().Add(requestTimeout))
	b := []byte{'x'}
	if _, err := nc.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(nc, b)
	return err
}

// echoWebsocket agrees to a WebSocket and sends back the bytes that come, which
// it does not look into.
func echoWebsocket(nc net.Conn) {
	if _, err := readHeadText(bufio.NewReaderSize(nc, 4096)); err != nil {
		return
	}
	fmt.Fprint(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	b := make([]byte, 16)
	for {
		n, err := nc.Read(b)
		if err != nil {
			return
		}
		if _, err := nc.Write(b[:n]); err != nil {
			return
		}
	}
}

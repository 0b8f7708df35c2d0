package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/bench/load"
)

// killGateway kills the gateway with kill -9 at random moments and starts it again
// on what it left.
func killGateway(ctx context.Context, t *trial) error {
	client := &load.Client{Dial: tcpDialer(t.gateway.dataAddr())}
	defer client.Close()
	var longest time.Duration
	for i := range t.opts.kills {
		if err := t.pause(ctx, time.Duration(t.rng.IntN(1000))*time.Millisecond); err != nil {
			return err
		}
		t.gateway.proc.kill()
		began := time.Now()
		if err := t.gateway.start(); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, recoveryTime)
		err := awaitOK(wait, client, pathRequest("routes")(origin{}, 0))
		cancel()
		if err != nil {
			return fmt.Errorf("after kill %d: %w", i+1, err)
		}
		longest = max(longest, time.Since(began))
	}
	t.note("killed %d times, answers again after at most %.2f s", t.opts.kills, longest.Seconds())
	return nil
}

// exhaustDescriptors opens twice as many connections as the gateway has descriptors
// left, each second one with a request.
func exhaustDescriptors(ctx context.Context, t *trial) error {
	const spare = 100
	pid := t.gateway.proc.cmd.Process.Pid
	used, err := descriptors(pid)
	if err != nil {
		return err
	}
	limit := used + spare
	if err := limitDescriptors(pid, limit); err != nil {
		return err
	}
	held := t.crowd(ctx, 2*spare)
	defer func() {
		for _, nc := range held {
			_ = nc.Close()
		}
	}()
	if len(held) <= spare {
		return fmt.Errorf("only %d connections could be opened: nothing was exhausted", len(held))
	}
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	most, err := descriptors(pid)
	if err != nil {
		return err
	}
	answered, asked := 0, 0
	for i, nc := range held {
		if i%2 == 0 {
			continue
		}
		asked++
		status, err := answerOf(nc)
		if err != nil {
			continue
		}
		if answered++; status != "200" {
			return fmt.Errorf("a client that was admitted was answered %s", status)
		}
	}
	t.note("%d descriptors used, %d allowed; %d connections opened, %d used then, %d of %d requests on them answered",
		used, limit, len(held), most, answered, asked)
	return nil
}

// crowd opens connections, half of them with a request.
func (t *trial) crowd(ctx context.Context, n int) []net.Conn {
	var held []net.Conn
	request := []byte(pathRequest("routes")(origin{}, 0))
	for range n {
		try, cancel := context.WithTimeout(ctx, time.Second)
		nc, err := tcpDialer(t.gateway.dataAddr())(try)
		cancel()
		if err != nil {
			continue // the backlog is full as well
		}
		if len(held)%2 == 1 {
			_, _ = nc.Write(request) // an error shows when the answer is read
		}
		held = append(held, nc)
	}
	return held
}

// answerOf is the status that a connection was answered with by now.
func answerOf(nc net.Conn) (string, error) {
	const line = "HTTP/1.1 200"
	if err := nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		return "", err
	}
	var b [len(line)]byte
	if _, err := io.ReadFull(nc, b[:]); err != nil {
		return "", err
	}
	return string(b[len(line)-3:]), nil
}

// descriptors are the open files of a process.
func descriptors(pid int) (int, error) {
	all, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	return len(all), err
}

// dropConnections opens connections, some with the beginning of a request, and
// drops them, half of them with a reset.
func dropConnections(ctx context.Context, t *trial) error {
	pid := t.gateway.proc.cmd.Process.Pid
	before, err := descriptors(pid)
	if err != nil {
		return err
	}
	var failed atomic.Int64
	const batch, dialers = 2000, 8
	for done := 0; done < t.opts.connections; done += batch {
		n := min(batch, t.opts.connections-done)
		held := make([]net.Conn, n)
		var wg sync.WaitGroup
		for d := range dialers {
			wg.Go(func() {
				for i := d; i < n; i += dialers {
					if held[i] = t.halfOpen(ctx, i); held[i] == nil {
						failed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		for i, nc := range held {
			if nc == nil {
				continue
			}
			if i%2 == 0 {
				_ = nc.(*net.TCPConn).SetLinger(0)
			}
			_ = nc.Close()
		}
	}
	if failed.Load() > 0 {
		t.note("%d of %d connections were not accepted", failed.Load(), t.opts.connections)
	}
	t.mended = time.Now()
	if err := t.pause(ctx, t.opts.hold); err != nil {
		return err
	}
	after, err := descriptors(pid)
	t.note("%d connections opened and dropped; descriptors %d before, %d afterwards", t.opts.connections, before, after)
	if err == nil && after > before+50 {
		err = fmt.Errorf("%d descriptors before, %d afterwards", before, after)
	}
	return err
}

// halfOpen is a connection on which at most the beginning of a request was sent; nil
// if there is none.
func (t *trial) halfOpen(ctx context.Context, i int) net.Conn {
	try, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := tcpDialer(t.gateway.dataAddr())(try)
	if err != nil {
		return nil
	}
	switch i % 3 {
	case 1:
		_, err = nc.Write([]byte("GET /bench/routes/0 HTT"))
	case 2:
		_, err = nc.Write([]byte("POST /bench/routes/0 HTTP/1.1\r\nHost: bench.test\r\nContent-Length: 100\r\n\r\nabc"))
	}
	if err != nil {
		_ = nc.Close()
		return nil
	}
	return nc
}

// blackHoles loads routes whose upstreams take connections and never answer, and
// one whose host does not even take them.
func blackHoles(ctx context.Context, t *trial) error {
	silent, err := listenAndServe(func(nc net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := nc.Read(buf); err != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	defer silent.close()
	full, err := fullBacklog()
	if err != nil {
		return err
	}
	defer full.close()
	const timeouts = `"timeout":{"connect":2,"send":2,"read":2}`
	for i, addr := range []string{silent.addr(), full.addr} {
		d := document{
			key:     fmt.Sprintf("routes/bench_hole_%d", i),
			members: fmt.Sprintf(`"id":"bench_hole_%d","uri":"/bench/holes/%d","upstream":{%s,%s}`, i, i, nodes(origin{addr: addr}), timeouts),
		}
		if err := t.admin.create(ctx, []document{d}); err != nil {
			return err
		}
	}
	stats, err := t.askHoles(ctx)
	if err != nil {
		return err
	}
	t.note("%d requests to black holes: %d answered 5xx, %d with another status, %d without an answer within 20 s",
		stats.Sent, stats.Status[5], stats.Status[1]+stats.Status[2]+stats.Status[3]+stats.Status[4], stats.Timeouts+stats.Errors)
	if stats.Status[5] != uint64(stats.Sent) {
		return errors.New("black holes must be answered with 504 in time")
	}
	return nil
}

// askHoles sends a load to the black holes.
func (t *trial) askHoles(ctx context.Context) (load.Stats, error) {
	gen := load.New(load.Config{
		Dial: tcpDialer(t.gateway.dataAddr()),
		Request: func(n int) []byte {
			return []byte(fmt.Sprintf("GET /bench/holes/%d HTTP/1.1\r\nHost: bench.test\r\n\r\n", n%2))
		},
		Rate: 50, Conns: 400, Timeout: 20 * time.Second,
		Start: time.Now().Add(100 * time.Millisecond), Phases: []time.Duration{t.opts.hold},
	})
	gen.Run(ctx)
	return gen.Snapshot(0), ctx.Err()
}

package h2

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/model"
)

// The children that load a proxy and answer behind it, so that the CPU time of
// this process is the proxies' alone.

func benchChild(role string) int {
	if role == "upstream" {
		return benchUpstream()
	}
	return benchLoad()
}

// benchUpstream prints its address and answers every request alike.
func benchUpstream() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println(l.Addr())
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
		"Cache-Control: no-store\r\nContent-Length: 512\r\n\r\n" + strings.Repeat("x", 512))
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer c.Close()
			b := make([]byte, 16<<10)
			var head []byte
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				if head = append(head, b[:n]...); !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
					continue
				}
				head = head[:0]
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}

// benchLoad reads lines "address requests" and says when they are answered. It
// has 4 connections with 8 requests at once on each.
func benchLoad() int {
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	clients := map[string][]*http.Client{}
	for lines.Scan() {
		var addr string
		var n int64
		if _, err := fmt.Sscan(lines.Text(), &addr, &n); err != nil {
			return 1
		}
		if clients[addr] == nil {
			for range 4 {
				p := new(http.Protocols)
				p.SetUnencryptedHTTP2(true)
				clients[addr] = append(clients[addr], &http.Client{Transport: &http.Transport{Protocols: p}})
			}
		}
		if err := benchRequests(clients[addr], addr, n); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("done")
	}
	return 0
}

func benchRequests(clients []*http.Client, addr string, n int64) error {
	var left atomic.Int64
	left.Store(n)
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for _, c := range clients {
		for range 8 {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					req, _ := http.NewRequest("GET", "http://"+addr+"/a/b?x=1", nil)
					req.Header.Set("Accept", "application/json")
					req.Header.Set("User-Agent", "bench/1.0")
					req.Header.Set("X-Request-Id", "2f1c8e")
					r, err := c.Do(req)
					if err == nil {
						var body int64
						body, err = io.Copy(io.Discard, r.Body)
						r.Body.Close()
						if r.StatusCode != 200 || body != 512 {
							err = fmt.Errorf("%d with %d bytes", r.StatusCode, body)
						}
					}
					if err != nil {
						failed.Store(&err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// A child of this benchmark.
type child struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func newChild(b *testing.B, role string) (c *child, said string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "H2_BENCH="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	c = &child{in, bufio.NewScanner(out)}
	return c, c.line(b)
}

func (c *child) line(b *testing.B) string {
	if !c.out.Scan() {
		b.Fatal("a child ended")
	}
	return c.out.Text()
}

// cpu is the time that this process has used.
func cpu(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkReverseProxy compares the CPU time of a proxied request, HTTP/2 without
// TLS to HTTP/1.1, with that of net/http/httputil's ReverseProxy, which has the
// same requests in turns:
//
//	go test -run '^$' -bench ReverseProxy -benchtime 9x ./internal/engine/h2
func BenchmarkReverseProxy(b *testing.B) {
	_, up := newChild(b, "upstream")
	load, _ := newChild(b, "load")
	g := start(b)
	g.put(model.KindRoute, "a", fmt.Sprintf(`{"uri":"/a/*","upstream":{"nodes":{%q:1}}}`, up))
	addrs := [2]string{g.plain.Addr().String(), reverseProxy(b, up)}
	const requests = 10_000
	run := func(addr string) float64 {
		from := cpu(b)
		fmt.Fprintln(load.in, addr, requests)
		if said := load.line(b); said != "done" {
			b.Fatal(said)
		}
		return float64(cpu(b)-from) / requests / 1e3
	}
	run(addrs[0])
	run(addrs[1])
	var ours, theirs, ratios []float64
	for i := 0; b.Loop(); i++ {
		var took [2]float64
		for j := range took {
			k := (i + j) % 2
			took[k] = run(addrs[k])
		}
		ours, theirs, ratios = append(ours, took[0]), append(theirs, took[1]), append(ratios, took[0]/took[1])
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours), "weir-µs/req")
	b.ReportMetric(median(theirs), "reverseproxy-µs/req")
	b.ReportMetric(median(ratios), "ratio")
}

func reverseProxy(b *testing.B, up string) string {
	to := &url.URL{Scheme: "http", Host: up}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: p, Handler: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		},
	}}
	l := listen(b)
	var wg sync.WaitGroup
	wg.Go(func() { s.Serve(l) })
	b.Cleanup(func() {
		s.Shutdown(context.Background())
		s.Close()
		transport.CloseIdleConnections()
		wg.Wait()
	})
	return l.Addr().String()
}

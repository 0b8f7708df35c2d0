package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

// slowOptions are the flags of `weir bench slow`.
type slowOptions struct {
	mib     int64
	seconds float64
	upload  bool
}

const slowLong = `Slow sends one large body through the gateway to a client that reads slower than
the origin writes, or with --upload from a client to an origin that reads slower
than the client writes, and shows the resident memory of the gateway before,
meanwhile and afterwards.`

func slowCommand() *cobra.Command {
	o := &slowOptions{}
	cmd := figureCommand("slow", "Memory while a large body goes through slowly", slowLong,
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	cmd.Flags().Int64Var(&o.mib, "mib", 1024, "size of the body in MiB")
	cmd.Flags().Float64Var(&o.seconds, "seconds", 20, "time that it takes")
	cmd.Flags().BoolVar(&o.upload, "upload", false, "a request's body instead of an answer's")
	return cmd
}

// A SlowReport is the outcome of `weir bench slow`.
type SlowReport struct {
	Upload  bool    `json:"upload"`
	MiB     int64   `json:"mib"`
	Seconds float64 `json:"seconds"`
	Before  float64 `json:"rss_before_mib"` // after one small request
	During  float64 `json:"rss_during_mib"` // the highest of samples 50 ms apart
	After   float64 `json:"rss_after_mib"`  // a second after the end
}

func (r *SlowReport) table(w io.Writer) {
	what := "answer to a slow client"
	if r.Upload {
		what = "request to a slow origin"
	}
	fmt.Fprintf(w, "%d MiB in %.1f s, %s: resident %.1f MiB before, at most %.1f MiB meanwhile (%+.1f), %.1f MiB afterwards\n",
		r.MiB, r.Seconds, what, r.Before, r.During, r.During-r.Before, r.After)
}

func (o *slowOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*SlowReport, error) {
	if o.mib < 1 || o.seconds <= 0 {
		return nil, Misuse{errors.New("--mib and --seconds must be positive")}
	}
	size := o.mib << 20
	origin, err := listenAndServe(func(nc net.Conn) { o.origin(nc, size) })
	if err != nil {
		return nil, err
	}
	defer origin.close()
	gateway, stop, err := f.startGateway(ctx, defaultRules, origin.addr())
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := o.exchange(ctx, gateway, 1<<10); err != nil {
		return nil, gateway.explain(err)
	}
	r := &SlowReport{Upload: o.upload, MiB: o.mib}
	before, err := processUsage(gateway.pid)
	if err != nil {
		return nil, err
	}
	r.Before = mib(before.rss)
	p.say("resident %.1f MiB before", r.Before)
	began := time.Now()
	peak, err := watchRSS(gateway.pid, func() error { return o.exchange(ctx, gateway, size) })
	if err != nil {
		return nil, gateway.explain(err)
	}
	r.Seconds, r.During = time.Since(began).Seconds(), mib(peak)
	if !sleepUntil(ctx, time.Now().Add(time.Second)) {
		return nil, ctx.Err()
	}
	after, err := processUsage(gateway.pid)
	r.After = mib(after.rss)
	return r, err
}

// watchRSS is the highest resident memory of a process while f runs.
func watchRSS(pid int, f func() error) (peak int64, err error) {
	var highest atomic.Int64
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			if u, err := processUsage(pid); err == nil {
				highest.Store(max(highest.Load(), u.rss))
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	err = f()
	close(done)
	<-watched
	return highest.Load(), err
}

// rate is how fast the slow side reads, in bytes a second.
func (o *slowOptions) rate() float64 { return float64(o.mib<<20) / o.seconds }

// origin serves one connection: it answers GET with as many bytes as the query
// says, and POST after its body.
func (o *slowOptions) origin(nc net.Conn, size int64) {
	br := bufio.NewReader(nc)
	for {
		head, err := readHeadText(br)
		if err != nil {
			return
		}
		var n int64
		if _, err := fmt.Sscanf(head, "GET "+abPath+"?%d ", &n); err == nil {
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n)
			if _, err := io.CopyN(nc, zeros{}, n); err != nil {
				return
			}
			continue
		}
		if _, err := fmt.Sscanf(head, "POST "+abPath+"?%d ", &n); err != nil {
			fmt.Fprint(nc, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		if err := slowly(br, n, o.rate()); err != nil {
			return
		}
		fmt.Fprint(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

// readHeadText is a head with its last line, for bytes that the bench itself has sent.
func readHeadText(br *bufio.Reader) (string, error) {
	var head []byte
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		head = append(head, line...)
		if len(line) <= 2 {
			return string(head), nil
		}
	}
}

// zeros is a reader of zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// slowly reads n bytes and drops them, no faster than rate.
func slowly(r io.Reader, n int64, rate float64) error {
	const piece = 256 << 10
	began, all := time.Now(), n
	for n > 0 {
		m, err := io.CopyN(io.Discard, r, min(n, piece))
		if err != nil {
			return err
		}
		n -= m
		time.Sleep(time.Until(began.Add(time.Duration(float64(all-n) / rate * 1e9))))
	}
	return nil
}

// exchange sends n bytes one way.
func (o *slowOptions) exchange(ctx context.Context, t *target, n int64) error {
	nc, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	br := bufio.NewReader(nc)
	if o.upload {
		fmt.Fprintf(nc, "POST %s?%d HTTP/1.1\r\nHost: bench.test\r\nContent-Length: %d\r\n\r\n", abPath, n, n)
		if _, err := io.CopyN(nc, zeros{}, n); err != nil {
			return err
		}
		return expectOK(br)
	}
	fmt.Fprintf(nc, "GET %s?%d HTTP/1.1\r\nHost: bench.test\r\n\r\n", abPath, n)
	if err := expectOK(br); err != nil {
		return err
	}
	return slowly(br, n, o.rate())
}

// expectOK reads the head of an answer that has to be a 200.
func expectOK(br *bufio.Reader) error {
	head, err := readHeadText(br)
	if err == nil && len(head) >= 12 && head[9:12] != "200" {
		err = fmt.Errorf("answered with %.40q", head)
	}
	return err
}

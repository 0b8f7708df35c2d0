package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

// keepaliveOptions are the flags of `weir bench keepalive`.
type keepaliveOptions struct {
	calls, origins int
	idle, around   time.Duration
	seed           uint64
}

const keepaliveLong = `Keepalive calls origins at the moment at which they end idle connections: each
origin closes a connection that was idle for --idle, and is called again that long
after its last answer, give or take --around. First all calls are GET, then POST.

No GET may fail: the gateway sends it again on a new connection. A POST may fail
only if bytes of it went out on a connection that the origin had just closed, and
must not arrive twice. The origins end a connection by sending nothing more, and
listen for another while, so that they see what came too late.`

func keepaliveCommand() *cobra.Command {
	o := &keepaliveOptions{}
	cmd := figureCommand("keepalive", "Calls at the moment when kept connections end", keepaliveLong,
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	cmd.Flags().IntVar(&o.calls, "calls", 10000, "calls by each method")
	cmd.Flags().IntVar(&o.origins, "origins", 200, "origins, which are called at once")
	cmd.Flags().DurationVar(&o.idle, "idle", time.Second, "after which an origin closes a connection")
	cmd.Flags().DurationVar(&o.around, "around", 5*time.Millisecond, "how much earlier or later the next call comes")
	cmd.Flags().Uint64Var(&o.seed, "seed", 1, "seed of the times")
	return cmd
}

// A KeepaliveReport is the outcome of `weir bench keepalive`.
type KeepaliveReport struct {
	IdleMS   float64           `json:"idle_ms"`
	AroundMS float64           `json:"around_ms"`
	Methods  []KeepaliveMethod `json:"methods"`
}

// A KeepaliveMethod is what became of the calls by one method.
type KeepaliveMethod struct {
	Method string `json:"method"`
	Calls  int64  `json:"calls"`
	Failed int64  `json:"failed"` // answered with anything but 200, or not at all
	First  string `json:"first_failure,omitempty"`

	Reused int64 `json:"reused"` // that an origin got on a connection that it had kept
	Late   int64 `json:"late"`   // that came on a connection after its origin had closed it
	Twice  int64 `json:"twice"`  // that origins got more than once
}

func (r *KeepaliveReport) table(w io.Writer) {
	fmt.Fprintf(w, "origins close connections that are idle for %g ms and are called %g ms before to %g ms after that\n", r.IdleMS, r.AroundMS, r.AroundMS)
	for _, m := range r.Methods {
		fmt.Fprintf(w, "%-4s  %d calls, %d failed, %d on a kept connection, %d on one just closed, %d arrived twice\n",
			m.Method, m.Calls, m.Failed, m.Reused, m.Late, m.Twice)
		if m.First != "" {
			fmt.Fprintf(w, "      first failure: %s\n", m.First)
		}
	}
}

func (o *keepaliveOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*KeepaliveReport, error) {
	if o.calls < 1 || o.origins < 1 || o.idle <= 0 || o.around < 0 || o.around > o.idle {
		return nil, Misuse{errors.New("--calls, --origins and --idle must be positive, --around no more than --idle")}
	}
	var origins []*closing
	rules := &strings.Builder{}
	rules.WriteString("routes:\n")
	for i := range o.origins {
		c := &closing{idle: o.idle}
		s, err := listenAndServe(c.serve)
		if err != nil {
			return nil, err
		}
		defer s.close()
		origins = append(origins, c)
		fmt.Fprintf(rules, "- {id: bench%d, uri: /bench/%d, upstream: {type: roundrobin, nodes: {%q: 1}}}\n", i, i, s.addr())
	}
	gateway, stop, err := f.startGateway(ctx, rules.String(), "")
	if err != nil {
		return nil, err
	}
	defer stop()
	r := &KeepaliveReport{IdleMS: ms(o.idle), AroundMS: ms(o.around)}
	for _, method := range []string{"GET", "POST"} {
		m, err := o.round(ctx, gateway, origins, method)
		if err != nil {
			return nil, gateway.explain(err)
		}
		p.say("%s: %d of %d failed", method, m.Failed, m.Calls)
		r.Methods = append(r.Methods, m)
	}
	return r, nil
}

// round makes all calls by one method.
func (o *keepaliveOptions) round(ctx context.Context, t *target, origins []*closing, method string) (KeepaliveMethod, error) {
	m := KeepaliveMethod{Method: method}
	var calls, failed atomic.Int64
	var first sync.Once
	var wg sync.WaitGroup
	for i, origin := range origins {
		origin.begin()
		c := &caller{target: t, line: fmt.Sprintf("%s /bench/%d HTTP/1.1\r\nHost: bench.test\r\n", method, i), body: method == "POST"}
		rng := rand.New(rand.NewPCG(o.seed, uint64(i)))
		n := (o.calls + i) / len(origins) // adds up to calls
		wg.Go(func() {
			defer c.close()
			for range n {
				calls.Add(1)
				if err := c.call(ctx); err != nil {
					failed.Add(1)
					first.Do(func() { m.First = err.Error() })
				}
				around := time.Duration((2*rng.Float64() - 1) * float64(o.around))
				if !sleepUntil(ctx, time.Now().Add(o.idle+around)) {
					return
				}
			}
		})
	}
	wg.Wait()
	m.Calls, m.Failed = calls.Load(), failed.Load()
	for _, origin := range origins {
		m.Reused += origin.reused.Load()
		m.Late += origin.late.Load()
		m.Twice += origin.twice.Load()
	}
	return m, ctx.Err()
}

// A caller makes one call at a time, over a connection of its own.
type caller struct {
	target *target
	line   string
	body   bool
	n      int
	nc     net.Conn
	br     *bufio.Reader
}

func (c *caller) close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

func (c *caller) call(ctx context.Context) (err error) {
	if c.nc == nil {
		if c.nc, err = c.target.dial(ctx); err != nil {
			c.nc = nil
			return err
		}
		c.br = bufio.NewReader(c.nc)
	}
	c.n++
	request := fmt.Sprintf("%sX-Call: %d\r\n", c.line, c.n)
	if c.body {
		request += "Content-Length: 4\r\n\r\nbody"
	} else {
		request += "\r\n"
	}
	_ = c.nc.SetDeadline(time.Now().Add(requestTimeout))
	if _, err = io.WriteString(c.nc, request); err == nil {
		var head string
		if head, err = readHeadText(c.br); err == nil && (len(head) < 12 || head[9:12] != "200") {
			err = fmt.Errorf("answered with %.40q", head)
		}
	}
	if err != nil {
		c.close() // with whatever follows a failure
	}
	return err
}

// A closing origin closes connections that are idle for too long.
type closing struct {
	idle                time.Duration
	reused, late, twice atomic.Int64

	mu   sync.Mutex
	seen map[string]struct{} // calls of this round
}

func (o *closing) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = map[string]struct{}{}
	o.reused.Store(0)
	o.late.Store(0)
	o.twice.Store(0)
}

// note counts a request by what stands in its head.
func (o *closing) note(head string) {
	_, call, ok := strings.Cut(head, "X-Call: ")
	if !ok {
		return
	}
	call, _, _ = strings.Cut(call, "\r")
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.seen[call]; again {
		o.twice.Add(1)
	}
	o.seen[call] = struct{}{}
}

func (o *closing) serve(nc net.Conn) {
	br := bufio.NewReader(nc)
	for n := 0; ; n++ {
		if _, err := br.Peek(1); err != nil {
			o.end(nc, br)
			return
		}
		_ = nc.SetReadDeadline(time.Now().Add(requestTimeout))
		head, err := readHeadText(br)
		if err != nil {
			return
		}
		if strings.Contains(head, "Content-Length: 4\r\n") {
			if _, err := br.Discard(4); err != nil {
				return
			}
		}
		o.note(head)
		if n > 0 {
			o.reused.Add(1)
		}
		if _, err := io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
		_ = nc.SetReadDeadline(time.Now().Add(o.idle))
	}
}

// lingering is how long an origin listens to what comes too late.
const lingering = 500 * time.Millisecond

// end closes the sending side and counts what comes afterwards.
func (o *closing) end(nc net.Conn, br *bufio.Reader) {
	if w, ok := nc.(interface{ CloseWrite() error }); !ok || w.CloseWrite() != nil {
		return
	}
	_ = nc.SetReadDeadline(time.Now().Add(lingering))
	if _, err := br.Peek(1); err == nil {
		o.late.Add(1)
	}
}

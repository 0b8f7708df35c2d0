package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"weir/internal/bench/load"
)

// requestTimeout is how long a single request of the comparison, or one under
// way at the end of a phase, may take.
const requestTimeout = 10 * time.Second

// A target is a running side.
type target struct {
	name    string
	pid     int
	dial    dialer
	cpu     func() (time.Duration, error) // used since its start
	explain func(error) error             // adds what the gateway said last; nil: nothing is known
	stop    func()
	control string // URL of the Control API of a side that is profiled; empty: it is not
}

// A contest is one run of `weir bench ab`.
type contest struct {
	opts     *abOptions
	names    []string
	progress *progress
	// start starts side i; it answers requests when start returns.
	start func(ctx context.Context, i int) (*target, error)
}

// A sample is one measurement of one side.
type sample struct {
	load.Counts
	seconds float64
	cpu     float64 // seconds
}

func (s sample) cpuMicros() float64 { return s.cpu / float64(s.All()) * 1e6 }
func (s sample) rate() float64      { return float64(s.All()) / s.seconds }

// measureAB starts the gateways and compares them.
func measureAB(ctx context.Context, o *abOptions, progress *progress) (*ABReport, error) {
	ln, err := net.Listen("tcp", o.originAddr)
	if err != nil {
		return nil, fmt.Errorf("--origin %s: %w", o.originAddr, err)
	}
	server := load.ServeOrigin(ln)
	defer server.Close()
	sides, err := o.sides(server.Addr().String())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	place := func(f func() error) error { return f() }
	pinned := false
	if o.pin {
		core, restore, ok := leaveCore()
		defer restore()
		if pinned = ok; ok {
			place = func(f func() error) error { return onCore(core, f) }
		}
	}
	c := &contest{opts: o, progress: progress}
	for _, s := range sides {
		c.names = append(c.names, s.name)
	}
	c.start = func(ctx context.Context, i int) (*target, error) {
		return startSide(ctx, &sides[i], filepath.Join(dir, strconv.Itoa(i)), place, o.ready)
	}
	samples, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	report := newABReport(o, sides, samples)
	report.Settings.Pinned = pinned
	return report, nil
}

// startSide runs a gateway on a free port and waits until it answers.
func startSide(ctx context.Context, s *side, dir string, place func(func() error) error, ready time.Duration) (*target, error) {
	free, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.write(dir, free); err != nil {
		return nil, err
	}
	var p *process
	err = place(func() (err error) {
		p, err = start(filepath.Join(dir, "weir.log"), s.binary, "run", "-c", filepath.Join(dir, "config.yaml"))
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &target{
		name: s.name, pid: p.cmd.Process.Pid, dial: tcpDialer(fmt.Sprintf("127.0.0.1:%d", free[0])), explain: p.explain, stop: p.stop,
		cpu: func() (time.Duration, error) { return cpuTime(p.cmd.Process.Pid) },
	}
	if s.profiled {
		t.control = fmt.Sprintf("http://127.0.0.1:%d", free[1])
	}
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	defer context.AfterFunc(p.ended, cancel)()
	if err := answers(ctx, t.dial); err != nil {
		p.stop()
		return nil, p.explain(fmt.Errorf("side %s is not ready: %w", s.name, err))
	}
	return t, nil
}

// run measures every side in every round. The samples are by side, then round.
func (c *contest) run(ctx context.Context) ([][]sample, error) {
	rng := rand.New(rand.NewPCG(c.opts.seed, 0))
	samples := make([][]sample, len(c.names))
	for begun := range c.opts.starts {
		first, end := c.opts.pairs*begun/c.opts.starts, c.opts.pairs*(begun+1)/c.opts.starts
		if err := c.rounds(ctx, rng, first, end, samples); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// rounds starts all sides, measures the rounds from first to end and stops them.
func (c *contest) rounds(ctx context.Context, rng *rand.Rand, first, end int, samples [][]sample) error {
	targets := make([]*target, len(c.names))
	defer func() {
		for _, t := range targets {
			if t != nil {
				t.stop()
			}
		}
	}()
	for _, i := range rng.Perm(len(targets)) {
		t, err := c.start(ctx, i)
		if err != nil {
			return err
		}
		targets[i] = t
	}
	if err := c.compare(ctx, targets); err != nil {
		return err
	}
	for _, t := range targets { // connections to the origin, the heap's size
		if _, err := c.measure(ctx, t, c.opts.phase/2); err != nil {
			return err
		}
	}
	for round := first; round < end; round++ {
		for _, i := range rng.Perm(len(targets)) {
			s, err := c.measure(ctx, targets[i], c.opts.phase)
			if err != nil {
				return err
			}
			samples[i] = append(samples[i], s)
			c.progress.say("round %d  %-8s  %6.2f us/request  %7.0f requests/s", round+1, c.names[i], s.cpuMicros(), s.rate())
		}
	}
	return nil
}

// measure loads one side for a while and sees what that costs it.
func (c *contest) measure(ctx context.Context, t *target, length time.Duration) (s sample, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("side %s: %w", t.name, err)
		}
	}()
	l, err := load.StartClosed(ctx, load.ClosedConfig{
		Dial: t.dial, Requests: c.opts.requests(), Conns: c.opts.conns, Status: c.opts.status, Timeout: requestTimeout,
	})
	if err != nil {
		return s, err
	}
	defer l.Stop()
	if t.control != "" {
		wait := takeProfile(ctx, t.control, c.opts.settle+length)
		defer func() { err = errors.Join(err, wait()) }()
	}
	if !sleepUntil(ctx, time.Now().Add(c.opts.settle)) {
		return s, ctx.Err()
	}
	began, before := time.Now(), l.Counts()
	cpuBefore, err := t.cpu()
	if err != nil {
		return s, err
	}
	// A gateway that answers little is given more time, not a rate of 0.
	for end := began.Add(length); s.All() == 0 || s.cpu <= 0; end = end.Add(length) {
		if s.seconds > requestTimeout.Seconds() {
			return s, fmt.Errorf("%d answers and %d errors in %.1f s", s.All(), s.Errors, s.seconds)
		}
		if !sleepUntil(ctx, end) {
			return s, ctx.Err()
		}
		s.Counts, s.seconds = l.Counts().Since(before), time.Since(began).Seconds()
		cpuAfter, err := t.cpu()
		if err != nil {
			return s, err
		}
		s.cpu = (cpuAfter - cpuBefore).Seconds()
	}
	return s, nil
}

// compare checks that all sides give the same answers: who answers something
// else does something else.
func (c *contest) compare(ctx context.Context, targets []*target) error {
	if c.opts.differ {
		return nil
	}
	for n, request := range c.opts.requests() {
		var body []byte
		for i, t := range targets {
			status, got, err := fetch(ctx, t.dial, request)
			switch {
			case err != nil:
			case status != c.opts.status:
				err = fmt.Errorf("status %d, want %d (--status): %.200q", status, c.opts.status, got)
			case i > 0 && !bytes.Equal(got, body):
				err = fmt.Errorf("another body than side %s (--differ allows it): %.200q instead of %.200q", targets[0].name, got, body)
			}
			if err != nil {
				err = fmt.Errorf("side %s, %s: %w", t.name, c.opts.paths[n], err)
				if t.explain != nil {
					err = t.explain(err)
				}
				return err
			}
			if i == 0 {
				body = got
			}
		}
	}
	return nil
}

// fetch sends one request on a connection of its own.
func fetch(ctx context.Context, dial dialer, request []byte) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nc, err := dial(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	if _, err := nc.Write(request); err != nil {
		return 0, nil, err
	}
	r, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	body, err = io.ReadAll(r.Body)
	return r.StatusCode, body, err
}

// takeProfile has a gateway profile itself for that long and a little longer. wait
// says whether it did.
func takeProfile(ctx context.Context, control string, length time.Duration) (wait func() error) {
	const margin = 200 * time.Millisecond
	done := make(chan error, 1)
	go func() { done <- profileOnce(ctx, control, (length + margin).Seconds()) }()
	return func() error { return <-done }
}

func profileOnce(ctx context.Context, control string, seconds float64) error {
	url := fmt.Sprintf("%s/v1/profile?type=cpu&seconds=%g", control, seconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return err
}

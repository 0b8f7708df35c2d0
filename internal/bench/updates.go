package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// updatesOptions are the flags of `weir bench updates`.
type updatesOptions struct {
	routes, upstreams, updates, rounds, shrink int

	rps      float64
	conns    int
	phase    time.Duration
	etcdPath string
	seed     uint64
}

const updatesLong = `Updates changes objects of a large configuration as fast as etcd takes them, and
measures what that costs the gateway and whether its traffic notices. Half of the
updates are of routes, half of upstreams, drawn from all.

First without traffic: CPU time of the process, and the time that applying took by
the gateway's own count, for half as many updates and for all, alternately, with
the whole configuration and with a fraction of it. What one update costs should
depend neither on how many there are nor on the size of the configuration.

Then under an open-loop load, in phases that alternate: idle, and with all updates
at the start of the phase. Of the requests of the idle phases one in a thousand is
above their p99.9, by its definition; the share of those in the other phases should
be no greater. In idle phases etcd gets as many values of the same size that are no
objects of the gateway: what etcd and the bench take from the machine is in both.

A fresh etcd is started beside the gateway: the CPU time is the gateway's alone.`

func updatesCommand() *cobra.Command {
	o := &updatesOptions{}
	cmd := figureCommand("updates", "Cost of many updates of a large configuration, back to back", updatesLong,
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	f := cmd.Flags()
	f.IntVar(&o.routes, "routes", 40000, "routes, half of them with an upstream of their own, as far as there are upstreams")
	f.IntVar(&o.upstreams, "upstreams", 20000, "upstreams")
	f.IntVar(&o.updates, "updates", 400, "updates back to back")
	f.IntVar(&o.rounds, "rounds", 5, "rounds")
	f.IntVar(&o.shrink, "shrink", 10, "the smaller configuration has one in so many; 1: there is none")
	f.Float64Var(&o.rps, "rps", 600, "requests per second")
	f.IntVar(&o.conns, "connections", 64, "keep-alive connections of the load")
	f.DurationVar(&o.phase, "phase", 5*time.Second, "length of a phase under load; 0: no load")
	f.StringVar(&o.etcdPath, "etcd-binary", "/usr/bin/etcd", "etcd to start")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order")
	return cmd
}

// An UpdatesReport is the outcome of `weir bench updates`.
type UpdatesReport struct {
	Costs []UpdateCost `json:"costs"`
	Load  *UpdateLoad  `json:"load,omitempty"`
}

// An UpdateCost is what a number of updates costs, as medians of the rounds.
type UpdateCost struct {
	Routes    int     `json:"routes"`
	Upstreams int     `json:"upstreams"`
	Updates   int     `json:"updates"`
	CPUMS     float64 `json:"cpu_ms"`   // of the process, everything that it does about them
	ApplyMS   float64 `json:"apply_ms"` // by the gateway's own count
	MS        float64 `json:"ms"`       // from the first write to the last update in force
	Compiled  float64 `json:"compiled"` // objects
}

// UpdateLoad is what traffic notices.
type UpdateLoad struct {
	RPS     float64 `json:"rps"`
	Idle    Latency `json:"idle"`
	Updates Latency `json:"updates"`
	Sent    uint64  `json:"sent"`      // requests of the phases with updates
	Over    uint64  `json:"over_p999"` // of them above the idle p99.9
	Failed  uint64  `json:"failed"`    // of all phases: not answered with 2xx
}

func (r *UpdatesReport) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "routes\tupstreams\tupdates\tCPU ms\teach µs\tapplying ms\teach µs\tin force after ms\tcompiled\t")
	for _, c := range r.Costs {
		n := float64(c.Updates)
		fmt.Fprintf(t, "%d\t%d\t%d\t%.1f\t%.0f\t%.1f\t%.0f\t%.0f\t%.0f\t\n", c.Routes, c.Upstreams, c.Updates,
			c.CPUMS, c.CPUMS/n*1e3, c.ApplyMS, c.ApplyMS/n*1e3, c.MS, c.Compiled)
	}
	_ = t.Flush() // the caller sees a failure of w
	l := r.Load
	if l == nil {
		return
	}
	fmt.Fprintf(w, "\nunder %g requests/s, latency in ms from the intended send time\n", l.RPS)
	for i, d := range []Latency{l.Idle, l.Updates} {
		fmt.Fprintf(w, "%-8s p50 %.3f  p99 %.3f  p99.9 %.3f  max %.3f\n", []string{"idle", "updates"}[i], d.P50, d.P99, d.P999, d.Max)
	}
	fmt.Fprintf(w, "%d of %d requests of the phases with updates are above the idle p99.9 (one in a thousand is %.1f); %d failed\n",
		l.Over, l.Sent, float64(l.Sent)/1000, l.Failed)
}

func (o *updatesOptions) check() error {
	switch {
	case o.routes < 2 || o.upstreams < 2 || o.updates < 2 || o.rounds < 1 || o.shrink < 1:
		return errors.New("--routes, --upstreams and --updates must be at least 2, --rounds and --shrink 1")
	case o.upstreams > o.routes:
		return errors.New("every upstream has a route: --upstreams cannot be more than --routes")
	case o.phase < 0 || o.phase > 0 && (o.rps <= 0 || o.conns < 1):
		return errors.New("--rps and --connections must be positive, --phase cannot be negative")
	}
	if _, err := os.Stat(o.etcdPath); err != nil {
		return fmt.Errorf("needs etcd (apt-get install etcd-server): %w", err)
	}
	return nil
}

func (o *updatesOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*UpdatesReport, error) {
	if err := o.check(); err != nil {
		return nil, Misuse{err}
	}
	r := &UpdatesReport{}
	if o.shrink > 1 {
		if err := o.withSize(ctx, f, p, r, o.shrink); err != nil {
			return nil, err
		}
	}
	return r, o.withSize(ctx, f, p, r, 1)
}

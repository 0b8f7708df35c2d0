// Package bench measures a gateway from the outside, over the wire: the
// `weir bench` command and its experiments.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// A Misuse is a mistake in the flags of a command.
type Misuse struct{ error }

// Command is `weir bench`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a gateway: this one or any with the same Admin API and etcd layout",
	}
	cmd.AddCommand(churnCommand(), reloadCommand(), abCommand(), loadCommand(), productsCommand(),
		slowCommand(), websocketsCommand(), keepaliveCommand(), updatesCommand(), faultsCommand(), soakCommand(),
		scrapeCommand())
	return cmd
}

// churnOptions are the flags of `weir bench churn`.
type churnOptions struct {
	consumers, routes, services, upstreams int

	rps   float64
	keys  int
	conns int

	creates, deletes, concurrency int
	direct                        bool

	duration, baseline, cooldown, phase time.Duration
	pairs                               int
	timeout, ready                      time.Duration

	start     bool
	startRuns int

	attach       bool
	attached     attachOptions
	weir         string
	externalEtcd bool
	etcdPath     string
	originAddr   string

	format, out string
	seed        uint64
	consumerSet bool // --consumers was given
}

// attachOptions say where a running gateway is.
type attachOptions struct {
	data, admin, adminKey, prefix string
	etcd                          []string
	pid                           int
	keep                          bool
}

const churnLong = `Churn measures whether the traffic of a gateway notices that its configuration
changes. It loads consumers with key-auth credentials (or routes, services,
upstreams) in bulk through etcd, sends an open-loop load, and meanwhile creates
and deletes objects through the Admin API. Latencies count from the time at
which a request was meant to be sent, so a stall shows in every request that it
delayed. After each acknowledged create or delete it asks the data plane at once
whether the write is in force.

Without --attach it starts "weir run" with a configuration of its own on free
loopback ports and stops it afterwards. With --attach it measures a running
gateway; its objects are all named bench_... and are removed at the end.

stall is the longest time in which a request was due and no response came.
late p99 is how late the load generator itself was: its delay, not the gateway's.
A service or an upstream is churned together with a route that uses it.

With --direct the writes go to the store, as those of tools and of other gateways
do, and are looked for 5 ms later. In the idle phases as many values are written
that are no objects of a gateway, with as many requests: what etcd and the bench
take from the machine is in both, and the difference is the gateway's.`

func churnCommand() *cobra.Command {
	o := &churnOptions{}
	cmd := &cobra.Command{
		Use:   "churn",
		Short: "Measure traffic while consumers, routes, services or upstreams come and go",
		Long:  churnLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			o.consumerSet = cmd.Flags().Changed("consumers")
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runChurn(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.consumers, "consumers", 50000, "consumers loaded in bulk; none by default when another kind is given")
	f.IntVar(&o.routes, "routes", 0, "routes loaded in bulk and churned")
	f.IntVar(&o.services, "services", 0, "services, each with a route, loaded in bulk and churned")
	f.IntVar(&o.upstreams, "upstreams", 0, "upstreams, each with a route, loaded in bulk and churned")
	f.Float64Var(&o.rps, "rps", 600, "requests per second")
	f.IntVar(&o.keys, "keys", 300, "consumers (routes, ...) that the load uses")
	f.IntVar(&o.conns, "connections", 64, "keep-alive connections of the load")
	f.IntVar(&o.creates, "creates", 500, "objects created, spread over all churn phases")
	f.IntVar(&o.deletes, "deletes", 100, "objects deleted, spread over all churn phases")
	f.IntVar(&o.concurrency, "concurrency", 10, "Admin API calls at once, at most")
	f.BoolVar(&o.direct, "direct", false, "write to the store instead of through the Admin API")
	f.DurationVar(&o.duration, "duration", 5*time.Minute, "length of the churn phase")
	f.DurationVar(&o.baseline, "baseline", 30*time.Second, "length of the phase before it")
	f.DurationVar(&o.cooldown, "cooldown", 30*time.Second, "length of the phase after it")
	f.IntVar(&o.pairs, "pairs", 0, "alternate that many idle and churn phases instead")
	f.DurationVar(&o.phase, "phase", time.Minute, "length of each phase of --pairs")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "time a request has, from its intended send time")
	f.DurationVar(&o.ready, "ready", 2*time.Minute, "time the gateway has to start, and to take the bulk load")
	f.BoolVar(&o.start, "start", false, "measure start to first authenticated 200 with everything loaded, instead of churn")
	f.IntVar(&o.startRuns, "start-runs", 5, "how often to start for --start")
	f.BoolVar(&o.attach, "attach", false, "measure a running gateway")
	f.StringVar(&o.attached.data, "data", "http://127.0.0.1:9080", "its data plane")
	f.StringVar(&o.attached.admin, "admin", "http://127.0.0.1:9180", "its Admin API")
	f.StringVar(&o.attached.adminKey, "admin-key", "", "key of its Admin API")
	f.StringSliceVar(&o.attached.etcd, "etcd", []string{"http://127.0.0.1:2379"}, "its etcd")
	f.StringVar(&o.attached.prefix, "prefix", "/apisix", "prefix of its keys in etcd")
	f.IntVar(&o.attached.pid, "pid", 0, "its process, for CPU and memory; children count too")
	f.BoolVar(&o.attached.keep, "keep", false, "leave the objects of the bench in the gateway")
	f.StringVar(&o.weir, "weir", "", "binary to start (default: this one)")
	f.BoolVar(&o.externalEtcd, "external-etcd", false, "start etcd beside it instead of using its embedded store")
	f.StringVar(&o.etcdPath, "etcd-binary", "/usr/bin/etcd", "etcd to start")
	f.StringVar(&o.originAddr, "origin", "127.0.0.1:0", "address at which the bench serves as the origin")
	f.StringVar(&o.format, "format", "table", "table, json or csv")
	f.StringVar(&o.out, "out", "", "file for the result (default: standard output)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of keys and order")
	return cmd
}

// populations are the kinds of the run, checked for having enough objects.
func (o *churnOptions) populations() ([]population, error) {
	if o.routes+o.services+o.upstreams > 0 && !o.consumerSet {
		o.consumers = 0
	}
	all := []population{
		{kindOf("consumers"), o.consumers}, {kindOf("routes"), o.routes},
		{kindOf("services"), o.services}, {kindOf("upstreams"), o.upstreams},
	}
	all = slices.DeleteFunc(all, func(p population) bool { return p.count <= 0 })
	if len(all) == 0 {
		return nil, errors.New("nothing to load: give --consumers, --routes, --services or --upstreams")
	}
	deletes := (o.deletes + len(all) - 1) / len(all)
	for _, p := range all {
		if p.count < o.keys+deletes {
			return nil, fmt.Errorf("--%s %d is too few: the load uses %d and %d are deleted", p.name, p.count, o.keys, deletes)
		}
	}
	return all, nil
}

func (o *churnOptions) check() error {
	switch {
	case !slices.Contains([]string{"table", "json", "csv"}, o.format):
		return fmt.Errorf("--format %s: want table, json or csv", o.format)
	case o.rps <= 0 || o.keys < 1 || o.conns < 1 || o.concurrency < 1 || o.timeout <= 0:
		return errors.New("--rps, --keys, --connections, --concurrency and --timeout must be positive")
	case o.creates < 0 || o.deletes < 0 || o.pairs < 0 || o.startRuns < 1:
		return errors.New("--creates, --deletes and --pairs cannot be negative, --start-runs must be positive")
	case o.pairs == 0 && o.duration <= 0 || o.pairs > 0 && o.phase <= 0:
		return errors.New("--duration and --phase must be positive")
	case o.start && o.attach:
		return errors.New("--start needs a gateway that the bench starts, not --attach")
	}
	return nil
}

func runChurn(ctx context.Context, o *churnOptions, stdout, stderr io.Writer) (err error) {
	if err := o.check(); err != nil {
		return Misuse{err}
	}
	pops, err := o.populations()
	if err != nil {
		return Misuse{err}
	}
	if o.out != "" {
		file, err := os.Create(o.out)
		if err != nil {
			return err
		}
		defer file.Close()
		stdout = file
	}
	progress := newProgress(stderr)
	var report *Report
	if o.attach {
		report, err = churnAttached(ctx, o, pops, progress)
	} else {
		report, err = churnManaged(ctx, o, pops, progress)
	}
	if err != nil {
		return err
	}
	return report.write(stdout, o.format)
}

// hostPort is the address that a URL, or already an address, names.
func hostPort(s string) (string, error) {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil {
			return "", err
		}
		s = u.Host
	}
	if _, _, err := net.SplitHostPort(s); err != nil {
		return "", fmt.Errorf("want http://host:port or host:port: %w", err)
	}
	return s, nil
}

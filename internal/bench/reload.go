package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// reloadOptions are the flags of `weir bench reload`.
type reloadOptions struct {
	products int
	batcher  bool

	rps     float64
	conns   int
	clients []int
	pause   time.Duration

	refresh                       time.Duration
	changed                       []string
	pairs                         int
	phase, settle, timeout, ready time.Duration

	attach, control                     string
	pid                                 int
	portalAddr, backendAddr, originAddr string
	weir, format, out                   string
	seed                                uint64
}

const reloadLong = `Reload measures whether the traffic of a 3scale gateway notices that it reads its
configuration anew. It plays a 3scale account of --products products, each with a
host name, a caller and a chain of seven policies (headers three times, logging,
headers twice, apicast): the portal that lists them, the backend that authorizes
calls, and the origin that they lead to. It starts "weir run" with APIcast's
environment variables, reading the portal every --refresh, and loads it, every
product in turn.

A phase is a gateway of its own: it starts, every product is asked once, it is
loaded for --phase, and every product is asked again and has to show what the
portal has shown last. In a round there is an idle phase, whose gateway never
refreshes, and one for each of --changed: so many products (or N% of them) change
before every refresh. The order is drawn anew each round. Compared are the p99 of
each phase with that of its round's idle phase, and the longest stalls.

The load is open-loop, --rps; latencies count from the time at which a request was
meant to be sent, so a stall shows in every request that it delayed. --clients
100,200 has clients instead that come one by one and rest for --pause after each
answer, as the published measurements of APIcast had.

stall is the longest time in which a request was due and no answer came. late p99
is how late the load generator itself was: its delay, not the gateway's. refresh
CPU is what the gateway used from the beginning of a refresh to a second after its
end, more than in an equal time without one.

With --attach it measures a gateway that runs already, of whatever make, and that
reads the portal at --portal-listen. Such a gateway is not started anew: in idle
phases the portal answers its refreshes with 503, whereupon it has to keep what it
has.`

func reloadCommand() *cobra.Command {
	o := &reloadOptions{}
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Measure traffic while a 3scale gateway reads its products anew",
		Long:  reloadLong,
		Example: `  weir bench reload
  weir bench reload --changed 0,6,60 --pairs 5 --format json --out reload.json
  weir bench reload --products 10000 --changed 1
  weir bench reload --clients 100,200
  weir bench reload --attach http://127.0.0.1:8080 --portal-listen 127.0.0.1:3000 --pid $(pgrep -o nginx)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runReload(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.products, "products", 600, "products of the account")
	f.BoolVar(&o.batcher, "batcher", false, "3scale_batcher in their chains, before apicast")
	f.Float64Var(&o.rps, "rps", 100, "requests per second")
	f.IntVar(&o.conns, "connections", 64, "keep-alive connections of that load")
	f.IntSliceVar(&o.clients, "clients", nil, "`numbers` of clients that the load rises to, instead of --rps")
	f.DurationVar(&o.pause, "pause", time.Second, "rest of a client of --clients")
	f.DurationVar(&o.refresh, "refresh", 15*time.Second, "how often the gateway reads the portal, in whole seconds")
	f.StringSliceVar(&o.changed, "changed", []string{"0", "1%", "10%"}, "`products` that change before each refresh, one phase each")
	f.IntVar(&o.pairs, "pairs", 5, "rounds; each pairs the phases of --changed with an idle one")
	f.DurationVar(&o.phase, "phase", time.Minute, "length of a phase")
	f.DurationVar(&o.settle, "settle", 2*time.Second, "rest before the load of a phase")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "time a request has, from its intended send time")
	f.DurationVar(&o.ready, "ready", 2*time.Minute, "time the gateway has to start")
	f.StringVar(&o.attach, "attach", "", "`URL` of a running gateway's data plane, instead of starting one")
	f.StringVar(&o.control, "control", "", "`URL` of its Control API, for the number of compiled products")
	f.IntVar(&o.pid, "pid", 0, "its process, for CPU and memory; children count too")
	f.StringVar(&o.portalAddr, "portal-listen", "127.0.0.1:0", "address of the portal")
	f.StringVar(&o.backendAddr, "backend-listen", "127.0.0.1:0", "address of the backend")
	f.StringVar(&o.originAddr, "origin", "127.0.0.1:0", "address of the origin")
	f.StringVar(&o.weir, "weir", "", "binary to start (default: this one)")
	f.StringVar(&o.format, "format", "table", "table or json")
	f.StringVar(&o.out, "out", "", "`file` for the result (default: standard output)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order")
	return cmd
}

func (o *reloadOptions) check() error {
	switch {
	case o.format != "table" && o.format != "json":
		return fmt.Errorf("--format %s: want table or json", o.format)
	case o.products < 1 || o.rps <= 0 || o.conns < 1 || o.timeout <= 0 || o.ready <= 0:
		return errors.New("--products, --rps, --connections, --timeout and --ready must be positive")
	case o.pairs < 1 || o.phase <= 0 || o.settle < 0 || o.pause < 0:
		return errors.New("--pairs and --phase must be positive, --settle and --pause cannot be negative")
	case o.refresh < time.Second || o.refresh%time.Second != 0:
		return fmt.Errorf("--refresh %v: want whole seconds", o.refresh)
	case o.phase < o.refresh:
		return fmt.Errorf("--phase %v is too short to see a refresh every %v", o.phase, o.refresh)
	}
	for _, n := range o.clients {
		if n < 1 {
			return fmt.Errorf("--clients %d: want positive numbers", n)
		}
	}
	_, err := o.changes()
	return err
}

// changes are the numbers of products that --changed names.
func (o *reloadOptions) changes() ([]int, error) {
	var all []int
	for _, text := range o.changed {
		number, share := strings.CutSuffix(text, "%")
		n, err := strconv.ParseFloat(number, 64)
		if share {
			n *= float64(o.products) / 100
		}
		// At least one of what is not to be none.
		count := int(n + 0.5)
		if n > 0 {
			count = max(count, 1)
		}
		if err != nil || n < 0 || count > o.products {
			return nil, fmt.Errorf("--changed %s: want a number of products, at most %d, or a share with %%", text, o.products)
		}
		all = append(all, count)
	}
	if len(all) == 0 {
		return nil, errors.New("--changed: want at least one number")
	}
	return all, nil
}

func runReload(ctx context.Context, o *reloadOptions, stdout, stderr io.Writer) error {
	if err := o.check(); err != nil {
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
	report, err := measureReload(ctx, o, newProgress(stderr))
	if err != nil {
		return err
	}
	return report.write(stdout, o.format)
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// abOptions are the flags of `weir bench ab`.
type abOptions struct {
	files, bins [2]string // of A and B
	base        string

	plugin, conf string
	global       bool
	states       []string

	profiled bool // compare a gateway with itself while it is profiled

	paths, headers []string
	status         int
	differ         bool

	pairs, starts, conns int
	phase, settle, ready time.Duration
	pin                  bool
	originAddr           string

	format, out string
	seed        uint64
}

const abLong = `Ab compares two configurations, the states of a plugin, or two binaries. It
starts a gateway for each on loopback, before an origin of its own, checks that
all answer alike, and then loads them in turns, closed-loop: every round is a
short phase for each, in an order that is drawn anew. It reports the CPU time per
request (user and system, of the process) and the throughput, relative to the
first, as the median of the rounds with an interval of at least 95 % confidence.
The interval is the one of the sign test: two of the rounds' own values, with no
assumption about how measurements scatter. Where it holds 0 the difference is
"not established": such a run has shown none, whatever the median is.

  --a FILE --b FILE          two configurations
  --plugin NAME              states of a plugin, on every route or with --global
                             in a global rule: off, return, complete
  --profiled                 one configuration (--base FILE), alone and while a
                             profile of CPU is taken as weir profile does
  --a-bin PATH --b-bin PATH  two binaries, with one configuration (--base FILE)
                             or one each

A FILE is an apisix.yaml, or a config.yaml that has an apisix.yaml beside it. Its
listeners and where it comes from are replaced, the access log is off unless the
file says otherwise. ` + originMark + ` stands for the origin's host:port. Without a
file there is one route, ` + abPath + `, without plugins.

"return" is the plugin with a _meta.filter that never matches: its functions are
called and return at once. What it costs is that filter, one comparison and one
note per request: the most that calling functions which do nothing can cost.

Two processes of one program can differ by a per cent for as long as they live
(where their memory lies). They are started anew --starts times, evenly over the
rounds; with as many starts as pairs, no two rounds share a process. Compare a
file with itself (--a X --b X) to see what a machine can tell apart.

On Linux with two cores the gateways have the first core for themselves, load and
origin the others (--pin=false: no). If "core use" is well below 1, the
throughput is that of the load, not that of the gateway.`

func abCommand() *cobra.Command {
	o := &abOptions{}
	cmd := &cobra.Command{
		Use:   "ab",
		Short: "Compare CPU time and throughput of configurations, states of a plugin, or binaries",
		Long:  abLong,
		Example: `  weir bench ab --plugin prometheus --global
  weir bench ab --plugin limit-count --conf '{"count":1000000000,"time_window":60}' --states off,complete
  weir bench ab --a before.yaml --b after.yaml --path /hello --header 'apikey: secret'
  weir bench ab --a-bin ./weir-old --b-bin ./weir --base conf/config.yaml --path /hello`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runAB(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.files[0], "a", "", "configuration `file` of A")
	f.StringVar(&o.files[1], "b", "", "configuration `file` of B")
	f.StringVar(&o.bins[0], "a-bin", "", "binary of A (default: this one), and of every side but B")
	f.StringVar(&o.bins[1], "b-bin", "", "binary of B (default: that of A)")
	f.StringVar(&o.base, "base", "", "configuration `file` of sides that have none of their own")
	f.StringVar(&o.plugin, "plugin", "", "compare states of this plugin")
	f.StringVar(&o.conf, "conf", "{}", "its configuration, as JSON")
	f.BoolVar(&o.global, "global", false, "in a global rule instead of on every route")
	f.BoolVar(&o.profiled, "profiled", false, "compare a gateway with one that is being profiled")
	f.StringSliceVar(&o.states, "states", []string{stateOff, stateReturn, stateComplete}, "states to compare, with the first one")
	f.StringArrayVar(&o.paths, "path", []string{abPath}, "path of the requests; several are sent in turn")
	f.StringArrayVar(&o.headers, "header", nil, "header `line` of every request, for instance 'apikey: secret'")
	f.IntVar(&o.status, "status", 200, "status that answers must have")
	f.BoolVar(&o.differ, "differ", false, "answers may differ, in status and body")
	f.IntVar(&o.pairs, "pairs", 20, "rounds")
	f.IntVar(&o.starts, "starts", 4, "how often the gateways are started anew, spread over the rounds")
	f.DurationVar(&o.phase, "phase", time.Second, "length of a measurement")
	f.DurationVar(&o.settle, "settle", 100*time.Millisecond, "load before each measurement")
	f.DurationVar(&o.ready, "ready", 30*time.Second, "time a gateway has to start")
	f.IntVar(&o.conns, "connections", 32, "keep-alive connections")
	f.BoolVar(&o.pin, "pin", true, "give the gateways a core of their own")
	f.StringVar(&o.originAddr, "origin", "127.0.0.1:0", "address at which the bench serves as the origin")
	f.StringVar(&o.format, "format", "table", "table or json")
	f.StringVar(&o.out, "out", "", "`file` for the result (default: standard output)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the order")
	return cmd
}

func (o *abOptions) check() error {
	pair := o.files[0] != "" && o.files[1] != ""
	switch {
	case o.plugin == "" && !pair && o.bins[1] == "" && !o.profiled:
		return errors.New("nothing to compare: give --a and --b, or --plugin, or --a-bin and --b-bin, or --profiled")
	case o.profiled && (o.plugin != "" || o.files[0]+o.files[1] != "" || o.bins[1] != ""):
		return errors.New("--profiled compares one configuration (--base) and one binary (--a-bin) with itself")
	case o.plugin != "" && (o.files[0]+o.files[1] != "" || o.bins[1] != ""):
		return errors.New("--plugin compares states with one configuration (--base) and one binary (--a-bin)")
	case !pair && o.files[0]+o.files[1] != "":
		return errors.New("--a and --b belong together; for one configuration use --base")
	case o.plugin != "" && len(o.states) < 2:
		return errors.New("--states: want at least two")
	case o.pairs < fewestPairs:
		return fmt.Errorf("--pairs %d: an interval of 95 %% confidence needs at least %d", o.pairs, fewestPairs)
	case o.starts < 1 || o.starts > o.pairs:
		return fmt.Errorf("--starts %d: want 1 to %d, the number of pairs", o.starts, o.pairs)
	case o.phase <= 0 || o.settle < 0 || o.ready <= 0 || o.conns < 1 || len(o.paths) == 0:
		return errors.New("--phase, --ready and --connections must be positive, --settle cannot be negative, --path not empty")
	case o.format != "table" && o.format != "json":
		return fmt.Errorf("--format %s: want table or json", o.format)
	}
	for i, s := range o.states {
		if !slices.Contains([]string{stateOff, stateReturn, stateComplete}, s) || slices.Contains(o.states[:i], s) {
			return fmt.Errorf("--states %s: want %s, %s and %s, each once", s, stateOff, stateReturn, stateComplete)
		}
	}
	for _, h := range o.headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			return fmt.Errorf("--header %q: want 'Name: value'", h)
		}
	}
	for _, p := range o.paths {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, " \r\n") {
			return fmt.Errorf("--path %q: want a path, with its query", p)
		}
	}
	return nil
}

// requests are what is sent, in turn.
func (o *abOptions) requests() [][]byte {
	host, lines := "Host: bench.test\r\n", ""
	for _, h := range o.headers {
		if name, _, _ := strings.Cut(h, ":"); strings.EqualFold(name, "Host") {
			host = ""
		}
		lines += h + "\r\n"
	}
	var all [][]byte
	for _, p := range o.paths {
		all = append(all, []byte("GET "+p+" HTTP/1.1\r\n"+host+lines+"\r\n"))
	}
	return all
}

func runAB(ctx context.Context, o *abOptions, stdout, stderr io.Writer) error {
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
	report, err := measureAB(ctx, o, newProgress(stderr))
	if err != nil {
		return err
	}
	return report.write(stdout, o.format)
}

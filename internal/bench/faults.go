package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// faultOptions are the flags of `weir bench faults`.
type faultOptions struct {
	only        []string
	rps         float64
	kills       int
	connections int
	hold        time.Duration
	etcdPath    string
	seed        uint64
	keep        string
}

const faultsLong = `Faults starts a gateway and its store, sends a load to routes whose upstream is
healthy, writes through the Admin API without a pause, and breaks something: members
of the etcd cluster, the network before it, the disk, descriptors, upstreams, the
gateway itself. Each fault is a run of its own.

Afterwards every object that was written is asked for. A run has passed if no
request of the load failed, no acknowledged write is missing, none was acknowledged
before it was live, what runs is what is stored, and writes work again.

Where the gateway itself is killed, connections that break or find nobody count as
interrupted; an answer that is not the right one is a failure there too.`

func faultsCommand() *cobra.Command {
	o := &faultOptions{}
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	cmd := figureCommand("faults", "Traffic and acknowledged writes while everything around breaks",
		faultsLong+"\n\nThe faults: "+strings.Join(names, ", ")+".",
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	cmd.Example = `  weir bench faults
  weir bench faults --only leader-killed,kill --kills 200 --format json --out faults.json`
	fl := cmd.Flags()
	fl.StringSliceVar(&o.only, "only", nil, "`names` of the faults to run (default: all)")
	fl.Float64Var(&o.rps, "rps", 200, "requests per second")
	fl.IntVar(&o.kills, "kills", 20, "how often the gateway is killed in each run that kills it")
	fl.IntVar(&o.connections, "connections", 10000, "connections that are opened and dropped")
	fl.DurationVar(&o.hold, "hold", 5*time.Second, "how long a fault lasts")
	fl.StringVar(&o.etcdPath, "etcd-binary", "/usr/bin/etcd", "etcd to start; etcdctl has to lie beside it")
	fl.StringVar(&o.keep, "logs", "", "`directory` to keep the logs of gateway and store in")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of moments that are random")
	return cmd
}

// A scenario is one fault.
type scenario struct {
	name     string
	external bool               // the store is a cluster of three; else the embedded one
	dies     bool               // the gateway itself does
	guarded  bool               // the cluster asks for users
	secure   bool               // gateway and cluster speak TLS and both show a certificate
	apart    bool               // the cluster runs in a network namespace of its own
	disk     func(*trial) error // mounts a file system for the data of gateway and store
	needs    func(*faultOptions) error
	run      func(context.Context, *trial) error
}

func scenarios() []scenario {
	return []scenario{
		{name: "leader-killed", external: true, run: killLeader},
		{name: "member-lost", external: true, run: loseMember},
		{name: "majority-lost", external: true, run: loseMajority},
		{name: "network-cut", external: true, run: cutNetwork},
		{name: "network-silent", external: true, run: silenceNetwork},
		{name: "packets-lost", external: true, apart: true, needs: needNamespace, run: losePackets},
		{name: "link-down", external: true, apart: true, needs: needNamespace, run: unplugLink},
		{name: "slow-store", external: true, run: slowStore},
		{name: "compacted", external: true, run: compactMeanwhile},
		{name: "restored", external: true, needs: needEtcdctl, run: restoreStore},
		{name: "password", external: true, guarded: true, run: changePassword},
		{name: "certificates", external: true, secure: true, run: rotateCertificates},
		{name: "kill", dies: true, run: killGateway},
		{name: "kill-external", external: true, dies: true, run: killGateway},
		{name: "disk-full", disk: (*trial).mount, needs: needMount, run: fillDisk},
		{name: "disk-slow", disk: (*trial).mountLoop, needs: needLoop, run: slowDisk},
		{name: "disk-slow-external", external: true, disk: (*trial).mountLoop, needs: needLoop, run: slowDisk},
		{name: "clock", needs: needClock, run: stepClock},
		{name: "clock-external", external: true, needs: needClock, run: stepClock},
		{name: "descriptors", run: exhaustDescriptors},
		{name: "connections", run: dropConnections},
		{name: "black-holes", run: blackHoles},
	}
}

func needEtcdctl(o *faultOptions) error {
	c := &cluster{etcd: o.etcdPath}
	_, err := exec.LookPath(c.tool())
	return err
}

// A FaultsReport is the outcome of `weir bench faults`.
type FaultsReport struct {
	Passed bool          `json:"passed"`
	Runs   []FaultResult `json:"runs"`
}

// A FaultResult is what one fault did.
type FaultResult struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`

	Sent        int     `json:"requests"`
	Failed      int     `json:"failed"`      // not answered as they must be
	Interrupted int     `json:"interrupted"` // by the death of the gateway
	StallMS     float64 `json:"stall_ms"`
	P99MS       float64 `json:"p99_ms"`

	Writes       int `json:"writes"`
	Acknowledged int `json:"acknowledged"`
	Lost         int `json:"lost"`    // acknowledged and not there
	Stale        int `json:"stale"`   // acknowledged as live and not seen by the next request
	Differs      int `json:"differs"` // objects that do not run as they are stored

	// Recovery is from the end of the fault to the first write that was live at once.
	Recovery float64  `json:"recovery_seconds"`
	Notes    []string `json:"notes,omitempty"`

	Skipped string `json:"skipped,omitempty"` // why it did not run
	Problem string `json:"problem,omitempty"` // why it could not be carried out
}

// verdict is empty if the run has passed.
func (r *FaultResult) verdict() string {
	switch {
	case r.Skipped != "":
		return ""
	case r.Problem != "":
		return r.Problem
	case r.Sent == 0 || r.Acknowledged == 0:
		return "nothing was measured"
	}
	var bad []string
	for _, c := range []struct {
		n    int
		what string
	}{{r.Failed, "requests failed"}, {r.Lost, "acknowledged writes lost"}, {r.Stale, "acknowledged before live"}, {r.Differs, "objects run otherwise than stored"}} {
		if c.n > 0 {
			bad = append(bad, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(bad, ", ")
}

func (r *FaultsReport) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "fault\tseconds\trequests\tfailed\tinterrupted\tp99 ms\tstall ms\twrites\tacknowledged\tlost\tstale\tdiffers\trecovery s\t")
	for _, f := range r.Runs {
		if f.Skipped != "" {
			continue
		}
		fmt.Fprintf(t, "%s\t%.1f\t%d\t%d\t%d\t%.2f\t%.1f\t%d\t%d\t%d\t%d\t%d\t%.2f\t\n", f.Name, f.Seconds, f.Sent, f.Failed, f.Interrupted,
			f.P99MS, f.StallMS, f.Writes, f.Acknowledged, f.Lost, f.Stale, f.Differs, f.Recovery)
	}
	_ = t.Flush()
	for _, f := range r.Runs {
		if f.Skipped != "" {
			fmt.Fprintf(w, "%s: not run: %s\n", f.Name, f.Skipped)
		}
		for _, n := range f.Notes {
			fmt.Fprintf(w, "%s: %s\n", f.Name, n)
		}
		if v := f.verdict(); v != "" {
			fmt.Fprintf(w, "%s: FAILED: %s\n", f.Name, v)
		}
	}
	if r.Passed {
		fmt.Fprintln(w, "passed")
	}
}

// broken makes the command fail after it has printed its report.
func (r *FaultsReport) broken() error {
	if r.Passed {
		return nil
	}
	return errors.New("not all faults passed without a loss")
}

// chosen are the scenarios that --only names.
func (o *faultOptions) chosen() ([]scenario, error) {
	all := scenarios()
	if len(o.only) == 0 {
		return all, nil
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(all, func(s scenario) bool { return s.name == name }) {
			return nil, Misuse{fmt.Errorf("--only %s: there is no such fault", name)}
		}
	}
	return slices.DeleteFunc(all, func(s scenario) bool { return !slices.Contains(o.only, s.name) }), nil
}

func (o *faultOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*FaultsReport, error) {
	if o.rps <= 0 || o.kills < 1 || o.connections < 1 || o.hold <= 0 {
		return nil, Misuse{errors.New("--rps, --kills, --connections and --hold must be positive")}
	}
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	weir, err := binaryPath(f.weir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.etcdPath); err != nil {
		return nil, fmt.Errorf("faults need etcd (apt-get install etcd-server etcd-client): %w", err)
	}
	report := &FaultsReport{Passed: true}
	for _, s := range chosen {
		p.say("%s ...", s.name)
		r := o.try(ctx, s, weir, f.ready, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		report.Runs = append(report.Runs, r)
		v := r.verdict()
		report.Passed = report.Passed && v == ""
		switch {
		case r.Skipped != "":
			p.say("%s: not run: %s", s.name, r.Skipped)
		case v != "":
			p.say("%s: FAILED: %s", s.name, v)
		default:
			p.say("%s: %d requests, %d writes acknowledged, nothing failed, nothing lost", s.name, r.Sent, r.Acknowledged)
		}
	}
	return report, nil
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/bench/reference"
)

// soakOptions are the flags of `weir bench soak`.
type soakOptions struct {
	duration time.Duration
	warm     int
	writes   float64
	rps      float64
	clients  int
	etcdPath string
	seed     uint64
}

const soakLong = `Soak changes the configuration of a gateway at random for a long time: objects of
every kind of the Admin API are created, changed and deleted through it, references
broken and unbroken, and documents that do not compile, and lists of plugins, are
written straight into etcd. A model beside it knows what every request, handshake,
connection to a stream route and call must be answered with, given what was
acknowledged; traffic is compared with it.

Resident memory, the live heap, goroutines and descriptors are sampled. At the end
memory must be within 5 % of what it was after the first sixth.`

func soakCommand() *cobra.Command {
	o := &soakOptions{}
	cmd := figureCommand("soak", "Random changes of every kind beside a model, and whether memory stays flat", soakLong,
		func(ctx context.Context, f *figureOptions, p *progress) (figure, error) { return o.measure(ctx, f, p) })
	fl := cmd.Flags()
	fl.DurationVar(&o.duration, "duration", 30*time.Minute, "length of the run")
	fl.IntVar(&o.warm, "warm", 2000, "writes before it begins, as fast as they go")
	fl.Float64Var(&o.writes, "writes", 20, "writes per second")
	fl.Float64Var(&o.rps, "rps", 100, "requests per second")
	fl.IntVar(&o.clients, "clients", 4, "clients that send them")
	fl.StringVar(&o.etcdPath, "etcd-binary", "/usr/bin/etcd", "etcd to start")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of writes and requests")
	return cmd
}

// A SoakReport is the outcome of `weir bench soak`.
type SoakReport struct {
	Passed  bool    `json:"passed"`
	Seconds float64 `json:"seconds"`

	Writes  map[string]int `json:"writes"`  // by what they were
	Refused int            `json:"refused"` // of them, as they had to be
	Late    int            `json:"late"`    // acknowledged before they were live, and said so

	Requests int            `json:"requests"` // handshakes, connections and reads of the Admin API included
	Answers  map[string]int `json:"answers"`  // by kind of question and status; 0: none was to be had
	Errors   int            `json:"errors"`   // requests without an answer

	// Differences are answers, of either API, that are not the model's.
	Differences int      `json:"differences"`
	Examples    []string `json:"examples,omitempty"`

	// Checked is what the gateway itself found when it compared its state with the store.
	Checked struct {
		Keys   int64            `json:"keys"`
		Cycles int64            `json:"cycles"`
		Drift  map[string]int64 `json:"drift,omitempty"`
	} `json:"checked"`

	Measures []Measure `json:"measures"`
	Samples  []holding `json:"samples"`
}

func (r *SoakReport) table(w io.Writer) {
	fmt.Fprintf(w, "%.0f s, %d requests, %d without an answer, %d differences from the model\nanswers:", r.Seconds, r.Requests, r.Errors, r.Differences)
	for _, s := range slices.Sorted(maps.Keys(r.Answers)) {
		fmt.Fprintf(w, "\n  %-28s %d", s, r.Answers[s])
	}
	fmt.Fprintf(w, "\nwrites, of which %d were refused as they had to be and %d late:\n", r.Refused, r.Late)
	for _, k := range slices.Sorted(maps.Keys(r.Writes)) {
		fmt.Fprintf(w, "  %-28s %d\n", k, r.Writes[k])
	}
	fmt.Fprintf(w, "compared with the store: %d keys in %d cycles, drift %v\n", r.Checked.Keys, r.Checked.Cycles, r.Checked.Drift)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tafter 1/6\tat the end\tgrowth %\t")
	for _, m := range r.Measures {
		verdict := "flat"
		if !m.Flat {
			verdict = "GROWS"
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%+.1f\t%s\n", m.Name, m.Early, m.Late, m.Percent, verdict)
	}
	_ = t.Flush()
	for _, e := range r.Examples {
		fmt.Fprintln(w, e)
	}
	if r.Passed {
		fmt.Fprintln(w, "passed")
	}
}

func (r *SoakReport) broken() error {
	if r.Passed {
		return nil
	}
	return errors.New("the soak found differences, or memory that grows")
}

// A soaking is one run.
type soaking struct {
	opts    *soakOptions
	m       *managed
	tls     int // port
	admin   *adminClient
	store   *etcdStore
	http    *http.Client
	gen     *reference.Generator
	history *reference.History

	mu     sync.Mutex
	report *SoakReport
}

func (o *soakOptions) measure(ctx context.Context, f *figureOptions, p *progress) (*SoakReport, error) {
	if o.duration <= 0 || o.writes <= 0 || o.rps <= 0 || o.clients < 1 || o.warm < 0 {
		return nil, Misuse{errors.New("--duration, --writes, --rps and --clients must be positive")}
	}
	weir, err := binaryPath(f.weir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	origins, stop, err := soakOrigins(3, 4)
	if err != nil {
		return nil, err
	}
	defer stop()
	free, err := freePorts(1 + reference.StreamRoutes)
	if err != nil {
		return nil, err
	}
	origins.Ports = free[1:]
	m, err := newManagedWith(soakMembers(free[0], origins.Ports), dir, weir, o.etcdPath)
	if err != nil {
		return nil, err
	}
	m.env = reference.Env()
	defer m.close()
	if err := m.start(); err != nil {
		return nil, err
	}
	store, err := openStore([]string{m.storeURL()}, "/apisix")
	if err != nil {
		return nil, err
	}
	defer store.close()
	s := &soaking{
		opts: o, m: m, tls: free[0], store: store, admin: newAdminClient(m.adminURL(), m.key),
		http: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: o.clients + 2}},
		gen:  reference.New(origins, o.seed), history: reference.NewHistory(reference.World{}),
		report: &SoakReport{Writes: map[string]int{}, Answers: map[string]int{}},
	}
	defer s.http.CloseIdleConnections()
	defer s.admin.http.CloseIdleConnections()
	ready, cancel := context.WithTimeout(ctx, f.ready)
	defer cancel()
	if err := m.ready(ready, store, s.admin); err != nil {
		return nil, err
	}
	if err := s.run(ctx, p); err != nil {
		return nil, m.proc.explain(err)
	}
	return s.report, nil
}

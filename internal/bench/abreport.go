package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// An ABReport is the outcome of `weir bench ab`, as its JSON output shows it.
type ABReport struct {
	Date        string       `json:"date"` // RFC 3339
	Cores       int          `json:"cores"`
	Method      string       `json:"method"`
	Settings    ABSettings   `json:"settings"`
	Sides       []SideReport `json:"sides"` // the first is what the others are compared with
	Comparisons []SideEffect `json:"comparisons"`
}

// abMethod is how the figures of an ABReport come about.
const abMethod = "paired by round, order drawn anew each round; medians; intervals by order statistics (sign test)"

// ABSettings are the parameters of the run.
type ABSettings struct {
	Plugin      string   `json:"plugin,omitempty"`
	Conf        string   `json:"conf,omitempty"`
	Global      bool     `json:"global,omitempty"`
	Paths       []string `json:"paths"`
	Pairs       int      `json:"pairs"`
	Starts      int      `json:"starts"`
	Seconds     float64  `json:"seconds"` // of a measurement
	Connections int      `json:"connections"`
	Pinned      bool     `json:"pinned"`   // the gateways had a core of their own
	Compared    bool     `json:"compared"` // status and body of the answers are equal
	Seed        uint64   `json:"seed"`
}

// A SideReport has the medians of one side, and its measurements in their order.
type SideReport struct {
	Name       string     `json:"name"`
	Binary     string     `json:"binary"`
	CPUMicros  float64    `json:"cpu_us"` // per request
	RPS        float64    `json:"rps"`
	CoreUse    float64    `json:"core_use"`   // CPU time by time
	Unexpected uint64     `json:"unexpected"` // answers of another status than expected
	Errors     uint64     `json:"errors"`
	Samples    []ABSample `json:"samples"`
}

// An ABSample is one measurement.
type ABSample struct {
	CPUMicros float64 `json:"cpu_us"`
	RPS       float64 `json:"rps"`
}

// A SideEffect compares a side with the first one.
type SideEffect struct {
	Side       string `json:"side"`
	With       string `json:"with"`
	CPU        Effect `json:"cpu"` // time per request
	Throughput Effect `json:"throughput"`
}

func newABReport(o *abOptions, sides []side, samples [][]sample) *ABReport {
	r := &ABReport{
		Date: time.Now().UTC().Format(time.RFC3339), Cores: runtime.NumCPU(), Method: abMethod,
		Settings: ABSettings{
			Plugin: o.plugin, Global: o.global, Paths: o.paths, Pairs: o.pairs, Starts: o.starts,
			Seconds: o.phase.Seconds(), Connections: o.conns, Compared: !o.differ, Seed: o.seed,
		},
	}
	if o.plugin != "" {
		r.Settings.Conf = o.conf
	}
	for i, s := range sides {
		r.Sides = append(r.Sides, sideReport(s, samples[i]))
		if i > 0 {
			r.Comparisons = append(r.Comparisons, SideEffect{
				Side: s.name, With: sides[0].name,
				CPU:        effectOf(ratios(samples[i], samples[0], sample.cpuMicros)),
				Throughput: effectOf(ratios(samples[i], samples[0], sample.rate)),
			})
		}
	}
	return r
}

func sideReport(s side, samples []sample) SideReport {
	r := SideReport{Name: s.name, Binary: s.binary}
	var cpu, rate, use []float64
	for _, x := range samples {
		cpu, rate, use = append(cpu, x.cpuMicros()), append(rate, x.rate()), append(use, x.cpu/x.seconds)
		r.Unexpected += x.Other
		r.Errors += x.Errors
		r.Samples = append(r.Samples, ABSample{CPUMicros: x.cpuMicros(), RPS: x.rate()})
	}
	r.CPUMicros, r.RPS, r.CoreUse = median(cpu), median(rate), median(use)
	return r
}

func ratios(of, to []sample, figure func(sample) float64) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		out[i] = figure(of[i]) / figure(to[i])
	}
	return out
}

// write prints the report as table or json.
func (r *ABReport) write(w io.Writer, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b strings.Builder
	r.table(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *ABReport) table(b *strings.Builder) {
	s := &r.Settings
	fmt.Fprintf(b, "%s, %d cores, %d rounds of %g s a side, %d starts, %d connections\n", r.Date, r.Cores, s.Pairs, s.Seconds, s.Starts, s.Connections)
	if s.Plugin != "" {
		where := "on every route"
		if s.Global {
			where = "in a global rule"
		}
		fmt.Fprintf(b, "plugin %s %s, %s\n", s.Plugin, s.Conf, where)
	}
	if s.Compared {
		b.WriteString("answers: equal in status and body\n\n")
	} else {
		b.WriteString("answers: not compared (--differ)\n\n")
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "side\tCPU us/request\trequests/s\tthroughput\tcore use\tunexpected\terrors\t")
	for i, side := range r.Sides {
		share := 100.0
		if i > 0 {
			share += r.Comparisons[i-1].Throughput.Percent
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.0f\t%.1f\t%.2f\t%d\t%d\t\n", side.Name, side.CPUMicros, side.RPS, share, side.CoreUse, side.Unexpected, side.Errors)
	}
	_ = t.Flush()
	for _, c := range r.Comparisons {
		fmt.Fprintf(b, "\n%s against %s, median of %d pairs, %.1f %% confidence (order statistics)\n", c.Side, c.With, s.Pairs, c.CPU.Confidence)
		fmt.Fprintf(b, "  CPU per request  %s\n", c.CPU)
		fmt.Fprintf(b, "  throughput       %s\n", c.Throughput)
	}
	r.doubts(b)
}

// String is an effect in words.
func (e Effect) String() string {
	if !e.Established {
		return fmt.Sprintf("not established: %+.1f %% (%+.1f to %+.1f %%) includes 0", e.Percent, e.Low, e.High)
	}
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f %%)", e.Percent, e.Low, e.High)
}

// doubts says why the figures may not mean what they seem to.
func (r *ABReport) doubts(b *strings.Builder) {
	b.WriteByte('\n')
	for _, s := range r.Sides {
		if s.Unexpected+s.Errors > 0 {
			fmt.Fprintf(b, "side %s: %d answers of another status, %d errors: the sides did not do the same work\n", s.Name, s.Unexpected, s.Errors)
		}
		if r.Settings.Pinned && s.CoreUse < 0.9 {
			fmt.Fprintf(b, "side %s used %.0f %% of its core: its throughput is bounded by the load or by the machine\n", s.Name, 100*s.CoreUse)
		}
	}
}

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"weir/internal/bench/load"
)

// A ReloadReport is the outcome of `weir bench reload`, as its JSON output shows
// it. Durations are in the unit their name ends in.
type ReloadReport struct {
	Date        string             `json:"date"` // RFC 3339
	Gateway     string             `json:"gateway"`
	Cores       int                `json:"cores"`
	Settings    ReloadSettings     `json:"settings"`
	Phases      []ReloadPhase      `json:"phases"` // in the order in which they ran
	Comparisons []ReloadComparison `json:"comparisons"`
}

// ReloadSettings are the parameters of the run.
type ReloadSettings struct {
	Products       int     `json:"products"`
	Batcher        bool    `json:"batcher"`
	RPS            float64 `json:"rps,omitempty"` // absent: Clients
	Connections    int     `json:"connections,omitempty"`
	Clients        []int   `json:"clients,omitempty"`
	PauseMS        float64 `json:"pause_ms,omitempty"`
	RefreshSeconds float64 `json:"refresh_seconds"`
	Changed        []int   `json:"changed"`
	Pairs          int     `json:"pairs"`
	Attached       bool    `json:"attached"` // one gateway for all phases; the portal refuses in idle ones
	TimeoutMS      float64 `json:"timeout_ms"`
	Seed           uint64  `json:"seed"`
}

// A ReloadPhase has the figures of one phase; package load defines those of the
// traffic (load.Stats).
type ReloadPhase struct {
	Round    int     `json:"round"`
	Refresh  bool    `json:"refresh"` // false: an idle phase
	Changed  int     `json:"changed"` // products before each refresh
	Seconds  float64 `json:"seconds"`
	Sent     int     `json:"sent"`
	OK       uint64  `json:"ok"` // 2xx
	NotFound uint64  `json:"not_found"`
	Other    uint64  `json:"other"` // responses of another status
	Timeouts uint64  `json:"timeouts"`
	Errors   uint64  `json:"errors"`

	Latency   Latency `json:"latency"`
	StallMS   float64 `json:"stall_ms"`
	LateP99MS float64 `json:"late_p99_ms"` // the generator's own lateness

	Before ProductReport `json:"products_before"` // asked before the load
	After  ProductReport `json:"products_after"`  // and after it

	Usage     *UsageReport  `json:"usage,omitempty"` // absent when the process is not known
	Refreshes RefreshReport `json:"refreshes"`
	Backend   BackendReport `json:"backend"`
}

// A ProductReport is about asking every product once.
type ProductReport struct {
	OK       int    `json:"ok"`    // 200 in the version that the portal has shown last
	Stale    int    `json:"stale"` // 200 in an older one
	NotFound int    `json:"not_found"`
	Other    int    `json:"other"`
	Errors   int    `json:"errors"`
	First    string `json:"first,omitempty"` // what was wrong with the first that was not ok
}

// A RefreshReport is about what the gateway read of the portal during a phase.
type RefreshReport struct {
	Count       int       `json:"count"`
	Requests    int       `json:"requests"`
	NotModified int       `json:"not_modified"` // requests answered with 304
	Refused     int       `json:"refused"`      // and with 503
	Bytes       int64     `json:"bytes"`        // of bodies
	Compiled    *int64    `json:"compiled,omitempty"`
	CPUMS       []float64 `json:"cpu_ms,omitempty"` // of each refresh that was seen whole, more than without
	ReadMS      []float64 `json:"read_ms"`          // from the first request of each to its last
}

// A BackendReport is how often the backend was asked during a phase.
type BackendReport struct {
	AuthRep   int64 `json:"authrep"`
	Authorize int64 `json:"authorize"`
	Reports   int64 `json:"reports"`
	Denied    int64 `json:"denied"`
	Hits      int64 `json:"hits"` // reported
}

// A ReloadComparison compares the phases with one number of changed products with
// the idle phases of their rounds.
type ReloadComparison struct {
	Changed     int       `json:"changed"`
	Idle        Latency   `json:"idle"` // of all idle phases together
	With        Latency   `json:"with"`
	Ratios      []float64 `json:"p99_ratios"` // p99 with / p99 idle of each round
	MedianRatio float64   `json:"p99_ratio_median"`
	IdleStallMS float64   `json:"idle_stall_ms"` // the longest of all idle phases
	StallMS     float64   `json:"stall_ms"`
}

func newReloadReport(o *reloadOptions, gateway string, changes []int, outcomes []outcome) *ReloadReport {
	r := &ReloadReport{
		Date: time.Now().UTC().Format(time.RFC3339), Gateway: gateway, Cores: runtime.NumCPU(),
		Settings: ReloadSettings{
			Products: o.products, Batcher: o.batcher, RPS: o.rps, Connections: o.conns,
			RefreshSeconds: o.refresh.Seconds(), Changed: changes, Pairs: o.pairs, Attached: o.attach != "",
			TimeoutMS: ms(o.timeout), Seed: o.seed,
		},
	}
	if len(o.clients) > 0 {
		s := &r.Settings
		s.RPS, s.Connections, s.Clients, s.PauseMS = 0, 0, o.clients, ms(o.pause)
	}
	for i := range outcomes {
		r.Phases = append(r.Phases, outcomes[i].report(o.phase))
	}
	for _, n := range changes {
		r.Comparisons = append(r.Comparisons, compareReload(n, outcomes))
	}
	return r
}

func (o *outcome) report(length time.Duration) ReloadPhase {
	s := &o.stats
	p := ReloadPhase{
		Round: o.round, Refresh: o.refresh, Changed: o.changed, Seconds: length.Seconds(),
		Sent: s.Sent, OK: s.Status[2], NotFound: s.NotFound,
		Other:    s.Status[0] + s.Status[1] + s.Status[3] + s.Status[4] + s.Status[5] - s.NotFound,
		Timeouts: s.Timeouts, Errors: s.Errors, Latency: latency(&s.Latency),
		StallMS: ms(s.Stall), LateP99MS: ms(s.Late.Quantile(.99)),
		Before: ProductReport(o.before), After: ProductReport(o.after),
		Refreshes: RefreshReport{Count: len(o.refreshes), Refused: o.refused},
		Backend:   BackendReport{o.calls.AuthRep, o.calls.Authorize, o.calls.Report, o.calls.Denied, o.calls.Hits},
	}
	if u := o.used; u.known {
		p.Usage = &UsageReport{
			CPUSeconds: u.cpu.Seconds(), CPUPercent: 100 * u.cpu.Seconds() / length.Seconds(),
			RSSMiB: mib(u.rss), PeakMiB: mib(u.peak),
		}
	}
	f := &p.Refreshes
	for _, r := range o.refreshes {
		f.Requests += r.Requests
		f.NotModified += r.NotModified
		f.Bytes += r.Bytes
		f.ReadMS = append(f.ReadMS, ms(r.Ended.Sub(r.Began)))
	}
	for _, c := range o.costs {
		f.CPUMS = append(f.CPUMS, ms(c))
	}
	if o.compiled >= 0 {
		f.Compiled = &o.compiled
	}
	return p
}

// compareReload pairs the phases of a number of changed products by round.
func compareReload(changed int, outcomes []outcome) ReloadComparison {
	c := ReloadComparison{Changed: changed}
	var idle, with load.Histogram
	var idleStall, stall time.Duration
	p99 := map[int]time.Duration{} // of the idle phases, by round
	for _, o := range outcomes {
		if !o.refresh {
			idle.Add(&o.stats.Latency)
			idleStall = max(idleStall, o.stats.Stall)
			p99[o.round] = o.stats.Latency.Quantile(.99)
		}
	}
	for _, o := range outcomes {
		if o.refresh && o.changed == changed {
			with.Add(&o.stats.Latency)
			stall = max(stall, o.stats.Stall)
			if p99[o.round] > 0 {
				c.Ratios = append(c.Ratios, float64(o.stats.Latency.Quantile(.99))/float64(p99[o.round]))
			}
		}
	}
	c.Idle, c.With, c.MedianRatio = latency(&idle), latency(&with), median(c.Ratios)
	c.IdleStallMS, c.StallMS = ms(idleStall), ms(stall)
	return c
}

// line is a phase in a line, for the progress.
func (o *outcome) line(length time.Duration) string {
	p := o.report(length)
	text := fmt.Sprintf("%-14s p50 %.3f  p99 %.3f  p99.9 %.3f  stall %.3f ms  refreshes %d", o.name(), p.Latency.P50, p.Latency.P99, p.Latency.P999, p.StallMS, p.Refreshes.Count)
	if p.Refreshes.Compiled != nil {
		text += fmt.Sprintf("  compiled %d", *p.Refreshes.Compiled)
	}
	return text
}

// write prints the report as table or json.
func (r *ReloadReport) write(w io.Writer, format string) error {
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

func (r *ReloadReport) table(b *strings.Builder) {
	s := &r.Settings
	fmt.Fprintf(b, "%s, %d cores, %s\n", r.Gateway, r.Cores, r.Date)
	chain := "headers ×3, logging, headers ×2, apicast"
	if s.Batcher {
		chain = "headers ×3, logging, headers ×2, 3scale_batcher, apicast"
	}
	fmt.Fprintf(b, "%d products of %s; refresh every %g s\n", s.Products, chain, s.RefreshSeconds)
	if len(s.Clients) > 0 {
		fmt.Fprintf(b, "load: clients up to %v, resting %g ms; latency in ms from sending\n\n", s.Clients, s.PauseMS)
	} else {
		fmt.Fprintf(b, "load: %g requests/s, %d connections; latency in ms from the intended send time\n\n", s.RPS, s.Connections)
	}
	r.trafficTable(b)
	b.WriteByte('\n')
	r.refreshTable(b)
	b.WriteByte('\n')
	for _, c := range r.Comparisons {
		fmt.Fprintf(b, "changed %d: p99 with / p99 idle: median %.3f of %d (", c.Changed, c.MedianRatio, len(c.Ratios))
		for i, ratio := range c.Ratios {
			fmt.Fprintf(b, "%s%.3f", strings.Repeat(", ", min(i, 1)), ratio)
		}
		fmt.Fprintf(b, "); longest stall %.3f ms, idle %.3f ms; all phases: p99 %.3f, idle %.3f, p99.9 %.3f, idle %.3f\n",
			c.StallMS, c.IdleStallMS, c.With.P99, c.Idle.P99, c.With.P999, c.Idle.P999)
	}
	r.doubts(b)
}

func (p *ReloadPhase) name() string { return reloadPhase{p.Round, p.Refresh, p.Changed}.name() }

func (r *ReloadReport) trafficTable(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\tsent\t2xx\t404\tother\ttimeouts\terrors\tp50\tp95\tp99\tp99.9\tmax\tstall\tlate p99\tCPU %\tRSS MiB\tpeak\t")
	for i := range r.Phases {
		p := &r.Phases[i]
		l := p.Latency
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t",
			p.name(), p.Sent, p.OK, p.NotFound, p.Other, p.Timeouts, p.Errors,
			l.P50, l.P95, l.P99, l.P999, l.Max, p.StallMS, p.LateP99MS)
		if u := p.Usage; u != nil {
			fmt.Fprintf(t, "%.1f\t%.0f\t%.0f\t\n", u.CPUPercent, u.RSSMiB, u.PeakMiB)
		} else {
			fmt.Fprintln(t, "-\t-\t-\t")
		}
	}
	_ = t.Flush() // a strings.Builder does not fail
}

func (r *ReloadReport) refreshTable(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\trefreshes\trequests\tunchanged\trefused\tbytes\tcompiled\tread ms\trefresh CPU ms\tmost\tproducts right before\tafter\tstale\t404\tother\terrors\tauthrep\tauthorize\treports\thits\t")
	for i := range r.Phases {
		p := &r.Phases[i]
		f, a, k := &p.Refreshes, &p.After, &p.Backend
		compiled := "-"
		if f.Compiled != nil {
			compiled = fmt.Sprint(*f.Compiled)
		}
		cost, most := "-", "-"
		if len(f.CPUMS) > 0 {
			cost, most = fmt.Sprintf("%.1f", median(f.CPUMS)), fmt.Sprintf("%.1f", slices.Max(f.CPUMS))
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%.1f\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
			p.name(), f.Count, f.Requests, f.NotModified, f.Refused, f.Bytes, compiled, median(f.ReadMS), cost, most,
			p.Before.OK, a.OK, a.Stale, a.NotFound, a.Other, a.Errors, k.AuthRep, k.Authorize, k.Reports, k.Hits)
	}
	_ = t.Flush()
}

// doubts says why the figures may not mean what they seem to.
func (r *ReloadReport) doubts(b *strings.Builder) {
	for i := range r.Phases {
		p := &r.Phases[i]
		for _, c := range [...]struct {
			when string
			ProductReport
		}{{"before", p.Before}, {"after", p.After}} {
			if c.OK != r.Settings.Products {
				fmt.Fprintf(b, "phase %s: %d of %d products answered as they should %s the load; the first that did not: %s\n",
					p.name(), c.OK, r.Settings.Products, c.when, c.First)
			}
		}
		if p.Refresh && p.Refreshes.Count == 0 {
			fmt.Fprintf(b, "phase %s: the gateway did not refresh\n", p.name())
		}
		if !p.Refresh && p.Refreshes.Count > 0 {
			fmt.Fprintf(b, "phase %s: the gateway refreshed %d times in an idle phase\n", p.name(), p.Refreshes.Count)
		}
	}
}

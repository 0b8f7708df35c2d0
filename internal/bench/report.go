package bench

import (
	"runtime"
	"slices"
	"time"

	"weir/internal/bench/load"
)

// A Report is the outcome of `weir bench churn`, as its JSON output shows it.
// Durations are in the unit their name ends in.
type Report struct {
	Date     string        `json:"date"` // RFC 3339
	Gateway  string        `json:"gateway"`
	Cores    int           `json:"cores"`
	Settings Settings      `json:"settings"`
	Bulk     BulkReport    `json:"bulk"`
	Phases   []PhaseReport `json:"phases,omitempty"`
	Pairs    *PairReport   `json:"pairs,omitempty"`
	Start    *StartReport  `json:"start,omitempty"`
}

// Settings are the parameters of the run.
type Settings struct {
	Objects     map[string]int `json:"objects"` // bulk-loaded, by kind
	RPS         float64        `json:"rps"`
	Keys        int            `json:"keys"`
	Connections int            `json:"connections"`
	Creates     int            `json:"creates"`
	Deletes     int            `json:"deletes"`
	Concurrency int            `json:"concurrency"`
	Direct      bool           `json:"direct,omitempty"` // to the store, not through the Admin API
	TimeoutMS   float64        `json:"timeout_ms"`
	Seed        uint64         `json:"seed"`
}

// A BulkReport is about the initial load through etcd.
type BulkReport struct {
	Objects int     `json:"objects"`
	Seconds float64 `json:"seconds"` // until etcd had acknowledged everything
	// VisibleSeconds is until the data plane answered 200 for the last object
	// and for every object the load asks for, from the same beginning.
	VisibleSeconds float64 `json:"visible_seconds"`
}

// A PhaseReport has the figures of one phase; package load defines those of
// the traffic (load.Stats).
type PhaseReport struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Sent     int     `json:"sent"`
	OK       uint64  `json:"ok"`    // 2xx
	Other    uint64  `json:"other"` // responses of another status
	Timeouts uint64  `json:"timeouts"`
	Errors   uint64  `json:"errors"`

	Latency   Latency `json:"latency"`
	StallMS   float64 `json:"stall_ms"`
	LateP99MS float64 `json:"late_p99_ms"` // the generator's own lateness

	Usage   *UsageReport `json:"usage,omitempty"` // absent when the process is not known
	Creates *OpReport    `json:"creates,omitempty"`
	Deletes *OpReport    `json:"deletes,omitempty"`
}

// Latency is a distribution in milliseconds.
type Latency struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P95  float64 `json:"p95_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

// A UsageReport is what the gateway's processes used during a phase.
type UsageReport struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	CPUPercent float64 `json:"cpu_percent"` // of one core
	RSSMiB     float64 `json:"rss_mib"`     // at the end
	PeakMiB    float64 `json:"peak_mib"`    // of samples a second apart
}

// An OpReport is about the creates or the deletes of a phase.
type OpReport struct {
	Called  int     `json:"called"`
	Acked   int     `json:"acked"`
	Failure string  `json:"failure,omitempty"` // the first answer that was not a success
	API     Latency `json:"api"`               // of the acknowledged calls

	FirstRight int     `json:"first_right"` // the first request after the acknowledgement saw the write
	Wrong      int     `json:"wrong"`       // answers that did not show an acknowledged write
	Never      int     `json:"never"`       // acknowledged writes not seen within the timeout
	Until      Latency `json:"until_right"` // from acknowledgement to the first right answer
}

// A PairReport compares the phases of --pairs. All and Churn merge the phases
// of a sort; Ratios has p99 churn / p99 idle of each pair.
type PairReport struct {
	Idle        Latency   `json:"idle"`
	Churn       Latency   `json:"churn"`
	Ratios      []float64 `json:"p99_ratios"`
	MedianRatio float64   `json:"p99_ratio_median"`
}

// A StartReport is about starting with everything loaded.
type StartReport struct {
	Seconds []float64 `json:"seconds"` // from exec to the first authenticated 200, each run
	Median  float64   `json:"median_seconds"`
}

func newReport(e *experiment) *Report {
	o := e.opts
	r := &Report{
		Date: time.Now().UTC().Format(time.RFC3339), Gateway: e.subject.name, Cores: runtime.NumCPU(),
		Settings: Settings{
			Objects: map[string]int{}, RPS: o.rps, Keys: o.keys, Connections: o.conns, Creates: o.creates,
			Deletes: o.deletes, Concurrency: o.concurrency, Direct: o.direct, TimeoutMS: ms(o.timeout), Seed: o.seed,
		},
	}
	for _, p := range e.pops {
		r.Settings.Objects[p.name] = p.count
		r.Bulk.Objects += p.count
	}
	return r
}

// fill adds the figures of a finished run.
func (r *Report) fill(e *experiment, gen *load.Generator, churn *churner, used []resources) {
	var idle, busy load.Histogram
	var ratios []float64
	var idleP99 time.Duration
	for i, p := range e.phases {
		s := gen.Snapshot(i)
		row := phaseReport(p, &s)
		if u := used[i]; u.known {
			row.Usage = &UsageReport{
				CPUSeconds: u.cpu.Seconds(), CPUPercent: 100 * u.cpu.Seconds() / p.length.Seconds(),
				RSSMiB: mib(u.rss), PeakMiB: mib(u.peak),
			}
		}
		creates, deletes := churn.of(i)
		row.Creates, row.Deletes = opReport(&creates), opReport(&deletes)
		r.Phases = append(r.Phases, row)
		switch {
		case p.pair == 0:
		case !p.churn:
			idle.Add(&s.Latency)
			idleP99 = s.Latency.Quantile(.99)
		default:
			busy.Add(&s.Latency)
			if idleP99 > 0 {
				ratios = append(ratios, float64(s.Latency.Quantile(.99))/float64(idleP99))
			}
		}
	}
	if e.opts.pairs > 0 {
		r.Pairs = &PairReport{Idle: latency(&idle), Churn: latency(&busy), Ratios: ratios, MedianRatio: median(ratios)}
	}
}

func phaseReport(p phase, s *load.Stats) PhaseReport {
	return PhaseReport{
		Name: p.name, Seconds: p.length.Seconds(), Sent: s.Sent, OK: s.Status[2],
		Other:    s.Status[0] + s.Status[1] + s.Status[3] + s.Status[4] + s.Status[5],
		Timeouts: s.Timeouts, Errors: s.Errors, Latency: latency(&s.Latency),
		StallMS: ms(s.Stall), LateP99MS: ms(s.Late.Quantile(.99)),
	}
}

func opReport(s *opStats) *OpReport {
	if s.Called == 0 {
		return nil
	}
	return &OpReport{
		Called: s.Called, Acked: s.Acked, Failure: s.Failure, API: latency(&s.Latency),
		FirstRight: s.First, Wrong: s.Wrong, Never: s.Never, Until: latency(&s.Until),
	}
}

func latency(h *load.Histogram) Latency {
	return Latency{
		P50: ms(h.Quantile(.5)), P90: ms(h.Quantile(.9)), P95: ms(h.Quantile(.95)), P99: ms(h.Quantile(.99)),
		P999: ms(h.Quantile(.999)), Max: ms(h.Max()),
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// median is 0 for no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

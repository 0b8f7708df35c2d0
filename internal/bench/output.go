package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// write prints the report as table, json or csv.
func (r *Report) write(w io.Writer, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "csv":
		return r.writeCSV(w)
	}
	return r.writeTable(w)
}

func (r *Report) writeTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %s\n", r.Gateway, r.Cores, r.Date)
	fmt.Fprintf(&b, "bulk load: %d objects in etcd after %.2f s, in force after %.2f s\n",
		r.Bulk.Objects, r.Bulk.Seconds, r.Bulk.VisibleSeconds)
	if r.Start != nil {
		fmt.Fprintf(&b, "start to first authenticated 200: median %.3f s of %d runs (", r.Start.Median, len(r.Start.Seconds))
		for i, s := range r.Start.Seconds {
			fmt.Fprintf(&b, "%s%.3f", strings.Repeat(", ", min(i, 1)), s)
		}
		b.WriteString(")\n")
	}
	if len(r.Phases) > 0 {
		fmt.Fprintf(&b, "load: %g requests/s over %d keys, %d connections; latency in ms from the intended send time\n\n",
			r.Settings.RPS, r.Settings.Keys, r.Settings.Connections)
		r.trafficTable(&b)
		b.WriteByte('\n')
		r.opTable(&b)
	}
	if p := r.Pairs; p != nil {
		fmt.Fprintf(&b, "\nall idle phases:  p50 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms\n", p.Idle.P50, p.Idle.P99, p.Idle.P999, p.Idle.Max)
		fmt.Fprintf(&b, "all churn phases: p50 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms\n", p.Churn.P50, p.Churn.P99, p.Churn.P999, p.Churn.Max)
		fmt.Fprintf(&b, "p99 churn / p99 idle: median %.3f of %d pairs (", p.MedianRatio, len(p.Ratios))
		for i, ratio := range p.Ratios {
			fmt.Fprintf(&b, "%s%.3f", strings.Repeat(", ", min(i, 1)), ratio)
		}
		b.WriteString(")\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) trafficTable(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\tsent\t2xx\tother\ttimeouts\terrors\tp50\tp90\tp99\tp99.9\tmax\tstall\tlate p99\tCPU s\tCPU %\tRSS MiB\tpeak\t")
	for _, p := range r.Phases {
		l := p.Latency
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t",
			p.Name, p.Sent, p.OK, p.Other, p.Timeouts, p.Errors,
			l.P50, l.P90, l.P99, l.P999, l.Max, p.StallMS, p.LateP99MS)
		if u := p.Usage; u != nil {
			fmt.Fprintf(t, "%.2f\t%.1f\t%.0f\t%.0f\t\n", u.CPUSeconds, u.CPUPercent, u.RSSMiB, u.PeakMiB)
		} else {
			fmt.Fprintln(t, "-\t-\t-\t-\t")
		}
	}
	_ = t.Flush() // a strings.Builder does not fail
}

func (r *Report) opTable(b *strings.Builder) {
	var failures []string
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	written := "Admin API"
	if r.Settings.Direct {
		written = "store"
	}
	fmt.Fprintln(t, written+"\tacknowledged\tp50\tp90\tp99\tmax\tseen by first request\twrong answers\tnever seen\tright after p50\tmax\t")
	for _, p := range r.Phases {
		for name, o := range p.ops() {
			fmt.Fprintf(t, "%s, %s\t%d/%d\t%.2f\t%.2f\t%.2f\t%.2f\t%d/%d\t%d\t%d\t%.2f\t%.2f\t\n", p.Name, name, o.Acked, o.Called,
				o.API.P50, o.API.P90, o.API.P99, o.API.Max, o.FirstRight, o.Acked, o.Wrong, o.Never, o.Until.P50, o.Until.Max)
			if o.Failure != "" {
				failures = append(failures, fmt.Sprintf("%s, %s: first failure: %s\n", p.Name, name, o.Failure))
			}
		}
	}
	_ = t.Flush()
	b.WriteString(strings.Join(failures, ""))
}

// ops yields the creates and the deletes of a phase, those that there are.
func (p *PhaseReport) ops() func(yield func(string, *OpReport) bool) {
	return func(yield func(string, *OpReport) bool) {
		if p.Creates != nil && !yield("creates", p.Creates) {
			return
		}
		if p.Deletes != nil {
			yield("deletes", p.Deletes)
		}
	}
}

// csvColumns name the columns of the CSV form, one row a phase.
var csvColumns = []string{
	"phase", "seconds", "sent", "ok", "other", "timeouts", "errors",
	"p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "stall_ms", "late_p99_ms",
	"cpu_seconds", "cpu_percent", "rss_mib", "peak_mib",
	"creates_called", "creates_acked", "creates_api_p50_ms", "creates_api_p99_ms", "creates_api_max_ms",
	"creates_first_right", "creates_wrong", "creates_never", "creates_until_max_ms",
	"deletes_called", "deletes_acked", "deletes_api_p50_ms", "deletes_api_p99_ms", "deletes_api_max_ms",
	"deletes_first_right", "deletes_wrong", "deletes_never", "deletes_until_max_ms",
	"start_seconds",
}

func (r *Report) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvColumns) // Error below tells of all
	for i := range r.Phases {
		p := &r.Phases[i]
		l := p.Latency
		row := []string{p.Name}
		add := func(values ...float64) {
			for _, v := range values {
				row = append(row, strconv.FormatFloat(v, 'f', -1, 64))
			}
		}
		add(p.Seconds, float64(p.Sent), float64(p.OK), float64(p.Other), float64(p.Timeouts), float64(p.Errors),
			l.P50, l.P90, l.P99, l.P999, l.Max, p.StallMS, p.LateP99MS)
		if u := p.Usage; u != nil {
			add(u.CPUSeconds, u.CPUPercent, u.RSSMiB, u.PeakMiB)
		} else {
			row = append(row, "", "", "", "")
		}
		for _, o := range []*OpReport{p.Creates, p.Deletes} {
			if o == nil {
				o = &OpReport{}
			}
			add(float64(o.Called), float64(o.Acked), o.API.P50, o.API.P99, o.API.Max,
				float64(o.FirstRight), float64(o.Wrong), float64(o.Never), o.Until.Max)
		}
		_ = out.Write(append(row, ""))
	}
	if r.Start != nil {
		for i, s := range r.Start.Seconds {
			row := make([]string, len(csvColumns))
			row[0] = "start " + strconv.Itoa(i+1)
			row[len(row)-1] = strconv.FormatFloat(s, 'f', -1, 64)
			_ = out.Write(row)
		}
	}
	out.Flush()
	return out.Error()
}

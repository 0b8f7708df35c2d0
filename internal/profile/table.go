package profile

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// WriteTable prints an analysis with the counts of its capture for people.
func (a *Analysis) WriteTable(to io.Writer, c *Capture) error {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, f := range c.Findings() {
		fmt.Fprintf(&out, "%-24s %s\n", f.What, f.Seen)
	}
	for _, f := range c.Findings() {
		if !f.Good {
			fmt.Fprintf(&out, "! %s: %s\n", f.What, f.Advice)
		}
	}
	whole := c.Whole()
	if whole.Requests > 0 {
		fmt.Fprintf(&out, "%-24s %.1f µs of CPU, %.1f objects, %.2f upstream tries, %.2f functions of plugins\n", "per request",
			float64(whole.CPU.Nanoseconds())/1e3/float64(whole.Requests), each(whole.Mallocs, whole.Requests),
			each(whole.Tries, whole.Requests), c.Calls.all())
	}
	fmt.Fprintf(&out, "%-24s %s\n%-24s kernel %.1f %%, garbage collector %.1f %%, scheduler and network poller %.1f %%\n\n", a.Type+" in all", a.Show(a.Total),
		"of that, innermost", a.Percent(a.Kernel), a.Percent(a.Collector), a.Percent(a.Scheduler))
	a.plugins(w, c)
	a.list(w, "part", a.Parts)
	a.list(w, "route", a.Routes)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := to.Write(out.Bytes())
	return err
}

func (c *Calls) all() float64 {
	var n int64
	for _, f := range c.Functions {
		n += f.Count
	}
	return each(n, c.Requests)
}

func (a *Analysis) plugins(w io.Writer, c *Capture) {
	idle := c.Calls.idle(a.Plugins)
	if len(a.Plugins)+len(idle) == 0 {
		return
	}
	fmt.Fprintln(w, "total\tself\tcalls/request\t  plugin, by phase")
	for _, p := range a.Plugins {
		phases := ""
		for _, ph := range p.Phases {
			phases += fmt.Sprintf(" %s %.1f%%", ph.Name, a.Percent(ph.Total))
		}
		fmt.Fprintf(w, "%.1f%%\t%.1f%%\t%.2f\t  %s:%s\n", a.Percent(p.Total), a.Percent(p.Self), c.Calls.PerRequest(p.Name), plain(p.Name), phases)
	}
	for _, name := range idle {
		fmt.Fprintf(w, "0.0%%\t0.0%%\t%.2f\t  %s\n", c.Calls.PerRequest(name), plain(name))
	}
	fmt.Fprintln(w)
}

// idle are the plugins that ran and of which no sample was taken.
func (c *Calls) idle(sampled []PluginShare) (names []string) {
	for _, f := range c.Functions {
		known := slices.Contains(names, f.Plugin) || slices.ContainsFunc(sampled, func(p PluginShare) bool { return p.Name == f.Plugin })
		if !known {
			names = append(names, f.Plugin)
		}
	}
	return names
}

// shown is how many lines a list has at most.
const shown = 20

func (a *Analysis) list(w io.Writer, title string, list []Share) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "total\tself\t\t  %s\n", title)
	for i, s := range list {
		if i == shown {
			fmt.Fprintf(w, "\t\t\t  and %d more\n", len(list)-shown)
			break
		}
		fmt.Fprintf(w, "%.1f%%\t%.1f%%\t\t  %s\n", a.Percent(s.Total), a.Percent(s.Self), plain(s.Name))
	}
	fmt.Fprintln(w)
}

package profile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Diagnosis is what was found about a gateway that is slow, in the order in which
// it is to be looked for.
type Diagnosis struct {
	Gateway  string        `json:"gateway"`
	At       time.Time     `json:"at"`
	Length   time.Duration `json:"length_ns"`
	Steps    []Step        `json:"steps"`
	RuledOut []string      `json:"ruled_out"`
	Measured []string      `json:"measured"`

	// Suspect is the plugin that has most of the CPU; empty: no plugin has any.
	Suspect string `json:"suspect,omitempty"`

	analysis *Analysis
	capture  *Capture
}

// A Step is one of them, with its evidence.
type Step struct {
	Title    string   `json:"title"`
	Verdict  string   `json:"verdict"`
	Evidence []string `json:"evidence"`
}

// Diagnose draws the conclusions that a capture and its analysis allow. The last
// step, a paired run, is Pair's or Unpaired's.
func Diagnose(gateway string, at time.Time, c *Capture, a *Analysis) *Diagnosis {
	d := &Diagnosis{Gateway: gateway, At: at, Length: c.Whole().Length, analysis: a, capture: c, RuledOut: []string{}, Measured: []string{}}
	d.bound()
	d.widths()
	d.multiplied()
	d.counted()
	return d
}

func (d *Diagnosis) add(title, verdict string, evidence []string) {
	d.Steps = append(d.Steps, Step{title, verdict, evidence})
}

func (d *Diagnosis) bound() {
	var seen, bad []string
	loaded := d.capture.Whole().Requests > 0 // otherwise nothing is known of requests
	for _, f := range d.capture.Findings() {
		seen = append(seen, f.What+": "+f.Seen)
		switch {
		case !f.Good:
			bad = append(bad, f.What+": "+f.Advice)
		case loaded:
			d.RuledOut = append(d.RuledOut, "as the cause, "+f.What+": "+f.Seen)
		}
	}
	verdict := "Yes: the gateway's cores are near saturation while its load, its upstreams and its answers are steady."
	if len(bad) > 0 {
		verdict = "Not as it is: " + strings.Join(bad, "; ") + "."
	}
	d.add("Is the process short of CPU, so that a profile can explain it?", verdict, seen)
}

// few is how many lines of evidence a list gives.
const few = 10

func (d *Diagnosis) widths() {
	a := d.analysis
	var seen []string
	for _, s := range firsts(a.Parts) {
		seen = append(seen, fmt.Sprintf("%.1f %% %s", a.Percent(s.Total), s.Name))
	}
	seen = append(seen, fmt.Sprintf("innermost frames: %.1f %% kernel, %.1f %% garbage collector, %.1f %% scheduler and network poller",
		a.Percent(a.Kernel), a.Percent(a.Collector), a.Percent(a.Scheduler)))
	for _, s := range firsts(a.Routes) {
		seen = append(seen, fmt.Sprintf("%.1f %% route %s", a.Percent(s.Total), s.Name))
	}
	verdict := "No samples: nothing ran."
	if len(a.Parts) > 0 {
		verdict = fmt.Sprintf("The widest part outside plugins is %s with %.1f %%; plugins have %.1f %%.",
			a.Parts[0].Name, a.Percent(a.Parts[0].Total), a.Percent(d.ofPlugins()))
	}
	if share := a.Percent(a.Collector); share < 5 {
		d.RuledOut = append(d.RuledOut, fmt.Sprintf("the garbage collector: %.1f %%", share))
	}
	d.add("What is wide?", verdict, seen)
}

func firsts[T any](list []T) []T { return list[:min(len(list), few)] }

func (d *Diagnosis) ofPlugins() (sum int64) {
	for _, p := range d.analysis.Plugins {
		sum += p.Total
	}
	return sum
}

func (d *Diagnosis) multiplied() {
	a := d.analysis
	var seen []string
	for _, p := range firsts(a.Plugins) {
		line := fmt.Sprintf("%.1f %% plugin %s, in %d phases:", a.Percent(p.Total), p.Name, len(p.Phases))
		for _, ph := range p.Phases {
			line += fmt.Sprintf(" %s %.1f %%", ph.Name, a.Percent(ph.Total))
		}
		seen = append(seen, line)
	}
	own := slices.DeleteFunc(a.Spreads(), func(s Spread) bool {
		return !strings.HasPrefix(s.Name, "weir/") // what everybody calls, such as a system call, says nothing
	})
	for _, s := range firsts(own) {
		seen = append(seen, fmt.Sprintf("%.1f %% %s in %d frames, the widest of them %.1f %%", a.Percent(s.Total), s.Name, s.Places, a.Percent(s.Widest)))
	}
	verdict := "No plugin has a share."
	if len(a.Plugins) > 0 {
		p := a.Plugins[0]
		d.Suspect = p.Name
		verdict = fmt.Sprintf("Merged over the phases, the plugin %s has most: %.1f %%.", p.Name, a.Percent(p.Total))
	}
	d.add("What small cost is multiplied?", verdict, seen)
}

func (d *Diagnosis) counted() {
	const title = "How often does each function run for a request?"
	c := &d.capture.Calls
	w := d.capture.Whole()
	if w.Requests == 0 {
		d.add(title, "No request came: nothing was counted.", nil)
		return
	}
	var seen []string
	for _, f := range firsts(c.Functions) {
		seen = append(seen, fmt.Sprintf("%.2f %s %s of %s", each(f.Count, c.Requests), f.Plugin, f.Phase, f.From))
	}
	seen = append(seen, fmt.Sprintf("%.2f upstream tries, %.1f objects allocated, %.1f µs of CPU",
		each(w.Tries, w.Requests), each(w.Mallocs, w.Requests), float64(w.CPU.Nanoseconds())/1e3/float64(w.Requests)))
	verdict := fmt.Sprintf("A request runs %.2f functions of plugins.", c.all())
	d.Measured = append(d.Measured, verdict+" "+seen[len(seen)-1]+" per request.")
	if tries := each(w.Tries, w.Requests); tries <= 1.01 {
		d.RuledOut = append(d.RuledOut, fmt.Sprintf("retries: %.2f upstream tries per request", tries))
	}
	d.add(title, verdict, seen)
}

// Pair ends the diagnosis with the result of a paired run of the suspect.
func (d *Diagnosis) Pair(command, result string) {
	d.Measured = append(d.Measured, "A paired run of "+d.Suspect+" against its absence: see the last step.")
	d.add("What does a paired run say?", "Measured on this machine, without the gateway's own traffic.",
		append([]string{command}, strings.Split(strings.TrimSpace(result), "\n")...))
}

// Unpaired ends the diagnosis without one, and says how and why.
func (d *Diagnosis) Unpaired(command, why string) {
	verdict := why
	var seen []string
	if command != "" {
		seen = []string{command}
	}
	d.add("What does a paired run say?", verdict, seen)
}

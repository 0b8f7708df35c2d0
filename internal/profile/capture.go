package profile

import (
	"fmt"
	"time"
)

// A Capture is a profile of a running gateway with what it did in the meantime, as
// the Control API sends it.
type Capture struct {
	Type    string   `json:"type"` // cpu, alloc, mutex, block
	Version string   `json:"version"`
	Cores   int      `json:"cores"` // that the process may use
	Windows []Window `json:"windows"`
	Calls   Calls    `json:"calls"`
	Profile []byte   `json:"profile"` // pprof's format
}

// A Window is one of the equal pieces of the time.
type Window struct {
	Length   time.Duration `json:"length_ns"`
	CPU      time.Duration `json:"cpu_ns"` // of the process, user and system
	Requests int64         `json:"requests"`
	Errors   int64         `json:"errors"`      // answers with a status from 500 on
	Upstream time.Duration `json:"upstream_ns"` // waiting for upstreams, over all tries
	Tries    int64         `json:"tries"`
	Spent    time.Duration `json:"spent_ns"` // of requests, from head to end
	Mallocs  int64         `json:"mallocs"`  // objects allocated by the process
}

// Calls are counts over the time: of each connection exact for its first 64 requests,
// then one request of 16 stands for all.
type Calls struct {
	Requests  int64      `json:"requests"`
	Tries     int64      `json:"upstream_tries"`
	Functions []Function `json:"functions"`
}

// A Function is one of a plan's, and how often it ran.
type Function struct {
	Phase  string `json:"phase"`
	Plugin string `json:"plugin"`
	From   string `json:"from"`
	Count  int64  `json:"count"`
}

// Whole is the sum of the windows.
func (c *Capture) Whole() (w Window) {
	for _, x := range c.Windows {
		w.Length += x.Length
		w.CPU += x.CPU
		w.Requests += x.Requests
		w.Errors += x.Errors
		w.Upstream += x.Upstream
		w.Tries += x.Tries
		w.Spent += x.Spent
		w.Mallocs += x.Mallocs
	}
	return w
}

// Busy is how much of the process's cores was used, between 0 and 1.
func (c *Capture) Busy() float64 {
	w := c.Whole()
	if w.Length <= 0 || c.Cores <= 0 {
		return 0
	}
	return float64(w.CPU) / float64(w.Length) / float64(c.Cores)
}

// PerRequest is how often the functions of a plugin ran for a request, over all
// phases.
func (c *Calls) PerRequest(plugin string) float64 {
	var n int64
	for _, f := range c.Functions {
		if f.Plugin == plugin {
			n += f.Count
		}
	}
	return each(n, c.Requests)
}

func each[N ~int64](n N, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// A Finding is one thing that was looked at.
type Finding struct {
	What   string `json:"what"`
	Seen   string `json:"seen"`
	Good   bool   `json:"good"`   // for reading the profile
	Advice string `json:"advice"` // where it is not
}

// The bounds of what a profile of CPU can explain.
const (
	busyEnough   = 0.7  // of the cores; below, time is lost elsewhere
	steadyRate   = 0.3  // largest deviation of a window's requests from the mean
	steadyErrors = 0.01 // largest share of errors
)

// Findings say whether a profile of CPU may explain why the gateway is slow: it may
// if the gateway's cores are near saturation while its load, its upstreams and its
// answers are steady.
func (c *Capture) Findings() []Finding {
	w := c.Whole()
	return []Finding{c.load(w), c.saturation(), c.upstreams(w), c.errors(w), c.steadiness(w)}
}

func (c *Capture) load(w Window) Finding {
	return Finding{
		What: "requests", Good: w.Requests > 0,
		Seen:   fmt.Sprintf("%d, %.0f per second", w.Requests, float64(w.Requests)/max(w.Length.Seconds(), 1e-9)),
		Advice: "there was no load: a profile shows what runs, and nothing ran",
	}
}

func (c *Capture) saturation() Finding {
	return Finding{
		What: "use of the cores", Good: c.Busy() >= busyEnough,
		Seen: fmt.Sprintf("%.0f %% of %d", 100*c.Busy(), c.Cores),
		Advice: "the gateway is not short of CPU: if it is slow, look at its upstreams, at the network and at locks " +
			"(--type block, --type mutex) first; the widths below are shares of the little that is used",
	}
}

func (c *Capture) upstreams(w Window) Finding {
	wait := time.Duration(each(w.Upstream, w.Tries))
	share := 0.0
	if w.Spent > 0 {
		share = float64(w.Upstream) / float64(w.Spent)
	}
	worst := 0.0
	for _, x := range c.Windows {
		if x.Tries > 0 && wait > 0 {
			worst = max(worst, each(x.Upstream, x.Tries)/float64(wait))
		}
	}
	// Where cores are near saturation answers wait for them, and are counted as if
	// their upstreams were slow.
	slow := share >= 0.9 && c.Busy() < busyEnough
	return Finding{
		What: "wait for upstreams", Good: !slow && worst < 2,
		Seen: fmt.Sprintf("%s per try, %.0f %% of the time of requests, in the worst window %.1f times the mean",
			wait.Round(time.Microsecond), 100*share, worst),
		Advice: "most of the time of requests, or a growing part of it, is their upstreams': a profile of the gateway does not show that",
	}
}

func (c *Capture) errors(w Window) Finding {
	share := each(w.Errors, w.Requests)
	return Finding{
		What: "answers from 500 on", Good: share <= steadyErrors,
		Seen:   fmt.Sprintf("%.2f %%", 100*share),
		Advice: "failing requests take other ways through the gateway than those that are to be explained: mend them first",
	}
}

func (c *Capture) steadiness(w Window) Finding {
	mean, worst := each(w.Requests, int64(len(c.Windows))), 0.0
	for _, x := range c.Windows {
		if mean > 0 {
			worst = max(worst, abs(float64(x.Requests)/mean-1))
		}
	}
	return Finding{
		What: "steadiness of the load", Good: worst <= steadyRate,
		Seen:   fmt.Sprintf("windows differ from their mean by up to %.0f %%", 100*worst),
		Advice: "the load changes while it is measured: shares are those of a mixture",
	}
}

func abs(f float64) float64 { return max(f, -f) }

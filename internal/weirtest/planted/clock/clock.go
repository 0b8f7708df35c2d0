// Package clock has two plugins that time what the plugin of package planted takes.
// They are for `make bench-planted`; no released binary has them.
package clock

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"

	"weir/internal/plugin"
)

// Before and After run directly before and after the planted plugin in each of its
// phases. In one of many requests they take the time between them: what that plugin
// takes where it is, its calls and its cold caches included, and without it what the
// clocks themselves take.
var (
	Before = plugin.Define(plugin.Meta{Name: "planted-before", Priority: 401, Doc: "Start the clock."}, start)
	After  = plugin.Define(plugin.Meta{Name: "planted-after", Priority: 399, Doc: "Stop the clock."}, stop)
)

// every is how many requests there are for one that is timed. A power of two: to ask
// must cost nothing beside what is timed.
const every = 64

func timed(r *plugin.Ctx) bool { return r.Start.Nanosecond()%every == 0 }

// A stamp is when a request came to Before.
type stamp struct{ at time.Time }

// StartConfig has nothing.
type StartConfig struct{}

func start(*StartConfig, plugin.Env) (plugin.Phases, error) {
	response := func(r *plugin.Ctx) {
		if !timed(r) {
			return
		}
		s, ok := r.State(stampKey{}).(*stamp)
		if !ok {
			s = new(stamp)
			r.SetState(stampKey{}, s)
		}
		time.Now() // brings the clock into the caches
		s.at = time.Now()
	}
	request := func(r *plugin.Ctx) *plugin.Reply {
		response(r)
		return nil
	}
	return plugin.Phases{Rewrite: request, Access: request, Header: response, Log: response}, nil
}

type stampKey struct{}

// StopConfig says where to.
type StopConfig struct {
	Report string `json:"report" doc:"File that a line with what was timed is added to when the plugin is closed."`
}

func stop(c *StopConfig, env plugin.Env) (plugin.Phases, error) {
	a := new(account)
	response := func(r *plugin.Ctx) {
		if !timed(r) {
			return
		}
		now := time.Now()
		if s, ok := r.State(stampKey{}).(*stamp); ok {
			a.add(now.Sub(s.at))
		}
	}
	request := func(r *plugin.Ctx) *plugin.Reply {
		response(r)
		return nil
	}
	end := func() {
		if err := a.write(c.Report); err != nil {
			env.Log.Error("planted-after", "err", err)
		}
	}
	return plugin.Phases{Rewrite: request, Access: request, Header: response, Log: response, Close: end}, nil
}

// An account is what was timed.
type account struct {
	mu   sync.Mutex
	took []time.Duration
}

// most bounds the memory.
const most = 1 << 18

func (a *account) add(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.took) < most {
		a.took = append(a.took, d)
	}
}

// A Report is the time between the clocks.
type Report struct {
	Timed  int     `json:"timed"`
	MeanNS float64 `json:"mean_ns"` // of a phase, without the slowest hundredth: those were interrupted
	AllNS  float64 `json:"all_ns"`  // of all
}

func (a *account) report() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := Report{Timed: len(a.took)}
	if r.Timed == 0 {
		return r
	}
	sorted := slices.Sorted(slices.Values(a.took))
	r.MeanNS, r.AllNS = mean(sorted[:r.Timed-r.Timed/100]), mean(sorted)
	return r
}

func mean(list []time.Duration) float64 {
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	return float64(sum) / float64(len(list))
}

// write adds the report to a file, as one line.
func (a *account) write(path string) error {
	line, err := json.Marshal(a.report())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

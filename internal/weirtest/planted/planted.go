// Package planted has a plugin that is slow on purpose: it wastes CPU a little in
// each of four phases, as what makes a gateway slow often does, and knows how much.
// It is for tests and for `make bench-planted`; no released binary has it.
package planted

import (
	"hash/maphash"
	"time"

	"weir/internal/plugin"
)

// Config is how much is wasted.
type Config struct {
	Rounds int    `json:"rounds" doc:"Of hashing, in each phase."`
	Report string `json:"report,omitempty" doc:"File that a line with what was wasted is added to when the plugin is closed."`
}

// Plugin wastes time.
var Plugin = plugin.Define(plugin.Meta{Name: "planted", Priority: 400, Doc: "Waste time."}, compile)

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	w := &waste{rounds: c.Rounds, seed: maphash.MakeSeed()}
	request := func(r *plugin.Ctx) *plugin.Reply {
		w.run(r)
		return nil
	}
	response := w.run
	p := plugin.Phases{Rewrite: request, Access: request, Header: response, Log: response}
	if c.Report != "" {
		p.Close = func() {
			if err := w.account.write(c.Report); err != nil {
				env.Log.Error("planted", "err", err)
			}
		}
	}
	return p, nil
}

type waste struct {
	rounds  int
	seed    maphash.Seed
	account account
}

// text is what is hashed in a round.
const text = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// every is how many requests there are for one whose calls are timed. A power of
// two: asking must cost nothing beside what is wasted.
const every = 64

// run burns, and now and then sees how long that takes.
func (w *waste) run(r *plugin.Ctx) {
	if r.Start.Nanosecond()%every != 0 {
		w.burn()
		return
	}
	time.Now() // brings the clock into the caches
	before := time.Now()
	start := time.Now()
	w.burn()
	end := time.Now()
	w.account.add(end.Sub(start) - start.Sub(before)) // less what asking the clock takes
}

// burn returns what it computes, so that it is computed.
func (w *waste) burn() (sum uint64) {
	for range w.rounds {
		sum ^= maphash.String(w.seed, text)
	}
	return sum
}

// Rounds is how many rounds take as long as d.
func Rounds(d time.Duration) int {
	w := &waste{rounds: 1000, seed: maphash.MakeSeed()}
	best := time.Hour
	for range 50 {
		start := time.Now()
		w.burn()
		best = min(best, time.Since(start))
	}
	return max(1, int(float64(d)/float64(best)*float64(w.rounds)))
}

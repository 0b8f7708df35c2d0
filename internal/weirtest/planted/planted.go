// Package planted has a plugin that is slow on purpose: it wastes CPU a little in
// each of four phases, as what makes a gateway slow often does. It is for tests and
// for `make bench-planted`; no released binary has it.
package planted

import (
	"hash/maphash"
	"time"

	"weir/internal/plugin"
)

// Config is how much is wasted.
type Config struct {
	Rounds int `json:"rounds" doc:"Of hashing, in each phase."`
}

// Plugin wastes time.
var Plugin = plugin.Define(plugin.Meta{Name: "planted", Priority: 400, Doc: "Waste time."}, compile)

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	w := &waste{rounds: c.Rounds, seed: maphash.MakeSeed()}
	request := func(*plugin.Ctx) *plugin.Reply {
		w.burn()
		return nil
	}
	response := func(*plugin.Ctx) { w.burn() }
	return plugin.Phases{Rewrite: request, Access: request, Header: response, Log: response}, nil
}

type waste struct {
	rounds int
	seed   maphash.Seed
}

// text is what is hashed in a round.
const text = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

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

package planted

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"
)

// An account says what the calls of one configuration have wasted: some are timed
// where they happen.
type account struct {
	mu    sync.Mutex
	timed []time.Duration
}

// mostTimed bounds the memory.
const mostTimed = 1 << 17

func (a *account) add(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.timed) < mostTimed {
		a.timed = append(a.timed, d)
	}
}

// A Report is what was wasted.
type Report struct {
	Timed    int     `json:"timed"`
	MeanNS   float64 `json:"mean_ns"` // of a call, without the slowest hundredth: those were interrupted
	MedianNS float64 `json:"median_ns"`
}

func (a *account) report() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := Report{Timed: len(a.timed)}
	if r.Timed == 0 {
		return r
	}
	sorted := slices.Sorted(slices.Values(a.timed))
	r.MedianNS = float64(sorted[r.Timed/2])
	kept := sorted[:r.Timed-r.Timed/100]
	var sum time.Duration
	for _, d := range kept {
		sum += d
	}
	r.MeanNS = float64(sum) / float64(len(kept))
	return r
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

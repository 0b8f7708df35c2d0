// Package weirtest counts exactly what one request makes a gateway do: which
// functions of plugins run, and how often the process writes and reads. It is
// for tests.
package weirtest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/internal/plan"
	"weir/internal/plugin"
)

// A Trace records the functions of plans that run, in their order.
type Trace struct {
	mu      sync.Mutex
	watched map[*plan.Plan]bool
	ran     []string
}

// Watch puts the trace into the functions of plans; nil plans have none. It must
// be called before a request runs them. A plan that is shared is watched once.
func (t *Trace) Watch(plans ...*plan.Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range plans {
		if p == nil || t.watched[p] {
			continue
		}
		if t.watched == nil {
			t.watched = map[*plan.Plan]bool{}
		}
		t.watched[p] = true
		t.watch(p)
	}
}

func (t *Trace) watch(p *plan.Plan) {
	request := func(phase string, steps []plan.RequestStep) {
		for i := range steps {
			s, run := steps[i].Step, steps[i].Run
			steps[i].Run = func(c *plugin.Ctx) *plugin.Reply {
				t.note(s, phase)
				return run(c)
			}
		}
	}
	response := func(phase string, steps []plan.ResponseStep) {
		for i := range steps {
			s, run := steps[i].Step, steps[i].Run
			steps[i].Run = func(c *plugin.Ctx) {
				t.note(s, phase)
				run(c)
			}
		}
	}
	body := func(phase string, steps []plan.BodyStep) {
		for i := range steps {
			s, open := steps[i].Step, steps[i].Open
			steps[i].Open = func(c *plugin.Ctx) plugin.BodyFilter {
				t.note(s, phase)
				return open(c)
			}
		}
	}
	request("rewrite", p.Rewrite)
	request("access", p.Access)
	request("content", p.Content)
	request("before_proxy", p.BeforeProxy)
	response("header", p.Header)
	body("body", p.Body)
	body("encode", p.Encode)
	response("log", p.Log)
}

func (t *Trace) note(s *plan.Step, phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran = append(t.ran, s.Plugin+" "+phase+" "+s.Owner)
}

// Take returns what ran since the last Take, each as "plugin phase owner". The
// Log phase runs after the answer has gone out: who has read an answer may have
// to wait for it.
func (t *Trace) Take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ran := slices.Clone(t.ran)
	t.ran = t.ran[:0]
	return ran
}

// IO counts system calls of this process that read or write, those that found
// nothing to read included.
type IO struct{ Reads, Writes int }

// ReadIO reads /proc/self/io (proc(5): syscr, syscw), which costs some reads of
// its own. Only Linux has it.
func ReadIO() (io IO, err error) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return io, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "syscr":
			io.Reads, err = strconv.Atoi(value)
		case "syscw":
			io.Writes, err = strconv.Atoi(value)
		}
		if err != nil {
			return io, fmt.Errorf("/proc/self/io: %w", err)
		}
	}
	return io, nil
}

// FewestIO runs f in batches and returns the smallest counts that a batch had,
// by f: what is left when nothing else of the process happened to run meanwhile.
func FewestIO(batches, size int, f func()) (reads, writes float64, err error) {
	least := IO{Reads: 1 << 62, Writes: 1 << 62}
	for range batches {
		before, err := ReadIO()
		if err != nil {
			return 0, 0, err
		}
		for range size {
			f()
		}
		after, err := ReadIO()
		if err != nil {
			return 0, 0, err
		}
		least.Reads = min(least.Reads, after.Reads-before.Reads)
		least.Writes = min(least.Writes, after.Writes-before.Writes)
	}
	return float64(least.Reads) / float64(size), float64(least.Writes) / float64(size), nil
}

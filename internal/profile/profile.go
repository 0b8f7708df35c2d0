// Package profile reads profiles of a gateway: it attributes samples to routes,
// plugins and phases, tells what belongs to the runtime and the kernel, and prints
// the result as a table and as a flame graph.
package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// A Share is what a part of the whole has of it.
type Share struct {
	Name  string `json:"name"`
	Total int64  `json:"total"` // with what it calls
	Self  int64  `json:"self"`  // in its own code
}

// A PluginShare is a plugin's, with that of each phase.
type PluginShare struct {
	Share
	Phases []Share `json:"phases"`
}

// An Analysis is a profile, taken apart. Values are in Unit.
type Analysis struct {
	Type    string        `json:"type"` // cpu, alloc, mutex, block
	Unit    string        `json:"unit"`
	Total   int64         `json:"total"`
	Plugins []PluginShare `json:"plugins"`
	Routes  []Share       `json:"routes"`
	// Parts are the rest: what belongs to no plugin, by part of the gateway.
	Parts []Share `json:"parts"`
	// Kernel and Runtime are shares of Total by the innermost frame, plugins' work
	// included.
	Kernel, Collector, Scheduler int64

	root *node
}

// Names are the names of plugins by the import paths of the packages that they are
// written in.
type Names map[string]string

// packageOf is the import path of a function's package.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	if dot := strings.IndexByte(function[slash:], '.'); dot >= 0 {
		return function[:slash+dot]
	}
	return function
}

// Read takes a profile in pprof's format apart. kind is cpu, alloc, mutex or block.
func Read(r io.Reader, kind string, names Names) (*Analysis, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	at, ok := valueOf(p, kind)
	if !ok {
		return nil, fmt.Errorf("the profile has no values of type %s", kind)
	}
	a := &analyst{names: names, plugins: map[string]*counted{}, routes: map[string]int64{}, parts: map[string]*counted{}, root: new(node)}
	a.Type, a.Unit = kind, p.SampleType[at].Unit
	for _, s := range p.Sample {
		if v := s.Value[at]; v > 0 {
			a.add(s, v)
		}
	}
	return a.result(), nil
}

// valueOf is the index of a profile's values that are looked at.
func valueOf(p *profile.Profile, kind string) (int, bool) {
	want := map[string]string{"cpu": "cpu", "alloc": "alloc_space", "mutex": "delay", "block": "delay"}[kind]
	i := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == want })
	return i, i >= 0
}

// Show prints a value with its unit.
func (a *Analysis) Show(v int64) string {
	switch a.Unit {
	case "nanoseconds":
		return time.Duration(v).Round(time.Millisecond).String()
	case "bytes":
		return fmt.Sprintf("%.1f MiB", float64(v)/(1<<20))
	}
	return fmt.Sprint(v)
}

// Percent is a value's part of the whole.
func (a *Analysis) Percent(v int64) float64 {
	if a.Total == 0 {
		return 0
	}
	return 100 * float64(v) / float64(a.Total)
}

func largest[S any](list []S, share func(S) Share) []S {
	slices.SortFunc(list, func(a, b S) int {
		x, y := share(a), share(b)
		return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Name, y.Name))
	})
	return list
}

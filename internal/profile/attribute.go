package profile

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// An analyst collects the samples of one profile.
type analyst struct {
	Analysis
	names   Names
	plugins map[string]*counted
	routes  map[string]int64
	parts   map[string]*counted
	root    *node
}

type counted struct {
	total, self int64
	phases      map[string]*counted
}

func (c *counted) add(v int64, own bool) {
	c.total += v
	if own {
		c.self += v
	}
}

func of(m map[string]*counted, name string) *counted {
	c := m[name]
	if c == nil {
		c = &counted{phases: map[string]*counted{}}
		m[name] = c
	}
	return c
}

// frames are the functions of a sample, outermost first.
func frames(s *profile.Sample) []string {
	var list []string
	for _, l := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(l.Line) {
			if line.Function != nil {
				list = append(list, line.Function.Name)
			}
		}
	}
	return list
}

func (a *analyst) add(s *profile.Sample, v int64) {
	stack := frames(s)
	if len(stack) == 0 {
		return
	}
	a.Total += v
	leaf := stack[len(stack)-1]
	a.innermost(stack, v)
	route := "(none)"
	if r := s.Label["route"]; len(r) > 0 && r[0] != "" {
		route = r[0]
	}
	a.routes[route] += v
	name, phase, at := a.names.pluginIn(stack)
	if name != "" {
		own := packageOf(leaf) == packageOf(stack[at])
		c := of(a.plugins, name)
		c.add(v, own)
		of(c.phases, phase).add(v, own)
	} else {
		part := partOf(stack)
		of(a.parts, part).add(v, inPart(leaf, part))
	}
	a.root.add(stack, v, name, at)
}

// pluginIn finds the outermost frame of a plugin and the phase that runs it; at is
// that frame's place.
func (n Names) pluginIn(stack []string) (name, phase string, at int) {
	for i, f := range stack {
		if p, ok := phases[f]; ok && phase == "" {
			phase = p
		}
		if name, ok := n[packageOf(f)]; ok {
			if phase == "" {
				phase = "background"
			}
			return name, phase, i
		}
	}
	return "", "", -1
}

// phases are the functions from which the phases run; it is immutable. A consumer's Rewrite runs
// from Access.
var phases = map[string]string{
	"weir/internal/plan.(*Run).Rewrite":             "rewrite",
	"weir/internal/plan.(*Run).Access":              "access",
	"weir/internal/plan.(*Run).Content":             "content",
	"weir/internal/plan.(*Run).Before":              "before_proxy",
	"weir/internal/plan.(*Run).Header":              "header",
	"weir/internal/plan.(*Run).OpenBody":            "body",
	"weir/internal/plan.(*Run).OpenEncode":          "body",
	"weir/internal/plan.(*Run).Log":                 "log",
	"weir/internal/engine.(*exchange).filter":       "body",
	"weir/internal/snapshot.(*Applier).apply":       "configuration",
	"weir/internal/snapshot.(*retiring).run":        "configuration",
	"weir/internal/engine.(*exchange).closeFilters": "body",
}

// parts are the parts of the gateway by the beginning of functions' names; the
// first that an inner frame has is the sample's.
var parts = []struct{ prefix, name string }{
	{"weir/internal/router", "router"},
	{"weir/internal/expr", "expressions"},
	{"weir/internal/accesslog", "access log"},
	{"weir/internal/logentry", "bodies for loggers"},
	{"weir/internal/health", "health checks"},
	{"weir/internal/discovery", "discovery"},
	{"weir/internal/threescale", "3scale"},
	{"weir/internal/snapshot", "configuration"},
	{"weir/internal/dialect", "configuration"},
	{"weir/internal/source", "configuration"},
	{"weir/internal/admin", "Admin API"},
	{"go.etcd.io", "store"},
	{"weir/internal/upstream", "upstream"},
	{"weir/internal/wire", "HTTP/1.1 codec"},
	{"weir/internal/plan", "dispatch of plugins"},
	{"golang.org/x/net/http2", "HTTP/2"},
	{"github.com/quic-go", "HTTP/3"},
	{"crypto/", "TLS"},
	{"weir/internal/engine", "engine"},
}

const (
	partRuntime = "runtime"
	partOther   = "other"
)

func partOf(stack []string) string {
	for _, f := range slices.Backward(stack) {
		for _, p := range parts {
			if strings.HasPrefix(f, p.prefix) {
				return p.name
			}
		}
	}
	if strings.HasPrefix(stack[0], "runtime.") {
		return partRuntime
	}
	return partOther
}

func inPart(leaf, part string) bool {
	if part == partRuntime {
		return strings.HasPrefix(leaf, "runtime.")
	}
	for _, p := range parts {
		if p.name == part && strings.HasPrefix(leaf, p.prefix) {
			return true
		}
	}
	return false
}

// innermost counts a sample for the kernel, the garbage collector or the scheduler.
func (a *analyst) innermost(stack []string, v int64) {
	leaf := stack[len(stack)-1]
	switch {
	case isKernel(leaf):
		a.Kernel += v
	case slices.ContainsFunc(stack, isCollector):
		a.Collector += v
	case slices.ContainsFunc(stack, isScheduler):
		a.Scheduler += v
	}
}

// isKernel says that a function's time is that of a system call.
func isKernel(f string) bool {
	switch f {
	case "internal/runtime/syscall/linux.Syscall6", "internal/runtime/syscall.Syscall6", "syscall.RawSyscall6", "runtime.futex", "runtime.usleep",
		"internal/runtime/syscall/linux.EpollWait", "internal/runtime/syscall.EpollWait", "runtime.madvise", "runtime.write1", "runtime.read":
		return true
	}
	return false
}

func isCollector(f string) bool {
	return strings.HasPrefix(f, "runtime.gc") || strings.HasPrefix(f, "runtime.bgsweep") || strings.HasPrefix(f, "runtime.bgscavenge")
}

func isScheduler(f string) bool {
	switch f {
	case "runtime.schedule", "runtime.findRunnable", "runtime.mcall", "runtime.park_m", "runtime.goschedImpl", "runtime.ready", "runtime.wakep", "runtime.sysmon", "runtime.netpoll":
		return true
	}
	return false
}

func (a *analyst) result() *Analysis {
	out := a.Analysis
	for name, c := range a.plugins {
		out.Plugins = append(out.Plugins, PluginShare{Share{name, c.total, c.self}, shares(c.phases)})
	}
	for name, v := range a.routes {
		out.Routes = append(out.Routes, Share{name, v, 0})
	}
	out.Plugins = largest(out.Plugins, func(p PluginShare) Share { return p.Share })
	out.Routes = largest(out.Routes, func(s Share) Share { return s })
	out.Parts = shares(a.parts)
	out.root = a.root
	return &out
}

func shares(m map[string]*counted) (list []Share) {
	for name, c := range m {
		list = append(list, Share{name, c.total, c.self})
	}
	return largest(list, func(s Share) Share { return s })
}

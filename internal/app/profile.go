package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	pprofile "github.com/google/pprof/profile"

	"weir/internal/document"
	"weir/internal/engine"
	"weir/internal/plugin"
	"weir/internal/plugins"
	"weir/internal/policies"
	"weir/internal/profile"
	"weir/internal/snapshot"
)

// longestProfile bounds a profile, and the wait for a request.
const longestProfile = 5 * time.Minute

// windows are the pieces that the time of a profile is cut into.
const windows = 5

// measureCalls answers GET /v1/calls: exact counts of what requests do, the mean
// over some seconds, or with header or uri of the next request that has them.
//
//	seconds   how long, or how long to wait for the one request; 5
//	header    "Name: value"
//	uri       a path, or the beginning of one and "*"
//	product   true: requests to 3scale products, where there are routes, too
func (g *Gateway) measureCalls(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	length, err := lengthOf(v, 5*time.Second)
	if err != nil {
		refuseExplain(w, http.StatusBadRequest, err)
		return
	}
	e, err := g.engineFor(v.Get("product") == "true")
	if err != nil {
		refuseExplain(w, http.StatusServiceUnavailable, err)
		return
	}
	only, err := onlyOf(v)
	if err != nil {
		refuseExplain(w, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), length)
	defer cancel()
	before := mallocs()
	calls, err := watchCalls(ctx, e, only)
	switch {
	case errors.Is(err, engine.ErrWatched):
		refuseExplain(w, http.StatusConflict, err)
	case errors.Is(context.Cause(r.Context()), errStopping):
		refuseExplain(w, http.StatusServiceUnavailable, errStopping)
	case err != nil:
		refuseExplain(w, http.StatusNotFound, errors.New("no such request came"))
	default:
		writeJSON(w, http.StatusOK, counted{calls, mallocs() - before})
	}
}

// watchCalls counts all requests until ctx ends, or the one that only is for.
func watchCalls(ctx context.Context, e *engine.Engine, only func(*plugin.Ctx) bool) (*engine.Calls, error) {
	if only != nil {
		return e.WatchOne(ctx, only)
	}
	watch, err := e.Watch(false)
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	<-ctx.Done()
	return watch.Calls(), nil
}

// counted are the counts, and the objects that the whole process has allocated in
// the meantime.
type counted struct {
	*engine.Calls
	Mallocs int64 `json:"process_mallocs"`
}

func lengthOf(v url.Values, otherwise time.Duration) (time.Duration, error) {
	text := v.Get("seconds")
	if text == "" {
		return otherwise, nil
	}
	s, err := strconv.ParseFloat(text, 64)
	length := time.Duration(s * float64(time.Second))
	if err != nil || length < 100*time.Millisecond || length > longestProfile {
		return 0, fmt.Errorf("seconds has to be between 0.1 and %.0f", longestProfile.Seconds())
	}
	return length, nil
}

// onlyOf is which request is meant; nil: all.
func onlyOf(v url.Values) (func(*plugin.Ctx) bool, error) {
	header, uri := v.Get("header"), v.Get("uri")
	if header == "" && uri == "" {
		return nil, nil
	}
	name, value, ok := strings.Cut(header, ":")
	if name, value = strings.TrimSpace(name), strings.TrimSpace(value); header != "" && (!ok || name == "") {
		return nil, fmt.Errorf("header %q is not of the form \"Name: value\"", header)
	}
	prefix, begins := strings.CutSuffix(uri, "*")
	return func(c *plugin.Ctx) bool {
		if got, _ := c.Header(name); name != "" && got != value {
			return false
		}
		return uri == "" || c.Path == uri || begins && strings.HasPrefix(c.Path, prefix)
	}, nil
}

// captureProfile answers POST /v1/profile with a profile.Capture.
//
//	type      cpu, alloc, mutex or block; cpu
//	seconds   how long; 10
//	product   true: requests to 3scale products, where there are routes, too
func (g *Gateway) captureProfile(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	length, err := lengthOf(v, 10*time.Second)
	if err != nil {
		refuseExplain(w, http.StatusBadRequest, err)
		return
	}
	kind := v.Get("type")
	if kind == "" {
		kind = "cpu"
	}
	take, known := recorders[kind]
	if !known {
		refuseExplain(w, http.StatusBadRequest, fmt.Errorf("type %q: cpu, alloc, mutex or block", kind))
		return
	}
	e, err := g.engineFor(v.Get("product") == "true")
	if err != nil {
		refuseExplain(w, http.StatusServiceUnavailable, err)
		return
	}
	if !g.profiling.TryLock() {
		refuseExplain(w, http.StatusConflict, engine.ErrWatched)
		return
	}
	defer g.profiling.Unlock()
	watch, err := e.Watch(true)
	if err != nil {
		refuseExplain(w, http.StatusConflict, err)
		return
	}
	defer watch.Stop()
	c := profile.Capture{Type: kind, Version: g.Version, Cores: runtime.GOMAXPROCS(0)}
	c.Profile, err = take(func() { c.Windows = observe(r.Context(), watch, length) })
	switch {
	case err != nil:
		refuseExplain(w, http.StatusConflict, err)
		return
	case errors.Is(context.Cause(r.Context()), errStopping):
		refuseExplain(w, http.StatusServiceUnavailable, errStopping)
		return
	}
	c.Calls = callsOf(watch.Calls())
	writeJSON(w, http.StatusOK, c)
}

func callsOf(c *engine.Calls) profile.Calls {
	out := profile.Calls{Requests: c.Requests, Tries: c.Tries, Functions: []profile.Function{}}
	for _, s := range c.Steps {
		out.Functions = append(out.Functions, profile.Function{Phase: s.Phase, Plugin: s.Plugin, From: s.From, Count: s.Count})
	}
	return out
}

// observe waits for the time, or until ctx ends, and says what happened in its
// windows.
func observe(ctx context.Context, watch *engine.Watch, length time.Duration) (list []profile.Window) {
	tick := time.NewTicker(length / windows)
	defer tick.Stop()
	last := pointOf(watch)
	for range windows {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return list
		}
		now := pointOf(watch)
		list = append(list, now.since(last))
		last = now
	}
	return list
}

// A point is what was counted until a moment.
type point struct {
	at      time.Time
	cpu     time.Duration
	mallocs int64
	calls   *engine.Calls
}

func pointOf(w *engine.Watch) point { return point{time.Now(), cpuTime(), mallocs(), w.Calls()} }

func (p point) since(q point) profile.Window {
	return profile.Window{
		Length: p.at.Sub(q.at), CPU: p.cpu - q.cpu, Mallocs: p.mallocs - q.mallocs,
		Requests: p.calls.Requests - q.calls.Requests, Errors: p.calls.Statuses[5] - q.calls.Statuses[5],
		Upstream: p.calls.Upstream - q.calls.Upstream, Tries: p.calls.Tries - q.calls.Tries, Spent: p.calls.Spent - q.calls.Spent,
	}
}

// cpuTime is what the process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mallocs is how many objects the process has allocated.
func mallocs() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// recorders take a profile of what happens during a function. They are immutable.
var recorders = map[string]func(during func()) ([]byte, error){
	"cpu":   recordCPU,
	"alloc": func(during func()) ([]byte, error) { return recordDifference("allocs", during) },
	"mutex": func(during func()) ([]byte, error) {
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(10))
		return recordDifference("mutex", during)
	},
	"block": func(during func()) ([]byte, error) {
		runtime.SetBlockProfileRate(int(100 * time.Microsecond))
		defer runtime.SetBlockProfileRate(0)
		return recordDifference("block", during)
	},
}

func recordCPU(during func()) ([]byte, error) {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	during()
	pprof.StopCPUProfile()
	return b.Bytes(), nil
}

// recordDifference takes what a profile that counts from the start of the process
// has more after than before.
func recordDifference(name string, during func()) ([]byte, error) {
	before, err := lookup(name)
	if err != nil {
		return nil, err
	}
	during()
	after, err := lookup(name)
	if err != nil {
		return nil, err
	}
	before.Scale(-1)
	diff, err := pprofile.Merge([]*pprofile.Profile{before, after})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = diff.Write(&b)
	return b.Bytes(), err
}

func lookup(name string) (*pprofile.Profile, error) {
	var b bytes.Buffer
	if err := pprof.Lookup(name).WriteTo(&b, 0); err != nil {
		return nil, err
	}
	return pprofile.Parse(&b)
}

// PluginNames are the plugins and 3scale policies of this build by the import paths
// of their packages.
func PluginNames() map[string]string {
	names := map[string]string{}
	for _, s := range append(plugins.All(), policies.All()...) {
		names[s.Package()] = s.Name
	}
	return names
}

// HasSecrets says whether a plugin's configuration holds what its schema calls a
// secret, or what is not shown because of its name.
func HasSecrets(name string, conf *document.Value) (has bool) {
	for _, s := range append(plugins.All(), policies.All()...) {
		if s.Name != name {
			continue
		}
		for _, path := range s.ConfigSchema().Secrets() {
			conf.Strings(path, func(text string) string {
				has = has || text != ""
				return text
			})
		}
	}
	text := conf.String()
	shown, err := document.Parse([]byte(text))
	if err != nil {
		return true
	}
	snapshot.Hide(shown)
	return has || shown.String() != text
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"
)

func abDefaults(change func(*abOptions)) *abOptions {
	o := &abOptions{
		plugin: "prometheus", conf: "{}", states: []string{stateOff, stateReturn, stateComplete},
		paths: []string{abPath}, status: 200, pairs: 6, starts: 2, conns: 2,
		phase: 200 * time.Millisecond, settle: 10 * time.Millisecond, ready: 20 * time.Second,
		originAddr: "127.0.0.1:0", format: "table", seed: 1,
	}
	change(o)
	return o
}

func TestOrderInterval(t *testing.T) {
	// Tables of the sign test's confidence interval for a median.
	for _, tc := range []struct {
		n, k       int
		confidence float64
	}{{6, 1, 0.96875}, {8, 1, 0.9921875}, {9, 2, 0.9609375}, {10, 2, 0.978515625}, {20, 6, 0.9586105}, {50, 18, 0.9671609}} {
		k, confidence := orderInterval(tc.n)
		if k != tc.k || math.Abs(confidence-tc.confidence) > 1e-6 {
			t.Errorf("%d values: %d, %v, want %d, %v", tc.n, k, confidence, tc.k, tc.confidence)
		}
	}
}

// TestIntervalHolds: in at least 95 % of runs the interval holds the truth,
// however crooked the scatter.
func TestIntervalHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const runs, truth = 4000, 3.0
	held := 0
	for range runs {
		ratios := make([]float64, 12)
		for i := range ratios {
			noise := rng.Float64() - 0.5
			ratios[i] = 1.03 * math.Exp(noise*noise*noise*4) // median 1.03
		}
		if e := effectOf(ratios); e.Low <= truth && truth <= e.High {
			held++
		}
	}
	if held < runs*95/100 {
		t.Errorf("held in %d of %d runs", held, runs)
	}
}

func TestEffect(t *testing.T) {
	for _, tc := range []struct {
		ratios []float64
		text   string
	}{
		{[]float64{1.01, 1.02, 1.03, 1.02, 1.04, 1.02}, "+2.0 % (+1.0 to +4.0 %)"},
		{[]float64{0.9, 0.8, 0.85, 0.9, 0.9, 0.9}, "-10.0 % (-20.0 to -10.0 %)"},
		{[]float64{1.01, 0.99, 1.03, 1.02, 1.04, 1.02}, "not established: +2.0 % (-1.0 to +4.0 %) includes 0"},
		{[]float64{1, 1, 1, 1, 1, 1}, "not established: +0.0 % (+0.0 to +0.0 %) includes 0"},
	} {
		if got := effectOf(tc.ratios).String(); got != tc.text {
			t.Errorf("%v: %s, want %s", tc.ratios, got, tc.text)
		}
	}
}

// fakeSide answers with a body, after a millisecond of virtual time; its clock
// says that a request takes cost.
func fakeSide(name, body string, cost time.Duration) *target {
	ln := newPipeListener()
	var asked atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond)
		asked.Add(1)
		if r.URL.Path == "/gone" {
			w.WriteHeader(404)
		}
		_, _ = io.WriteString(w, body)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	return &target{
		name: name, dial: ln.dial,
		cpu:  func() (time.Duration, error) { return time.Duration(asked.Load()) * cost, nil },
		stop: func() { _ = server.Close(); <-done },
	}
}

func TestContest(t *testing.T) { synctest.Test(t, testContest) }

func testContest(t *testing.T) {
	o := abDefaults(func(o *abOptions) {})
	costs := []time.Duration{10 * time.Microsecond, 10 * time.Microsecond, 13 * time.Microsecond}
	starts := make([]int, len(costs))
	c := &contest{opts: o, names: o.states, progress: newProgress(io.Discard)}
	c.start = func(_ context.Context, i int) (*target, error) {
		starts[i]++
		return fakeSide(o.states[i], "same", costs[i]), nil
	}
	samples, err := c.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(starts, []int{2, 2, 2}) {
		t.Errorf("starts %v", starts)
	}
	report := newABReport(o, []side{{name: stateOff}, {name: stateReturn}, {name: stateComplete}}, samples)
	for i, s := range report.Sides {
		if len(s.Samples) != o.pairs || s.RPS <= 0 || s.Unexpected+s.Errors > 0 {
			t.Errorf("%+v", s)
		}
		near(t, s.Name, s.CPUMicros, float64(costs[i].Microseconds()), 0.02)
		near(t, s.Name, s.RPS, 1000*float64(o.conns), 0.02)
	}
	if e := report.Comparisons[1].CPU; !e.Established {
		t.Errorf("30 %% more: %v", e)
	}
	var table, text bytes.Buffer
	if err := report.write(&table, "table"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"complete against off", "plugin prometheus {}, on every route", "CPU per request  +", "answers: equal"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if err := report.write(&text, "json"); err != nil {
		t.Fatal(err)
	}
	var back ABReport
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || !reflect.DeepEqual(&back, report) {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestContestCompares(t *testing.T) {
	for _, tc := range []struct {
		name, path, second string
		differ             bool
		words              string
	}{
		{"equal", "/", "one", false, ""},
		{"another body", "/", "two", false, `side B, /: another body than side A`},
		{"another body, allowed", "/", "two", true, ""},
		{"status", "/gone", "one", false, `side A, /gone: status 404, want 200`},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := abDefaults(func(o *abOptions) { o.paths, o.differ = []string{tc.path}, tc.differ })
			c := &contest{opts: o, names: []string{"A", "B"}, progress: newProgress(io.Discard)}
			c.start = func(_ context.Context, i int) (*target, error) {
				return fakeSide(c.names[i], []string{"one", tc.second}[i], time.Microsecond), nil
			}
			_, err := c.run(t.Context())
			if tc.words == "" && err != nil || tc.words != "" && (err == nil || !strings.Contains(err.Error(), tc.words)) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.words)
			}
		})
	}
}

func TestSides(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := file("rules.yaml", "routes:\n  - {id: a, uri: /a, plugins: {cors: {}}, upstream: {nodes: {\"${{ORIGIN}}\": 1}}}\n#END\n")
	config := file("full/config.yaml", "nginx_config: {http: {enable_access_log: true, access_log: x}}\ndeployment: {role: traditional}\napisix: {node_listen: 1, normalize_uri_like_servlet: true}\n")
	file("full/apisix.yaml", "routes: []\n#END\n")

	written := func(s side) (config, rules object) {
		out := t.TempDir()
		if err := s.write(out, []int{4711, 4712}); err != nil {
			t.Fatal(err)
		}
		for path, to := range map[string]*object{"config.yaml": &config, "apisix.yaml": &rules} {
			text, err := os.ReadFile(filepath.Join(out, path))
			if err != nil || yaml.Unmarshal(text, to) != nil {
				t.Fatalf("%s: %v\n%s", path, err, text)
			}
			if path == "apisix.yaml" && !bytes.HasSuffix(text, []byte("\n#END\n")) {
				t.Errorf("no end:\n%s", text)
			}
		}
		return config, rules
	}
	sides := func(change func(*abOptions)) []side {
		all, err := abDefaults(change).sides("127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := sides(func(o *abOptions) { o.base, o.conf = rules, `{"prefer_name":true,"_meta":{"priority":1}}` })
	for i, want := range []string{
		`map[cors:map[]]`,
		`map[cors:map[] prometheus:map[_meta:map[filter:[[request_method == NEVER]] priority:1] prefer_name:true]]`,
		`map[cors:map[] prometheus:map[_meta:map[priority:1] prefer_name:true]]`,
	} {
		_, rules := written(all[i])
		r := rules["routes"].([]any)[0].(object)
		if got := fmt.Sprint(r["plugins"]); got != want {
			t.Errorf("%s: %s, want %s", all[i].name, got, want)
		}
		if got := fmt.Sprint(r["upstream"]); got != "map[nodes:map[127.0.0.1:80:1]]" {
			t.Errorf("upstream %s", got)
		}
	}
	all = sides(func(o *abOptions) { o.global, o.states = true, []string{stateOff, stateComplete} })
	if _, rules := written(all[1]); fmt.Sprint(rules["global_rules"]) != "[map[id:bench_ab plugins:map[prometheus:map[]]]]" {
		t.Errorf("%v", rules)
	}
	all = sides(func(o *abOptions) { o.plugin, o.files = "", [2]string{config, rules} })
	got, _ := written(all[0])
	if text := fmt.Sprint(got["apisix"], got["deployment"], got["nginx_config"]); !strings.Contains(text, "port:4711") ||
		!strings.Contains(text, "normalize_uri_like_servlet:true") || !strings.Contains(text, "config_provider:yaml") ||
		!strings.Contains(text, "enable_access_log:true") || strings.Contains(text, "traditional") {
		t.Errorf("config.yaml: %s", text)
	}
}

func TestABOptions(t *testing.T) {
	for words, change := range map[string]func(*abOptions){
		"":                   func(*abOptions) {},
		"nothing to compare": func(o *abOptions) { o.plugin = "" },
		"belong together":    func(o *abOptions) { o.plugin, o.files[0], o.bins[1] = "", "x", "y" },
		"--plugin compares":  func(o *abOptions) { o.bins[1] = "x" },
		"with itself":        func(o *abOptions) { o.profiled = true },
		"at least 6":         func(o *abOptions) { o.pairs = 5 },
		"want 1 to 6":        func(o *abOptions) { o.starts = 7 },
		"--states x":         func(o *abOptions) { o.states = []string{"off", "x"} },
		"each once":          func(o *abOptions) { o.states = []string{"off", "off"} },
		"want 'Name: value'": func(o *abOptions) { o.headers = []string{"x"} },
		"want a path":        func(o *abOptions) { o.paths = []string{"x"} },
		"want table or json": func(o *abOptions) { o.format = "csv" },
		"must be positive":   func(o *abOptions) { o.conns = 0 },
		"want at least two":  func(o *abOptions) { o.states = o.states[:1] },
	} {
		err := abDefaults(change).check()
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	got := abDefaults(func(o *abOptions) { o.paths, o.headers = []string{"/a", "/b?c"}, []string{"apikey: k", "HOST: h"} }).requests()
	if len(got) != 2 || string(got[1]) != "GET /b?c HTTP/1.1\r\napikey: k\r\nHOST: h\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for sum, i := 0, 0; ; i++ {
		if sum += i; i%1e6 == 0 {
			now, err := cpuTime(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			if now > before {
				break
			}
		}
	}
	if _, err := cpuTime(1 << 21); err == nil {
		t.Error("no error for a process that is not there")
	}
}

// TestABCommand runs the whole command with the test binary as the gateway.
func TestABCommand(t *testing.T) {
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := Command()
		cmd.SetArgs(append([]string{"ab", "--states", "off,complete", "--starts", "1", "--pairs", "6", "--phase", "10ms", "--settle", "1ms"}, args...))
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	procs := runtime.GOMAXPROCS(0)
	text, err := run("--plugin", "some", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	if now := runtime.GOMAXPROCS(0); now != procs {
		t.Errorf("GOMAXPROCS %d, was %d", now, procs)
	}
	var report ABReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Sides {
		if s.CPUMicros <= 0 || s.RPS <= 0 || len(s.Samples) != 6 || s.Errors+s.Unexpected > 0 {
			t.Errorf("%+v", s)
		}
	}
	if len(report.Sides) != 2 || len(report.Comparisons) != 1 {
		t.Errorf("%s", text)
	}
	if _, err := run("--plugin", "bad", "--pin=false"); err == nil || !strings.Contains(err.Error(), "plugin bad is bad") {
		t.Errorf("what the gateway said is missing: %v", err)
	}
	if _, err := run("--plugin", "some", "--path", "/nowhere"); err == nil || !strings.Contains(err.Error(), "status 404, want 200") {
		t.Errorf("%v", err)
	}
	if _, err := run("--plugin", "some", "--conf", "1"); err == nil || !strings.Contains(err.Error(), "--conf 1") {
		t.Errorf("%v", err)
	}
}

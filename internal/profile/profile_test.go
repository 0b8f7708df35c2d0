package profile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/pprof/profile"
)

var names = Names{"weir/internal/plugins/keyauth": "key-auth", "weir/internal/plugins/limitcount": "limit-count"}

// made is a profile of CPU with the given samples: a route, milliseconds, and the
// stack, outermost first.
func made(t testing.TB, samples ...[]any) *bytes.Buffer {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	known := map[string]*profile.Location{}
	for _, s := range samples {
		sample := &profile.Sample{Value: []int64{1, int64(s[1].(int)) * int64(time.Millisecond)}, Label: map[string][]string{}}
		if route := s[0].(string); route != "" {
			sample.Label["route"] = []string{route}
		}
		for i := len(s) - 1; i >= 2; i-- {
			name := s[i].(string)
			if known[name] == nil {
				f := &profile.Function{ID: uint64(len(known) + 1), Name: name}
				known[name] = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, known[name])
			}
			sample.Location = append(sample.Location, known[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return &b
}

const (
	handle   = "weir/internal/engine.(*exchange).handle"
	rewrite  = "weir/internal/plan.(*Run).Rewrite"
	access   = "weir/internal/plan.(*Run).Access"
	keyAuth  = "weir/internal/plugins/keyauth.compile.func1"
	counting = "weir/internal/plugins/limitcount.compile.func2"
	quota    = "weir/internal/quota.(*Limiter).Take"
	read     = "weir/internal/wire.(*Reader).ReadRequest"
	syscall6 = "internal/runtime/syscall/linux.Syscall6"
)

func analysed(t *testing.T) *Analysis {
	t.Helper()
	a, err := Read(made(t,
		[]any{"a", 10, handle, rewrite, keyAuth},
		[]any{"a", 20, handle, rewrite, counting},
		[]any{"b", 30, handle, access, counting, quota},
		[]any{"", 40, handle, read, "syscall.read", syscall6},
		[]any{"", 50, "runtime.gcBgMarkWorker", "runtime.scanobject"},
		[]any{"", 60, "runtime.mcall", "runtime.park_m", "runtime.schedule"},
	), "cpu", names)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

func TestRead(t *testing.T) {
	a := analysed(t)
	if a.Total != ms(210) || a.Kernel != ms(40) || a.Collector != ms(50) || a.Scheduler != ms(60) {
		t.Errorf("total %d, kernel %d, collector %d, scheduler %d", a.Total, a.Kernel, a.Collector, a.Scheduler)
	}
	if len(a.Plugins) != 2 || a.Plugins[0].Share != (Share{"limit-count", ms(50), ms(20)}) || a.Plugins[1].Share != (Share{"key-auth", ms(10), ms(10)}) {
		t.Errorf("plugins %+v", a.Plugins)
	}
	if p := a.Plugins[0].Phases; len(p) != 2 || p[0] != (Share{"access", ms(30), 0}) || p[1] != (Share{"rewrite", ms(20), ms(20)}) {
		t.Errorf("phases %+v", p)
	}
	if len(a.Routes) != 3 || a.Routes[0] != (Share{"(none)", ms(150), 0}) || a.Routes[1].Name != "a" || a.Routes[1].Total != ms(30) {
		t.Errorf("routes %+v", a.Routes)
	}
	if p := a.Parts; len(p) != 2 || p[0] != (Share{"runtime", ms(110), ms(110)}) || p[1] != (Share{"HTTP/1.1 codec", ms(40), 0}) {
		t.Errorf("parts %+v", p)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := Read(strings.NewReader("no profile"), "cpu", nil); err == nil {
		t.Error("nonsense is read")
	}
	if _, err := Read(made(t), "block", nil); err == nil || !strings.Contains(err.Error(), "of type block") {
		t.Errorf("another type: %v", err)
	}
}

func TestByPlugin(t *testing.T) {
	tree := analysed(t).root.byPlugin()
	if tree.value != ms(210) {
		t.Errorf("the whole is %d", tree.value)
	}
	if n := tree.kids["limit-count"]; n == nil || n.value != ms(50) || n.kids[counting].value != ms(50) || n.kids[counting].kids[quota].value != ms(30) {
		t.Errorf("limit-count %+v", n)
	}
	rest := tree.kids["(no plugin)"]
	if rest == nil || rest.value != ms(150) || rest.kids[handle].value != ms(40) {
		t.Errorf("the rest %+v", rest)
	}
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := analysed(t).WriteHTML(&b, `<script>"x"`); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{`&lt;script&gt;`, `"p":"limit-count"`, `"n":"(no plugin)"`, `cpu, 210ms`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, `<script>"x"`) || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the title is not escaped, or the page needs something else")
	}
}

func window(requests, errors int64, cpu, upstream time.Duration) Window {
	return Window{Length: time.Second, Requests: requests, Errors: errors, CPU: cpu, Upstream: upstream, Tries: requests, Spent: time.Second}
}

func TestFindings(t *testing.T) {
	good := window(100, 0, 1900*time.Millisecond, 100*time.Millisecond)
	for name, c := range map[string]struct {
		windows []Window
		bad     string
	}{
		"all is well":   {[]Window{good, good}, ""},
		"no load":       {[]Window{window(0, 0, 1900*time.Millisecond, 0), window(0, 0, 1900*time.Millisecond, 0)}, "requests"},
		"idle":          {[]Window{window(100, 0, time.Second, 100*time.Millisecond), window(100, 0, time.Second, 100*time.Millisecond)}, "use of the cores"},
		"slow upstream": {[]Window{window(100, 0, time.Second, 950*time.Millisecond), window(100, 0, time.Second, 950*time.Millisecond)}, "use of the cores, wait for upstreams"},
		// Answers wait in the gateway's own sockets.
		"saturated":         {[]Window{window(100, 0, 1900*time.Millisecond, 990*time.Millisecond), window(100, 0, 1900*time.Millisecond, 990*time.Millisecond)}, ""},
		"slower and slower": {[]Window{good, good, window(100, 0, 1900*time.Millisecond, 900*time.Millisecond)}, "wait for upstreams"},
		"errors":            {[]Window{window(100, 5, 1900*time.Millisecond, 100*time.Millisecond), good}, "answers from 500 on"},
		"uneven":            {[]Window{good, window(300, 0, 1900*time.Millisecond, 300*time.Millisecond)}, "steadiness of the load"},
	} {
		var bad []string
		for _, f := range (&Capture{Cores: 2, Windows: c.windows}).Findings() {
			if !f.Good {
				bad = append(bad, f.What)
			}
		}
		if got := strings.Join(bad, ", "); got != c.bad {
			t.Errorf("%s: %q, want %q", name, got, c.bad)
		}
	}
}

func TestSpreads(t *testing.T) {
	list := analysed(t).Spreads()
	if len(list) == 0 || list[0] != (Spread{"plugin limit-count", ms(50), ms(30), 2}) && list[0] != (Spread{counting, ms(50), ms(30), 2}) {
		t.Errorf("%+v", list)
	}
}

func TestDiagnosis(t *testing.T) {
	c := &Capture{Version: "1", Cores: 1, Windows: []Window{window(100, 0, 950*time.Millisecond, 100*time.Millisecond)}, Calls: Calls{
		Requests: 100, Functions: []Function{{"access", "limit-count", "routes/a", 150}},
	}}
	d := Diagnose("Weir <1>", time.Unix(0, 0).UTC(), c, analysed(t))
	d.Pair("weir bench ab", "first line\nsecond line\n")
	if len(d.Steps) != 5 || d.Suspect != "limit-count" || !strings.HasPrefix(d.Steps[0].Verdict, "Yes") {
		t.Errorf("%+v", d)
	}
	var md, page bytes.Buffer
	if err := errors.Join(d.WriteMarkdown(&md), d.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## 1. Is the process short of CPU", "## 5. What does a paired run say?", "second line", "1.50 limit-count access of routes/a",
		"23.8 % plugin limit-count, in 2 phases: access 14.3 % rewrite 9.5 %", "## Ruled out\n\n* ", "retries: 1.00 upstream tries",
	} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, md.String())
		}
	}
	if p := page.String(); !strings.Contains(p, "Weir &lt;1&gt;") || !strings.Contains(p, "second line") || !strings.Contains(p, "srcdoc=") {
		t.Errorf("page %s", p)
	}
	idle := Diagnose("x", time.Unix(0, 0), &Capture{Cores: 1}, &Analysis{root: new(node)})
	idle.Unpaired("", "nothing")
	if len(idle.Steps) != 5 || idle.Suspect != "" || !strings.HasPrefix(idle.Steps[0].Verdict, "Not") {
		t.Errorf("idle: %+v", idle)
	}
	// Of no request nothing is counted, and nothing ruled out.
	quiet := Diagnose("x", time.Unix(0, 0), &Capture{Cores: 1, Windows: []Window{window(0, 0, time.Second, 0)}}, analysed(t))
	if said := fmt.Sprint(quiet.RuledOut, quiet.Measured, quiet.Steps[3]); strings.Contains(said, "per request") || strings.Contains(said, "as the cause") {
		t.Errorf("without load: %s", said)
	}
}

// TestHostileNames: ids from a store may be any text. They stay on their line, within
// what is literal, in every form of a report.
func TestHostileNames(t *testing.T) {
	const evil = "\x1b[2J</script></pre><script>alert(1)</script>\"'`\r\n```\n# not a title\n\u202e\u2028x"
	a, err := Read(made(t, []any{evil, 10, handle, rewrite, counting}), "cpu", names)
	if err != nil {
		t.Fatal(err)
	}
	c := &Capture{Version: evil, Cores: 1, Windows: []Window{window(100, 0, 950*time.Millisecond, 100*time.Millisecond)}, Calls: Calls{
		Requests: 100, Functions: []Function{{"access", "limit-count", "routes/" + evil, 150}},
	}}
	for _, paired := range []bool{false, true} {
		d := Diagnose("Weir "+evil, time.Unix(0, 0).UTC(), c, a)
		command := "weir bench ab --conf '{\"body\":\"<script>alert(1)</script>\"}'"
		if d.Unpaired(command, "Not run."); paired {
			d.Steps = d.Steps[:len(d.Steps)-1]
			d.Pair(command, "one\n```\n"+evil+"\n")
		}
		var md, page, table, flame bytes.Buffer
		if err := errors.Join(d.WriteMarkdown(&md), d.WriteHTML(&page), a.WriteTable(&table, c), a.WriteHTML(&flame, evil)); err != nil {
			t.Fatal(err)
		}
		fence := "" // of what is literal
		for line := range strings.SplitSeq(md.String(), "\n") {
			ticks := len(line) - len(strings.TrimLeft(line, "`"))
			switch {
			case fence == "" && ticks >= 3:
				fence = line[:ticks]
			case fence != "" && ticks >= len(fence) && ticks == len(line):
				fence = ""
			case fence == "" && (strings.Contains(line, "<script") || strings.HasPrefix(line, "# not a title")):
				t.Errorf("outside of what is literal: %q", line)
			}
		}
		if fence != "" {
			t.Error("what is literal does not end")
		}
		for what, text := range map[string]string{"Markdown": md.String(), "table": table.String()} {
			for _, r := range text {
				if r != '\n' && (unicode.IsControl(r) || strings.ContainsRune("\u202e\u2028", r)) {
					t.Errorf("%s: %U is in it", what, r)
					break
				}
			}
		}
		for what, text := range map[string]string{"page": page.String(), "flame graph": flame.String()} {
			if strings.Contains(text, "<script>alert") || strings.Contains(text, "</pre><") {
				t.Errorf("%s: %s", what, text)
			}
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	c := &Capture{Cores: 2, Windows: []Window{window(100, 0, time.Second, 0)}, Calls: Calls{
		Requests: 100, Functions: []Function{{"rewrite", "limit-count", "routes/a", 100}, {"access", "limit-count", "routes/a", 50}, {"log", "cheap", "routes/a", 100}},
	}}
	if err := analysed(t).WriteTable(&b, c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"50 % of 2", "! use of the cores", "1.50", "limit-count: access 14.3% rewrite 9.5%", "kernel 19.0 %", "2.50 functions of plugins",
		"0.0%  0.0%           1.00  cheap\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

// FuzzRead: a profile that can be read is told without a panic, and no share is
// larger than the whole.
func FuzzRead(f *testing.F) {
	f.Add(made(f, []any{"a", 10, handle, rewrite, keyAuth}, []any{"", 40, handle, read, syscall6}).Bytes(), "cpu")
	f.Add([]byte("goroutine profile: total 1\n"), "block")
	f.Fuzz(func(t *testing.T, b []byte, kind string) {
		a, err := Read(bytes.NewReader(b), kind, names)
		if err != nil {
			return
		}
		for _, p := range a.Plugins {
			if a.Total >= 0 && (p.Total > a.Total || p.Self > p.Total) {
				t.Errorf("%+v of %d", p.Share, a.Total)
			}
		}
		if a.Kernel > a.Total || a.Collector > a.Total || a.Scheduler > a.Total {
			t.Errorf("%d, %d, %d of %d", a.Kernel, a.Collector, a.Scheduler, a.Total)
		}
	})
}

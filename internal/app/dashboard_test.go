package app

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A dashboard is what is read of packaging/grafana/weir.json.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct {
			Query json.RawMessage
		}
	}
}

// names are the metrics that the dashboard's expressions name, with the panel.
func (d *dashboard) names(t *testing.T) map[string]string {
	named := map[string]string{}
	metric := regexp.MustCompile(`apisix_[a-z0-9_]+`)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			found := metric.FindAllString(target.Expr, -1)
			if len(found) == 0 || strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
				t.Errorf("panel %q: %s", p.Title, target.Expr)
			}
			for _, name := range found {
				named[name] = p.Title
			}
		}
	}
	for _, v := range d.Templating.List {
		for _, name := range metric.FindAllString(string(v.Query), -1) {
			named[name] = "variables"
		}
	}
	return named
}

// TestDashboard: every metric that the Grafana dashboard names exists, and so does
// every metric of the configuration in the dashboard.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../packaging/grafana/weir.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	port := freePorts(t, 1)[0]
	o, _ := options(t, t.TempDir(), fmt.Sprintf(exported, port)+withKey)
	o.Example = true
	g := start(t, o)
	defer stop(t, g)
	putRule(t, g, `{"plugins":{"prometheus":{}}}`)
	get(t, "http://"+g.Data()[0].String()+"/hello", "apikey", exampleKey)
	var all string
	for range 200 { // the log phase comes after the answer
		_, all = get(t, "http://"+g.Metrics().String()+"/apisix/prometheus/metrics")
		if strings.Contains(all, "apisix_http_status{") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	named := d.names(t)
	if len(named) < 20 {
		t.Errorf("the dashboard names %d metrics", len(named))
	}
	shown := map[string]bool{}
	for line := range strings.Lines(all) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(name), " ")
			shown[name] = true
			if kind == "histogram" {
				shown[name+"_bucket"], shown[name+"_sum"], shown[name+"_count"] = true, true, true
			}
		}
	}
	for name, panel := range named {
		if !shown[name] {
			t.Errorf("panel %q: there is no metric %s", panel, name)
		}
	}
	for name := range shown {
		_, inBuckets := named[name+"_bucket"]
		if _, ok := named[name]; !ok && !inBuckets && strings.HasPrefix(name, "apisix_config_") &&
			!strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// TestConfigurationMetrics: what the configuration does is counted.
func TestConfigurationMetrics(t *testing.T) {
	port := freePorts(t, 1)[0]
	o, _ := options(t, t.TempDir(), fmt.Sprintf(exported, port)+withKey)
	g := start(t, o)
	defer stop(t, g)
	value := func(series string) float64 {
		t.Helper()
		_, all := get(t, "http://"+g.Metrics().String()+"/apisix/prometheus/metrics")
		for line := range strings.Lines(all) {
			if text, ok := strings.CutPrefix(line, "apisix_config_"+series+" "); ok {
				var v float64
				if _, err := fmt.Sscan(text, &v); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				return v
			}
		}
		t.Fatalf("there is no %s in\n%s", series, all)
		return 0
	}
	steps, changes, compiled := value("steps_total"), value("changes_total"), value(`compiled_total{kind="routes"}`)
	applied := value("apply_seconds_count")
	const route = `{"uri":"/a","upstream":{"nodes":{"127.0.0.1:1":1}}}`
	for i := range 3 {
		if status, answer := do(t, g, "PUT", fmt.Sprintf("/routes/%d", i), route); status != 201 {
			t.Fatal(status, answer)
		}
	}
	for series, want := range map[string]float64{
		"steps_total": steps + 3, "changes_total": changes + 3, `compiled_total{kind="routes"}`: compiled + 3,
		`objects{kind="routes"}`: 3, "apply_seconds_count": applied + 3, "lag_revisions": 0, "faults": 0, "stale_seconds": 0,
		`resyncs_total{reason="start"}`: 1,
	} {
		if got := value(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if a, s := value("applied_revision"), value("store_revision"); a < 3 || a != s {
		t.Errorf("revisions: %v applied, %v in the store", a, s)
	}
}

package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestFaultVerdict(t *testing.T) {
	good := FaultResult{Name: "x", Sent: 10, Acknowledged: 5}
	for _, c := range []struct {
		name   string
		change func(*FaultResult)
		want   string
	}{
		{"good", func(*FaultResult) {}, ""},
		{"interrupted", func(r *FaultResult) { r.Interrupted = 3 }, ""},
		{"skipped", func(r *FaultResult) { *r = FaultResult{Skipped: "no etcdctl"} }, ""},
		{"failed", func(r *FaultResult) { r.Failed = 1 }, "1 requests failed"},
		{"lost", func(r *FaultResult) { r.Lost = 2 }, "2 acknowledged writes lost"},
		{"stale", func(r *FaultResult) { r.Stale = 2 }, "2 acknowledged before live"},
		{"differs", func(r *FaultResult) { r.Differs, r.Failed = 2, 1 }, "1 requests failed, 2 objects run otherwise than stored"},
		{"idle", func(r *FaultResult) { r.Acknowledged = 0 }, "nothing was measured"},
		{"problem", func(r *FaultResult) { r.Problem = "no leader" }, "no leader"},
	} {
		r := good
		c.change(&r)
		if got := r.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		var b bytes.Buffer
		report := &FaultsReport{Passed: c.want == "", Runs: []FaultResult{r}}
		report.table(&b)
		if strings.Contains(b.String(), "FAILED") != (c.want != "") || (report.broken() == nil) != (c.want == "") {
			t.Errorf("%s: %v\n%s", c.name, report.broken(), &b)
		}
	}
}

func TestFaultsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--only", "flood"}, "there is no such fault"},
		{[]string{"--kills", "0"}, "must be positive"},
		{[]string{"--etcd-binary", "/nonexistent"}, "faults need etcd"},
	} {
		cmd := Command()
		cmd.SilenceErrors = true
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetArgs(append([]string{"faults"}, c.args...))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measured runs a command that measures one figure, with the test binary as weir.
func measured(t *testing.T, into any, args ...string) error {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "report.json")
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetErr(io.Discard)
	cmd.SetArgs(append(args, "--weir", self, "--format", "json", "--out", out))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		return err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return json.Unmarshal(text, into)
}

func TestSlow(t *testing.T) {
	t.Parallel()
	for _, upload := range []string{"--upload=false", "--upload"} {
		var r SlowReport
		if err := measured(t, &r, "slow", "--mib", "8", "--seconds", "0.3", upload); err != nil {
			t.Fatal(err)
		}
		if r.MiB != 8 || r.Seconds < 0.3 || r.Before < 1 || r.During < r.Before || r.After < 1 || r.Upload != (upload == "--upload") {
			t.Errorf("%+v", r)
		}
	}
}

func TestScrape(t *testing.T) {
	t.Parallel()
	var r ScrapeReport
	if err := measured(t, &r, "scrape", "--series", "300", "--rps", "200", "--pairs", "6", "--phase", "100ms", "--rest", "10ms"); err != nil {
		t.Fatal(err)
	}
	if r.Series != 6*linesPerRoute || r.Scrapes < 1 || r.Failed != 0 || r.Idle.P50 <= 0 || r.Scraped.Max < r.Scraped.P999 || r.P999.Confidence < 95 {
		t.Errorf("%+v", r)
	}
	if err := measured(t, &r, "scrape", "--pairs", "5"); err == nil {
		t.Error("five pairs are enough")
	}
}

func TestWebsockets(t *testing.T) {
	t.Parallel()
	var r WebsocketsReport
	if err := measured(t, &r, "websockets", "--count", "50", "--idle", "10ms"); err != nil {
		t.Fatal(err)
	}
	if r.Count != 50 || r.Before < 1 || r.Used < r.Before {
		t.Errorf("%+v", r)
	}
	if n := fitting(1e9); n < 100 || n == 1e9 {
		t.Errorf("%d WebSockets fit", n)
	}
}

// The fake may lose a POST whenever a connection ends.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	var r KeepaliveReport
	if err := measured(t, &r, "keepalive", "--calls", "40", "--origins", "4", "--idle", "100ms", "--around", "2ms"); err != nil {
		t.Fatal(err)
	}
	if len(r.Methods) != 2 || r.IdleMS != 100 || r.AroundMS != 2 {
		t.Fatalf("%+v", r)
	}
	for _, m := range r.Methods {
		if m.Calls != 40 || m.Failed > 20 || m.Twice != 0 || m.Reused > 36 {
			t.Errorf("%+v", m)
		}
	}
}

// What comes after an origin has ended its side of a connection is late, what
// comes again is twice.
func TestClosingOrigin(t *testing.T) {
	o := &closing{idle: 20 * time.Millisecond}
	o.begin()
	s, err := listenAndServe(o.serve)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(nc net.Conn, br *bufio.Reader, call string) string {
		t.Helper()
		if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nX-Call: "+call+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		head, err := readHeadText(br)
		if err != nil {
			return err.Error()
		}
		return head[9:12]
	}
	nc, err := net.Dial("tcp", s.addr())
	if err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(nc)
	for _, call := range []string{"1", "2", "1"} {
		if got := ask(nc, br, call); got != "200" {
			t.Fatal(got)
		}
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Fatal("the origin closes no idle connection: ", err)
	}
	if got := ask(nc, br, "3"); got != "EOF" {
		t.Error(got)
	}
	for end := time.Now().Add(10 * time.Second); o.late.Load() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	nc.Close()
	s.close()
	if o.reused.Load() != 2 || o.twice.Load() != 1 || o.late.Load() != 1 {
		t.Errorf("%d reused, %d twice, %d late", o.reused.Load(), o.twice.Load(), o.late.Load())
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	needEtcd(t)
	var r UpdatesReport
	err := measured(t, &r, "updates", "--etcd-binary", etcdPath(), "--routes", "80", "--upstreams", "40", "--shrink", "2",
		"--updates", "20", "--rounds", "2", "--phase", "2s", "--rps", "50", "--connections", "4")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Costs) != 4 || r.Load == nil {
		t.Fatalf("%+v", r)
	}
	for i, want := range []UpdateCost{
		{Routes: 40, Upstreams: 20, Updates: 10}, {Routes: 40, Upstreams: 20, Updates: 20},
		{Routes: 80, Upstreams: 40, Updates: 10}, {Routes: 80, Upstreams: 40, Updates: 20},
	} {
		c := r.Costs[i]
		if c.Routes != want.Routes || c.Upstreams != want.Upstreams || c.Updates != want.Updates || c.Compiled != float64(c.Updates) ||
			c.ApplyMS < float64(c.Updates)-1e-6 || c.MS <= 0 {
			t.Errorf("%+v", c)
		}
	}
	if l := r.Load; l.Sent != 200 || l.Failed != 0 || l.Over > l.Sent {
		t.Errorf("%+v", l)
	}
}

func TestFigureRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"slow", "--mib", "0"}, "must be positive"},
		{[]string{"websockets", "--count", "0"}, "must be positive"},
		{[]string{"keepalive", "--around", "2s"}, "--around no more than --idle"},
		{[]string{"updates", "--routes", "3", "--upstreams", "4"}, "every upstream has a route"},
		{[]string{"updates", "--etcd-binary", "/nonexistent"}, "needs etcd"},
	} {
		if err := measured(t, new(struct{}), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.want)
		}
	}
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"slow", "--format", "csv"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "want table or json") {
		t.Error(err)
	}
}

func TestFigureTables(t *testing.T) {
	for _, tc := range []struct {
		figure figure
		want   []string
	}{
		{&SlowReport{MiB: 1024, Seconds: 20, Before: 40, During: 41, After: 40.5}, []string{"1024 MiB in 20.0 s, answer", "40.0 MiB before", "41.0 MiB meanwhile (+1.0)", "40.5"}},
		{&WebsocketsReport{Wanted: 10, Count: 9, Each: 27.9}, []string{"9 WebSockets (10 wanted)", "27.9 KiB each"}},
		{
			&KeepaliveReport{IdleMS: 1000, AroundMS: 5, Methods: []KeepaliveMethod{{Method: "POST", Calls: 9, Failed: 1, First: "why", Reused: 5, Late: 2}}},
			[]string{"POST  9 calls, 1 failed, 5 on a kept connection, 2 on one just closed, 0 arrived twice", "first failure: why"},
		},
		{
			&UpdatesReport{Costs: []UpdateCost{{Routes: 4, Upstreams: 2, Updates: 400, CPUMS: 80}}, Load: &UpdateLoad{RPS: 600, Sent: 3000, Over: 2}},
			[]string{"200", "2 of 3000 requests", "one in a thousand is 3.0", "600 requests/s"},
		},
	} {
		var b bytes.Buffer
		tc.figure.table(&b)
		for _, want := range tc.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, &b)
			}
		}
	}
}

package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// request is a finished request whose User-Agent is agent.
func request(agent string) *plugin.Ctx {
	r := &wire.Request{Method: "GET", Target: "/hello", Proto: wire.HTTP11, Host: "h:9080"}
	r.Header.Receive("Host", "h:9080")
	r.Header.Receive("User-Agent", agent)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &plugin.Ctx{
		Request: r, Path: "/hello", Scheme: "http", Client: "127.0.0.1", Start: start,
		Peer: netip.MustParseAddrPort("127.0.0.1:4321"), Server: netip.MustParseAddrPort("127.0.0.1:9080"),
		Sent: plugin.Outcome{
			Status: 200, BodyBytes: 12, Bytes: 99, End: start.Add(3 * time.Millisecond),
			Tries: []plugin.Try{{Addr: "127.0.0.1:1980", Status: 200, Total: 2 * time.Millisecond}},
		},
	}
}

func TestDefaultFormat(t *testing.T) {
	f, err := compile(DefaultFormat, false)
	if err != nil {
		t.Fatal(err)
	}
	c := request(`curl/8 "quoted"`)
	want := `127.0.0.1 - - [02/Jan/2026:03:04:05 +0000] h:9080 "GET /hello HTTP/1.1" 200 12 0.003 "-" ` +
		`"curl/8 \x22quoted\x22" 127.0.0.1:1980 200 0.002 "http://h:9080" "` + c.RequestID() + "\"\n"
	if got := string(f.appendTo(nil, c)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestEscape(t *testing.T) {
	for _, tc := range []struct{ in, plain, json string }{
		{"", "", ""},
		{"a b", "a b", "a b"},
		{`a"b\c`, `a\x22b\x5Cc`, `a\"b\\c`},
		{"\n\r\t\b\f\x01", `\x0A\x0D\x09\x08\x0C\x01`, `\n\r\t\b\f\u0001`},
		{"é", `\xC3\xA9`, "é"},
		{"\xff\x7f", `\xFF\x7F`, "\ufffd\x7f"},
	} {
		for isJSON, want := range map[bool]string{false: tc.plain, true: tc.json} {
			f, err := compile(`{"a":"${http_user_agent}"}`, isJSON)
			if err != nil {
				t.Fatal(err)
			}
			want = `{"a":"` + want + "\"}\n"
			got := f.appendTo(nil, request(tc.in))
			if string(got) != want {
				t.Errorf("%q: got %q, want %q", tc.in, got, want)
			}
			if isJSON && !json.Valid(got) {
				t.Errorf("%q: not JSON: %s", tc.in, got)
			}
		}
	}
}

func TestAbsent(t *testing.T) {
	for isJSON, want := range map[bool]string{false: "[-]\n", true: "[]\n"} {
		f, err := compile("[$http_none]", isJSON)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(f.appendTo(nil, request(""))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFormatErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, tc := range []struct {
		config Config
		want   string
	}{
		{Config{Path: path, Format: "$nope"}, `unknown variable "nope"`},
		{Config{Path: path, Format: "a ${host"}, `the closing bracket in "${host" is missing`},
		{Config{Path: path, Format: "a $ b"}, `invalid variable name at "$ b"`},
		{Config{Path: path, Escape: "none"}, `escape "none" is neither default nor json`},
		{Config{}, "no path given"},
		{Config{Path: t.TempDir()}, "is a directory"},
	} {
		l, err := Open(tc.config)
		if err == nil {
			l.Close()
			t.Errorf("%+v: accepted", tc.config)
		} else if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

func TestRequestURIIsRaw(t *testing.T) {
	f, err := compile("$request_uri$uri", false)
	if err != nil {
		t.Fatal(err)
	}
	c := request("")
	c.Request.Target = "/x/../hello"
	if got := string(f.appendTo(nil, c)); got != "/x/../hello/hello\n" {
		t.Error(got)
	}
}

func TestOff(t *testing.T) {
	var l *Log
	l.Write(request(""))
	if l.Reopen() != nil || l.Close() != nil || l.Dropped() != 0 {
		t.Error("a log that is off fails")
	}
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestReopenUnderLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "access.log")
	l, err := Open(Config{Path: path, Format: "$http_user_agent", BufferSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each, turns = 4, 500, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				l.Write(request(fmt.Sprintf("%d/%d", w, i)))
				if i%10 == 0 {
					time.Sleep(time.Millisecond) // let the disk keep up: nothing may be dropped
				}
			}
		})
	}
	for turn := range turns {
		if err := os.Rename(path, filepath.Join(dir, fmt.Sprintf("old.%d", turn))); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	files, err := filepath.Glob(filepath.Join(dir, "old.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, path) {
		for _, line := range linesOf(t, f) {
			if line = strings.TrimSpace(line); line != "" {
				seen[line]++
			}
		}
	}
	for w := range writers {
		for i := range each {
			if n := seen[fmt.Sprintf("%d/%d", w, i)]; n != 1 {
				t.Fatalf("line %d/%d stands %d times; %d dropped", w, i, n, l.Dropped())
			}
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d different lines", len(seen))
	}
}

func TestReopenFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	l, err := Open(Config{Path: path, Format: "$status"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a folder was opened")
	}
	l.Write(request(""))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := linesOf(t, path+".old"); got[0] != "200" {
		t.Error(got)
	}
	if err := l.Reopen(); err == nil {
		t.Error("reopened after Close")
	}
}

// TestFlush needs no Close to see a line.
func TestFlush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(Config{Path: path, Format: "$status", FlushEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Write(request(""))
	for {
		if b, _ := os.ReadFile(path); string(b) == "200\n" {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

type record struct {
	sync.Mutex
	bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	return r.Buffer.Write(p)
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	told := &record{}
	l, err := Open(Config{
		Path: "/dev/full", Format: "$status", BufferSize: 4, Log: slog.New(slog.NewTextHandler(told, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	for range n {
		l.Write(request(""))
	}
	l.Close()
	if l.Dropped() != n {
		t.Errorf("%d lines dropped, want %d", l.Dropped(), n)
	}
	if got := strings.Count(told.String(), "cannot be written"); got != 1 {
		t.Errorf("told %d times: %s", got, told)
	}
}

// stuck is a disk that takes nothing until it is let go.
type stuck struct {
	entered, leave chan struct{}
	once           sync.Once
	got            bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() {
		close(s.entered)
		<-s.leave
	})
	return s.got.Write(p)
}

func TestSlowDiskDoesNotHoldRequests(t *testing.T) {
	l, err := Open(Config{Path: "stderr", Format: "$status", BufferSize: 40, FlushEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	if err := l.Reopen(); err != nil { // the writer is idle now
		t.Fatal(err)
	}
	l.out.Writer = s
	for range 10 {
		l.Write(request(""))
	}
	<-s.entered
	const n = 10000
	for range n {
		l.Write(request(""))
	}
	close(s.leave)
	l.Close()
	written := int64(bytes.Count(s.got.Bytes(), []byte("200\n")))
	if written+l.Dropped() != n+10 || l.Dropped() == 0 || written < backlog*10 {
		t.Errorf("%d written, %d dropped", written, l.Dropped())
	}
}

// halfway accepts 2 bytes, once with an error.
type halfway struct {
	failed bool
	got    bytes.Buffer
}

func (h *halfway) Write(p []byte) (int, error) {
	if !h.failed {
		h.failed = true
		h.got.Write(p[:2])
		return 2, os.ErrDeadlineExceeded
	}
	return h.got.Write(p)
}

func TestTornLine(t *testing.T) {
	h := &halfway{}
	f, err := compile("$status", false)
	if err != nil {
		t.Fatal(err)
	}
	l := &Log{format: f, limit: 100, most: 1000, log: slog.New(slog.DiscardHandler), out: &output{Writer: h}}
	for range 2 {
		l.Write(request(""))
		l.flush()
	}
	if got := h.got.String(); got != "20\n200\n" || l.Dropped() != 1 {
		t.Errorf("%q, %d dropped", got, l.Dropped())
	}
}

func TestAllocations(t *testing.T) {
	l, err := Open(Config{Path: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := request("curl/8")
	write := func() { l.Write(c) }
	for range 500 {
		write()
	}
	if n := testing.AllocsPerRun(500, write); n >= 1 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

func TestErrorLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "error.log")
	level, err := ParseLevel("notice")
	if err != nil {
		t.Fatal(err)
	}
	e, err := OpenErrorLog(path, level)
	if err != nil {
		t.Fatal(err)
	}
	log := e.Logger().With("owner", "routes/1").WithGroup("g")
	log.Info("not written")
	log.Log(t.Context(), LevelNotice, "two\nlines", "a", 1, "b", "x y", "e", "", slog.Group("h", "c", true))
	log.Error("bad", "err", os.ErrClosed)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := e.Reopen(); err != nil {
		t.Fatal(err)
	}
	log.Log(t.Context(), LevelEmerg, "new")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	got := append(linesOf(t, path+".1"), linesOf(t, path)...)
	want := []string{
		`[notice] two\nlines owner=routes/1 g.a=1 g.b="x y" g.e="" g.h.c=true` + "\n",
		`[error] bad owner=routes/1 g.err="file already closed"`,
		`[emerg] new owner=routes/1`,
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, line := range got {
		when, rest := line[:len("2006/01/02 15:04:05.000 ")], line[len("2006/01/02 15:04:05.000 "):]
		if _, err := time.Parse("2006/01/02 15:04:05.000 ", when); err != nil || rest != want[i] {
			t.Errorf("%q, want %q, %v", rest, want[i], err)
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("level loud exists")
	}
}

// TestOwnLine: a plugin replaces a request's line, or adds one.
func TestOwnLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(Config{Path: path, Format: "$status"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []plugin.AccessLine{
		{}, {Off: true}, {Own: true, Text: "both"}, {Off: true, Own: true, Text: "own\nforged\r"}, {Off: true, Own: true},
	} {
		c := request("")
		c.Line = line
		l.Write(c)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(linesOf(t, path), ""), "200\n200\nboth\nown\\x0Aforged\\x0D\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package filelogger

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/leaktest"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A gateway compiles configurations as one that runs does.
type gateway struct {
	t      testing.TB
	keeper plugin.Keeper
	env    plugin.Env
}

func newGateway(t testing.TB) *gateway { return &gateway{t: t, env: plugintest.Env(time.Now)} }

// A route is a compiled configuration.
type route struct {
	plugin.Phases
	uses *plugin.Uses
}

// close ends the route as a plan does.
func (r *route) close() {
	if r.Close != nil {
		r.Close()
	}
	r.uses.Release()
}

func (g *gateway) compile(conf, meta string) *route {
	g.t.Helper()
	env := g.env
	env.Keep = g.keeper.Uses()
	if meta != "" {
		env.Metadata = []byte(meta)
	}
	ph, err := Plugin.Compile([]byte(conf), env)
	if err != nil {
		g.t.Fatal(err)
	}
	return &route{ph, env.Keep}
}

func lineOf(t *testing.T, path string, n int) string {
	t.Helper()
	for range 2000 {
		b, _ := os.ReadFile(path)
		if all := strings.Split(string(b), "\n"); len(all) > n+1 {
			return all[n]
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s has no line %d", path, n)
	return ""
}

func count(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func TestWrite(t *testing.T) {
	g := newGateway(t)
	path := filepath.Join(t.TempDir(), "file.log")
	r := g.compile(fmt.Sprintf(`{"path":%q,"log_format":{"host":"$host"}}`, path), "")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("made before there is anything to write")
	}
	for i := range 3 {
		r.Log(plugintest.NewCtx("/"))
		if got, want := lineOf(t, path, i), `{"host":"example.com","route_id":"1"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	r.close()
}

func TestFull(t *testing.T) {
	g := newGateway(t)
	path := filepath.Join(t.TempDir(), "file.log")
	r := g.compile(`{"log_format_extra":{"x":"$uri"}}`, fmt.Sprintf(`{"path":%q}`, path))
	r.Log(plugintest.NewCtx("/a"))
	var doc struct {
		RouteID string `json:"route_id"`
		X       string
	}
	if err := json.Unmarshal([]byte(lineOf(t, path, 0)), &doc); err != nil || doc.RouteID != "1" || doc.X != "/a" {
		t.Errorf("%+v %v", doc, err)
	}
	r.close()
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		match string
		want  map[string]bool
	}{
		{`[[["arg_name","==","jack"]]]`, map[string]bool{"/?name=jack": true, "/?name=tony": false, "/": false}},
		{`[[["arg_name","==","jack"]],[["arg_a","==","1"],["arg_b","==","2"]]]`,
			map[string]bool{"/?name=jack": true, "/?a=1&b=2": true, "/?a=1": false}},
		{`[["arg_name","==","jack"]]`, map[string]bool{"/?name=jack": true, "/": false}},
		{`[]`, map[string]bool{"/": false}},
	} {
		g := newGateway(t)
		path := filepath.Join(t.TempDir(), "file.log")
		r := g.compile(fmt.Sprintf(`{"path":%q,"match":%s}`, path, c.match), "")
		want := 0
		for target, logged := range c.want {
			r.Log(plugintest.NewCtx(target))
			if logged {
				want++
			}
		}
		r.close()
		if got := count(t, path); got != want {
			t.Errorf("%s: %d entries, want %d", c.match, got, want)
		}
	}
}

// TestMatchBody: an expression may be about the request's body.
func TestMatchBody(t *testing.T) {
	g := newGateway(t)
	path := filepath.Join(t.TempDir(), "file.log")
	r := g.compile(fmt.Sprintf(`{"path":%q,"match":[[["post_arg_a","==","1"]]]}`, path), "")
	for _, body := range []string{"a=1", "a=2"} {
		c := plugintest.NewCtx("/", [2]string{"Content-Type", "application/x-www-form-urlencoded"})
		c.Request.Method, c.Request.Length = "POST", int64(len(body))
		c.Buffer = buffer{body: []byte(body)}
		r.Access(c)
		c.Buffer = buffer{err: plugin.ErrBodySent}
		r.Log(c)
	}
	r.close()
	if got := count(t, path); got != 1 {
		t.Errorf("%d entries, want 1", got)
	}
}

type buffer struct {
	body []byte
	err  error
}

func (b buffer) Body(int64) ([]byte, error) { return b.body, b.err }

// TestRotation: after the file was moved away, Reopen makes a new one.
func TestRotation(t *testing.T) {
	g := newGateway(t)
	path := filepath.Join(t.TempDir(), "file.log")
	r := g.compile(fmt.Sprintf(`{"path":%q}`, path), "")
	same := g.compile(fmt.Sprintf(`{"path":%q,"log_format":{}}`, path), "")
	if err := g.env.Files.Reopen(); err != nil || count(t, path) != 0 {
		t.Error(err)
	}
	r.Log(plugintest.NewCtx("/"))
	lineOf(t, path, 0)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	r.Log(plugintest.NewCtx("/"))
	lineOf(t, path+".1", 1)
	if err := g.env.Files.Reopen(); err != nil {
		t.Fatal(err)
	}
	same.Log(plugintest.NewCtx("/"))
	if got := lineOf(t, path, 0); got != `{"route_id":"1"}` {
		t.Error(got)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := g.env.Files.Reopen(); err == nil {
		t.Error("opened a file in a folder that is gone")
	}
	r.close()
	same.Log(plugintest.NewCtx("/")) // goes to the old file, which still is open
	same.close()
	if err := g.env.Files.Reopen(); err != nil {
		t.Errorf("a file that nobody writes is opened: %v", err)
	}
}

// TestChange: configurations with one path share the file, and nothing is lost
// or torn when they are replaced under load.
func TestChange(t *testing.T) {
	g := newGateway(t)
	path := filepath.Join(t.TempDir(), "file.log")
	const rounds, workers, each = 10, 4, 50
	old := g.compile(fmt.Sprintf(`{"path":%q}`, path), "")
	for range rounds {
		r := g.compile(fmt.Sprintf(`{"path":%q,"include_resp_body":true}`, path), "")
		old.close()
		old = r
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					r.Log(plugintest.NewCtx("/"))
				}
			})
		}
		wg.Wait()
	}
	old.close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Fatalf("torn: %s", l)
		}
	}
	if len(lines) != rounds*workers*each || g.keeper.Len() != 0 {
		t.Errorf("%d lines, want %d; %d files kept", len(lines), rounds*workers*each, g.keeper.Len())
	}
}

// TestFolderMissing: a file that cannot be opened costs nothing but its entries,
// and is written as soon as it can be.
func TestFolderMissing(t *testing.T) {
	g := newGateway(t)
	dir := filepath.Join(t.TempDir(), "missing")
	path := filepath.Join(dir, "file.log")
	r := g.compile(fmt.Sprintf(`{"path":%q}`, path), "")
	r.Log(plugintest.NewCtx("/"))
	time.Sleep(20 * time.Millisecond)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("a folder was made")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Log(plugintest.NewCtx("/"))
	lineOf(t, path, 0)
	r.close()
}

func TestInvalid(t *testing.T) {
	long := "[" + strings.TrimSuffix(strings.Repeat(`[["a","==","b"]],`, 21), ",") + "]"
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "no path", Config: `{}`, Invalid: `property "path" is not set in either the plugin conf or the metadata`},
		{Name: "match", Config: `{"path":"a","match":[[["a","=","b"]]]}`, Invalid: `failed to validate the 'match' expression: invalid operator '='`},
		{Name: "match without rules", Config: `{"path":"a","match":["a"]}`, Invalid: `property "match" validation failed: failed to validate item 1: wrong type: expected array, got string`},
		{Name: "many", Config: `{"path":"a","match":` + long + `}`, Invalid: `property "match" validation failed: expect array to have at most 20 items`},
	})
}

func BenchmarkLog(b *testing.B) {
	g := newGateway(b)
	r := g.compile(fmt.Sprintf(`{"path":%q}`, filepath.Join(b.TempDir(), "file.log")), "")
	c := plugintest.NewCtx("/", [2]string{"accept", "*/*"})
	b.ReportAllocs()
	for b.Loop() {
		r.Log(c)
	}
	r.close()
}

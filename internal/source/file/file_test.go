package file

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/dialect/apisix"
	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/keyauth"
	"weir/internal/snapshot"
	"weir/internal/source/declared"
	"weir/internal/upstream"
	"weir/internal/wire"
)

// documents takes long to make.
var documents = sync.OnceValue(func() *apisix.Checker { return apisix.New(apisix.Options{}) })

func TestMain(m *testing.M) { leaktest.Main(m) }

// A bench is a source of a file, the objects that it has delivered, and a
// gateway's state behind it.
type bench struct {
	*Source
	t     *testing.T
	path  string
	state *snapshot.Applier
	log   bytes.Buffer

	mu      sync.Mutex
	objects map[string]string // delivered, by path
	deltas  []model.Delta
}

func newBench(t *testing.T, name string, env map[string]string) *bench {
	t.Helper()
	b := &bench{t: t, path: filepath.Join(t.TempDir(), name), objects: map[string]string{}}
	type conf struct {
		V int `json:"v" schema:"default=0,min=0" doc:"A number."`
	}
	tag := plugin.Define(plugin.Meta{Name: "tag", Priority: 1, Doc: "Test plugin."},
		func(*conf, plugin.Env) (plugin.Phases, error) { return plugin.Phases{}, nil })
	specs := []plugin.Spec{keyauth.Plugin, tag}
	pools := upstream.NewPools()
	b.state = snapshot.New(snapshot.Config{Plugins: specs, Strict: true, Upstream: upstream.Env{Pools: pools}})
	t.Cleanup(func() {
		b.state.Close()
		pools.Close()
	})
	byName := map[string]plugin.Spec{}
	for _, s := range specs {
		byName[s.Name] = s
	}
	b.Source = New(Config{
		Path: b.path, Every: time.Millisecond, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		Lookup: func(n string) (string, bool) {
			v, ok := env[n]
			return v, ok
		},
		Check: (&declared.Checker{Documents: documents(), Plugins: byName}).Read,
	})
	return b
}

func (b *bench) apply(d model.Delta) error {
	b.state.Apply(d)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deltas = append(b.deltas, d)
	for _, o := range d.Put {
		b.objects[o.Key.String()] = string(o.Raw)
	}
	for _, k := range d.Del {
		delete(b.objects, k.String())
	}
	return nil
}

func (b *bench) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// load writes the file and looks at it once; it returns the step, if there was
// one.
func (b *bench) load(text string) (model.Delta, bool) {
	b.t.Helper()
	b.write(text)
	n := len(b.deltas)
	if err := b.look(b.apply); err != nil {
		b.t.Fatal(err)
	}
	if len(b.deltas) == n {
		return model.Delta{}, false
	}
	return b.deltas[n], true
}

// run follows the file until the test ends.
func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, b.apply) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) delivered() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(b.objects)), " ")
}

// until waits for something that happens by itself.
func (b *bench) until(what string, f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s; delivered %s, status %+v", what, b.delivered(), b.Status())
		}
	}
}

const node = `"upstream":{"nodes":{"127.0.0.1:1":1}}`

func TestFormats(t *testing.T) {
	env := map[string]string{"URI": "/env", "N": "3", "B": "true", "KEY": "12345", "HEX": "0x10"}
	for name, c := range map[string]struct{ file, text, want, problem string }{
		"yaml": {"apisix.yaml", "routes:\n- id: 1\n  uri: ${{URI}}\n  priority: ${{N}}\n  desc: \"${{N}}\"\n  upstream: {nodes: {\"${{HOST:=127.0.0.1}}:1\": 1}}\n#END\n",
			`{"id":1,"uri":"/env","priority":3,"desc":"3","upstream":{"nodes":{"127.0.0.1:1":1}}}`, ""},
		"null plugin":     {"apisix.yaml", "routes:\n- uri: /a\n  plugins:\n    key-auth:\n#END", `{"uri":"/a","plugins":{"key-auth":{}}}`, ""},
		"end and spaces":  {"apisix.yaml", "routes: [{uri: /a, plugins: {}}]\n#END \n\n", `{"uri":"/a","plugins":{}}`, ""},
		"end far away":    {"apisix.yaml", "routes: [{uri: /a, plugins: {}}]\n#END          \n", "", "missing valid end flag"},
		"no end":          {"apisix.yaml", "routes: [{uri: /a, plugins: {}}]\n", "", "missing valid end flag"},
		"no yaml":         {"apisix.yaml", "routes: [\n#END", "", "yaml:"},
		"empty":           {"apisix.yaml", "#END", "", "the document is empty"},
		"a list":          {"apisix.yaml", "[1]\n#END", "", "not a table of sections"},
		"no variable":     {"apisix.yaml", "# ${{NONE}}\nroutes: []\n#END", "", "can't find environment variable NONE"},
		"no reference":    {"apisix.yaml", "routes: [{uri: '/${{.x}}${{', plugins: {}}]\n#END", `{"uri":"/${{.x}}${{","plugins":{}}`, ""},
		"json":            {"apisix.json", `{"routes":[{"uri":"${{URI}}","priority":"${{N}}","status":1.0,"enable_websocket":"${{B}}","plugins":{"${{P:=key-auth}}":{}}}]}`, `{"uri":"/env","priority":3,"status":1.0,"enable_websocket":true,"plugins":{"key-auth":{}}}`, ""},
		"json number":     {"apisix.json", `{"routes":[{"uri":"/a","priority":"${{ HEX }}","desc":"v${{N}}","plugins":{}}]}`, `{"uri":"/a","priority":16,"desc":"v3","plugins":{}}`, ""},
		"json, no key":    {"apisix.json", `{"routes":[{"${{NONE}}":1}]}`, "", "can't find environment variable NONE"},
		"json, no string": {"apisix.json", `{"routes":[{"a":["${{NONE}}"]}]}`, "", "can't find environment variable NONE"},
		"no json":         {"apisix.json", `{"routes":`, "", "failed to decode json: line 1: Expected value but found T_END at character 11"},
		"json, line 3":    {"apisix.json", "{\n\"routes\":[\n{]}", "", "failed to decode json: line 3: Expected object key string but found T_ARR_END at character 15"},
		"json, end":       {"apisix.json", "{\"routes\":[]}\n#END", "", "failed to decode json"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.file, env)
			b.load(c.text)
			got := ""
			for _, raw := range b.objects {
				got += raw
			}
			if st := b.Status(); got != c.want || !strings.Contains(st.Problem, c.problem) || (st.Problem == "") != (c.problem == "") || len(st.Skipped) > 0 {
				t.Errorf("got %s, want %s; status %+v, want %q", got, c.want, st, c.problem)
			}
			if strings.Contains(b.Status().Problem, "12345") {
				t.Error("a variable's value is told")
			}
		})
	}
}

func TestOneRouteOfMany(t *testing.T) {
	const n = 5000
	text := func(changed string) string {
		var b strings.Builder
		b.WriteString("routes:\n")
		for i := range n {
			uri := fmt.Sprintf("/r/%d", i)
			if i == 2500 {
				uri = changed
			}
			fmt.Fprintf(&b, "  - id: r%d\n    uri: %s\n    plugins:\n      key-auth: {}\n    upstream:\n      type: roundrobin\n      nodes:\n        \"127.0.0.1:%d\": 1\n", i, uri, 1+i%9)
		}
		return b.String() + "#END\n"
	}
	b := newBench(t, "apisix.yaml", nil)
	if d, _ := b.load(text("/old")); len(d.Put) != n || d.Revision != 1 {
		t.Fatalf("revision %d, %d objects", d.Revision, len(d.Put))
	}
	before := b.state.Work().Compiled["routes"]
	began := time.Now()
	d, _ := b.load(text("/new"))
	t.Log("one of", n, "routes took", time.Since(began))
	if len(d.Put) != 1 || len(d.Del) != 0 || d.Put[0].ID != "r2500" || d.Put[0].Modified != 2 || d.Revision != 2 {
		t.Errorf("%d put, %d deleted, revision %d", len(d.Put), len(d.Del), d.Revision)
	}
	if got := b.state.Work().Compiled["routes"] - before; got != 1 {
		t.Errorf("%d routes were compiled", got)
	}
	if _, some := b.load(text("/new") + "# a comment\n#END\n"); some {
		t.Error("a step for a comment")
	}
	if d, _ := b.load("routes: []\n#END"); len(d.Del) != n || len(d.Put) != 0 {
		t.Errorf("%d put, %d deleted", len(d.Put), len(d.Del))
	}
}

// A broken object is delivered: it keeps its last good form, and where it has
// none and may be a guard it refuses instead of leaving its place to others.
func TestBroken(t *testing.T) {
	b := newBench(t, "apisix.json", nil)
	b.load(`{"routes":[{"id":"good","uri":"/a",` + node + `},
		{"id":"unknown","uri":"/unknown","plugins":{"x-rewrite":{}}},
		{"id":"later","uri":"/later","plugins":{"proxy-rewrite":{}}},
		{"id":"conf","uri":"/conf","plugins":{"tag":{"v":-1}}},
		{"id":"typo","uri":"/typo","plugin":{"key-auth":{}},` + node + `},
		{"id":"guard","uri":"/guard","plugins":{"key-auth":{}},"stauts":1,` + node + `},
		{"id":"type","uri":1,` + node + `}, "text", {"uri":"/nameless",` + node + `},
		{"id":"lua","uri":"/lua","script":"local ngx = ngx",` + node + `},
		{"id":"rest","uri":"/*",` + node + `}],
		"upstreams":{"id":1},
		"consumers":[{"username":"a&b"},{"username":"jack","plugins":{"key-auth":{"key":"k"}}},{"id":"jack/credentials/c","plugins":{"tag":{}}},{}],
		"secrets":[{"id":"x/1"},{"id":"vault"},{"id":"vault/1","uri":"http://a","prefix":"p","token":"t"},{"uri":"http://a"}],
		"plugin_metadata":[{"x":1},{"id":"nothing"},{"id":"tag"}]}`)
	check := func(what string, got map[string]error, want map[string]string) {
		t.Helper()
		for path, words := range want {
			if err := got[path]; err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %s: got %v, want %q", what, path, err, words)
			}
		}
		for path, err := range got {
			if _, expected := want[path]; !expected {
				t.Errorf("%s: %s: %v", what, path, err)
			}
		}
	}
	skipped := map[string]string{
		"routes/arr_8":          "wrong type: expected object, got string",
		"upstreams/":            "wrong type: expected array, got object",
		"consumers/arr_4":       `property "username" is required`,
		"secrets/arr_4":         "invalid secret id: ",
		"plugin_metadata/arr_1": "missing plugin name",
	}
	check("skipped", b.Status().Skipped, skipped)
	check("faults", b.faults(), map[string]string{
		"routes/unknown":               "unknown plugin [x-rewrite]",
		"routes/later":                 "unknown plugin [proxy-rewrite]",
		"routes/conf":                  `failed to check the configuration of plugin tag err: property "v" validation failed: expected -1 to be at least 0`,
		"routes/typo":                  "additional properties forbidden, found plugin",
		"routes/guard":                 "additional properties forbidden, found stauts",
		"routes/type":                  `invalid configuration: property "uri" validation failed: wrong type: expected string, got number`,
		"routes/lua":                   "Lua is not supported",
		"consumers/a&b":                `property "username" validation failed`,
		"consumers/jack/credentials/c": "only supports auth type plugins in consumer credential",
		"secrets/x/1":                  "invalid secret manager: x",
		"secrets/vault":                "invalid secret id: vault",
		"plugin_metadata/nothing":      "invalid plugin name",
	})
	for path, want := range map[string]string{
		"/a": "good", "/unknown": "unknown 503", "/later": "later 503", "/guard": "guard 503", "/conf": "rest", "/typo": "rest", "/nameless": "arr_9",
	} {
		if got := b.serves(path); got != want {
			t.Errorf("%s is served by %q, want %q", path, got, want)
		}
	}
	lines := strings.Count(b.log.String(), "left out")
	b.load(`{"routes":[{"id":"conf","uri":"/conf","plugins":{"tag":{"v":1}}},{"id":"rest","uri":"/*",` + node + `},{},{},{},{},{},"text"]}`)
	if got := strings.Count(b.log.String(), "left out"); got != lines {
		t.Errorf("what was skipped before is logged again: %s", &b.log)
	}
	for _, conf := range []string{`{"v":-1}`, `{"v":1}},"desc":7,"labels":{"a":"b"`} { // one does not compile, one is not even read
		b.load(`{"routes":[{"id":"conf","uri":"/conf","plugins":{"tag":` + conf + `}},{"id":"rest","uri":"/*",` + node + `}]}`)
		if got := b.serves("/conf"); got != "conf" || b.faults()["routes/conf"] == nil {
			t.Errorf("broken after it was good, /conf is served by %q, faults %v", got, b.faults())
		}
	}
}

// Mistakes that are no mistakes of YAML are told: a section under a name that
// nobody reads, an id that is there twice, a section that is no list, which leaves
// what it had.
func TestMistakesAreTold(t *testing.T) {
	b := newBench(t, "apisix.yaml", nil)
	first := "routes: [{id: 1, uri: /a, upstream_id: u}, {id: 2, uri: /b, upstream_id: u}]\nupstreams: [{id: u, nodes: {'a:1': 1}}]\n" +
		"consumers: [{username: jack, plugins: {key-auth: {key: k}}}, {id: jack/credentials/1, plugins: {key-auth: {key: l}}}]\n#END"
	for _, c := range []struct {
		text    string
		objects string
		skipped string
	}{
		{first, "consumers/jack consumers/jack/credentials/1 routes/1 routes/2 upstreams/u", ""},
		{strings.ReplaceAll(first, "upstreams:", "upstream:"), "consumers/jack consumers/jack/credentials/1 routes/1 routes/2", "upstream: there is no section of this name"},
		{strings.ReplaceAll(first, "id: 2", "id: 1"), "consumers/jack consumers/jack/credentials/1 routes/1 upstreams/u", "routes/1: another object of the same id comes later, and the last counts"},
		{"routes: {id: 3, uri: /c}\nconsumers: none\nx-nodes: [1]\nother: {a: 1}\n#END", "consumers/jack consumers/jack/credentials/1 routes/1",
			"consumers/: invalid configuration: wrong type: expected array, got string; the objects of this section stay as they were\n" +
				"routes/: invalid configuration: wrong type: expected array, got object; the objects of this section stay as they were"},
		{"routes: [{id: 3, uri: /c, plugins: {key-auth: {}}}]\n#END", "routes/3", ""},
	} {
		b.load(c.text)
		var told []string
		for _, path := range slices.Sorted(maps.Keys(b.Status().Skipped)) {
			told = append(told, path+": "+b.Status().Skipped[path].Error())
		}
		if got := strings.Join(told, "\n"); got != c.skipped {
			t.Errorf("%s\ntold:\n%s\nwant:\n%s", c.text, got, c.skipped)
		}
		b.mu.Lock()
		got := strings.Join(slices.Sorted(maps.Keys(b.objects)), " ")
		b.mu.Unlock()
		if got != c.objects {
			t.Errorf("%s\nobjects: %s\nwant:    %s", c.text, got, c.objects)
		}
	}
}

// faults are the objects that do not run as the file has them.
func (b *bench) faults() map[string]error { return maps.Collect(b.state.Current().Faults) }

// serves is the route of a path, and its fault.
func (b *bench) serves(path string) string {
	r := b.state.Current().Match(&plugin.Ctx{Request: &wire.Request{Method: "GET", Host: "h"}, Path: path, Client: "127.0.0.1"})
	switch {
	case r == nil:
		return ""
	case r.Fault != 0:
		return fmt.Sprint(r.ID, " ", r.Fault)
	}
	return r.ID
}

func TestPluginList(t *testing.T) {
	b := newBench(t, "apisix.yaml", nil)
	b.state.Enable(snapshot.Selection{Names: []string{"key-auth"}, StreamNames: []string{}})
	routes := "routes: [{id: k, uri: /k, plugins: {key-auth: {}}}, {id: t, uri: /t, plugins: {tag: {}}}]\n"
	for _, c := range []struct{ text, k, t string }{
		{"", "k", ""},
		{"plugins: [{name: tag}]\n", "k 503", "t"},
		{"plugins:\n", "k 503", ""},
		{"plugins: [{name: tag}, {name: key-auth}]\n", "k", "t"},
		{"plugins: [{name: tag, stream: true}]\n", "k 503", ""},
		{"plugins: [{name: tag, stream: x}]\n", "k 503", ""}, // the list before stays
		{"plugin_metadata: [{id: tag}, {id: key-auth}]", "k", ""},
	} {
		b.load(routes + c.text + "\n#END")
		if k, tag := b.serves("/k"), b.serves("/t"); k != c.k || tag != c.t {
			t.Errorf("%s: served by %q and %q, want %q and %q", c.text, k, tag, c.k, c.t)
		}
	}
	fresh := newBench(t, "apisix.yaml", nil)
	fresh.state.Enable(snapshot.Selection{Names: []string{"key-auth"}})
	fresh.load(routes + "plugins: [{name: tag, stream: x}]\n#END")
	if got := fresh.serves("/k"); got != "k" {
		t.Errorf("with a broken list from the start /k is served by %q", got)
	}
}

func TestWatch(t *testing.T) {
	b := newBench(t, "apisix.yaml", nil)
	b.run()
	b.until("that there is no file", func() bool { return strings.Contains(b.Status().Problem, "no such file") })
	route := func(id string) string { return "routes: [{id: " + id + ", uri: /a, plugins: {}}]\n#END\n" }
	is := func(want string) {
		t.Helper()
		b.until(want, func() bool { return b.delivered() == want && b.Status().Problem == "" })
	}
	b.write(route("a"))
	is("routes/a")

	// A file that is written slowly is read when its end is there.
	f, err := os.Create(b.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.SplitAfter(route("b"), "\n") {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	is("routes/b")

	b.write("routes: [\n#END")
	b.until("a broken file", func() bool { return b.Status().Problem != "" })
	if got := b.delivered(); got != "routes/b" {
		t.Errorf("a broken file left %s", got)
	}
	b.write(route("b"))
	is("routes/b")

	// Another file takes the place, with the same size and the same time.
	info, err := os.Stat(b.path)
	if err != nil {
		t.Fatal(err)
	}
	other := b.path + ".new"
	if err := os.WriteFile(other, []byte(route("c")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, b.path); err != nil {
		t.Fatal(err)
	}
	is("routes/c")

	// The same length within the same tick of the clock of the file system.
	for i := range 50 {
		b.write(route(string(rune('a' + i%2))))
		is("routes/" + string(rune('a'+i%2)))
	}

	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	b.until("a missing file", func() bool { return strings.Contains(b.Status().Problem, "no such file") })
	if got := b.delivered(); got != "routes/b" {
		t.Errorf("a missing file left %s", got)
	}
	b.write(route("b"))
	is("routes/b")
	b.write(route("d"))
	is("routes/d")
}

func TestOldFileIsNotReadAgain(t *testing.T) {
	b := newBench(t, "apisix.yaml", nil)
	b.write("routes: []\n#END")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(b.path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := b.look(b.apply); err != nil {
		t.Fatal(err)
	}
	at := b.at
	for range 3 {
		if err := b.look(b.apply); err != nil {
			t.Fatal(err)
		}
	}
	if b.at != at {
		t.Error("read again")
	}
}

func TestLogsOnce(t *testing.T) {
	b := newBench(t, "apisix.yaml", nil)
	for range 5 {
		b.load("routes: []\n")
	}
	if n := strings.Count(b.log.String(), "missing valid end flag"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestApplyError(t *testing.T) {
	b := newBench(t, "apisix.yaml", nil)
	b.write("routes: []\n#END")
	refuse := func(model.Delta) error { return fmt.Errorf("no") }
	if err := b.Run(t.Context(), refuse); err == nil || !strings.Contains(err.Error(), "apply revision 1") {
		t.Error(err)
	}
}

// Whatever files come after each other, what was delivered is what the last
// one says, as if it were the first.
func TestDifferential(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := newBench(t, "apisix.json", nil)
	section := func(items ...string) string {
		var out []string
		for _, it := range items {
			if r.IntN(3) > 0 {
				out = append(out, it)
			}
		}
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return "[" + strings.Join(out, ",") + "]"
	}
	for i := range 300 {
		v := fmt.Sprint(r.IntN(4) - 1)
		text := `{"routes":` + section(`{"id":1,"uri":"/1","upstream_id":1}`, `{"uri":"/2","plugins":{"tag":{"v":`+v+`}}}`, `{"id":"3","uri":"/3","service_id":1,"plugins":{"key-auth":{}}}`) +
			`,"services":` + section(`{"id":1,"desc":"`+v+`"}`) + `,"upstreams":` + section(`{"id":1,"nodes":{"127.0.0.1:1":`+v+`}}`) +
			`,"consumers":` + section(`{"username":"a","plugins":{"key-auth":{"key":"`+v+`"}}}`, `{"id":"a/credentials/b","plugins":{"key-auth":{"key":"b`+v+`"}}}`)
		if r.IntN(4) == 0 {
			text += `,"plugins":` + section(`{"name":"tag"}`, `{"name":"key-auth"}`)
		}
		b.load(text + "}")
		fresh := newBench(t, "apisix.json", nil)
		fresh.load(text + "}")
		if !maps.Equal(b.objects, fresh.objects) {
			t.Fatalf("step %d, %s}: delivered %v, want %v", i, text, b.objects, fresh.objects)
		}
		for k := range model.KindCount {
			if got, want := b.state.Current().Count(k), fresh.state.Current().Count(k); got != want {
				t.Fatalf("step %d: %d %s, want %d", i, got, k.Dir(), want)
			}
		}
	}
}

// FuzzParse holds that no text panics and that what is read can be printed and
// read.
func FuzzParse(f *testing.F) {
	f.Add([]byte("routes: [{uri: '${{A}}', x: ${{B:=1}}}]\n#END"), false)
	f.Add([]byte(`{"routes":[{"uri":"${{A}}","${{B:=x}}":"${{C:= true }}"}]}`), true)
	f.Fuzz(func(t *testing.T, text []byte, isJSON bool) {
		name := "apisix.yaml"
		if isJSON {
			name = "apisix.json"
		}
		s := New(Config{Path: name, Lookup: func(string) (string, bool) { return "${{A}}", true }})
		doc, err := s.parse(text)
		if err != nil {
			return
		}
		for _, it := range declared.Items(doc) {
			if len(it.Raw) == 0 {
				t.Fatal(it.Key)
			}
		}
	})
}

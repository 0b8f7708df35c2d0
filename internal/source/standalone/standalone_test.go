package standalone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/dialect/apisix"
	"weir/internal/document"
	"weir/internal/leaktest"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugins/keyauth"
	"weir/internal/snapshot"
	"weir/internal/source/declared"
	"weir/internal/upstream"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("WEIR_STANDALONE_CHILD"); dir != "" {
		child(dir)
	}
	leaktest.Main(m)
}

// documents takes long to make.
var documents = sync.OnceValue(func() *apisix.Checker { return apisix.New(apisix.Options{}) })

// A bench is a source with a gateway's state behind it.
type bench struct {
	*Source
	t     *testing.T
	state *snapshot.Applier
	stop  func()

	checks  int
	objects map[string]string // delivered, by path
	deltas  []model.Delta
}

func open(t *testing.T, dir string) *bench {
	t.Helper()
	b := &bench{t: t, objects: map[string]string{}}
	pools := upstream.NewPools()
	b.state = snapshot.New(snapshot.Config{Plugins: []plugin.Spec{keyauth.Plugin}, Upstream: upstream.Env{Pools: pools}})
	checker := &declared.Checker{
		Documents: documents(), Plugins: map[string]plugin.Spec{"key-auth": keyauth.Plugin}, Versioned: true,
		Compile: func(o model.Object) error {
			b.checks++
			return b.state.Check(o)
		},
	}
	var err error
	if b.Source, err = Open(Config{Dir: dir, Checker: checker}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Run(ctx, func(d model.Delta) error {
			b.deltas = append(b.deltas, d)
			for _, o := range d.Put {
				b.objects[o.Key.String()] = string(o.Raw)
			}
			for _, k := range d.Del {
				delete(b.objects, k.String())
			}
			b.state.Apply(d)
			return nil
		})
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		err := errors.Join(<-ended, b.Close())
		b.state.Close()
		pools.Close()
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	b.wait(1)
	return b
}

// wait returns when requests see a revision.
func (b *bench) wait(revision int64) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.state.Wait(ctx, revision); err != nil {
		b.t.Fatalf("revision %d is never live", revision)
	}
}

var pushes = 0

// push pushes a document with a digest of its own and waits until it is live.
func (b *bench) push(text string) error {
	b.t.Helper()
	doc, err := document.Parse([]byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	pushes++
	d, err := b.Push(fmt.Sprint("digest ", pushes), doc)
	if err == nil {
		b.wait(d.Revision)
	}
	return err
}

func (b *bench) mustPush(text string) {
	b.t.Helper()
	if err := b.push(text); err != nil {
		b.t.Fatalf("%.200s: %v", text, err)
	}
}

func route(id, uri, more string) string {
	return `{"id":"` + id + `","uri":"` + uri + `","plugins":{}` + more + `}`
}

func TestVersions(t *testing.T) {
	b := open(t, t.TempDir())
	for _, c := range []struct{ doc, want, routes, live string }{
		{`{"routes":[` + route("r1", "/1", "") + `]}`, "", "1", "/1"},
		{`{}`, "", "2", ""},
		{`{"routes_conf_version":15}`, "", "15", ""},
		{`{"routes_conf_version":1060,"routes":[` + route("r1", "/1", "") + `]}`, "", "1060", "/1"},
		{`{"routes_conf_version":1060,"routes":[` + route("r1", "/2", "") + `,` + route("r2", "/3", "") + `]}`, "", "1060", "/1"},
		{`{"routes_conf_version":1060.0}`, "", "1060", "/1"},
		{`{"routes_conf_version":1,"routes":[]}`, "routes_conf_version must be greater than or equal to (1060)", "1060", "/1"},
		{`{"routes_conf_version":-1}`, "routes_conf_version must be greater than or equal to (1060)", "1060", "/1"},
		{`{"routes_conf_version":"adc"}`, "routes_conf_version must be a number", "1060", "/1"},
		{`{"routes_conf_version":1e999}`, "routes_conf_version must be a number", "1060", "/1"},
		{`{"routes_conf_version":1760000000000,"routes":[` + route("r1", "/2", "") + `]}`, "", "1760000000000", "/2"},
		{`{"routes":[` + route("r1", "/1", `,"modifiedIndex":1`) + `]}`, "", "1760000000001", "/1"},
		{`{"routes":[` + route("r1", "/2", `,"modifiedIndex":1.0`) + `]}`, "", "1760000000002", "/1"},
		{`{"routes":[` + route("r1", "/3", `,"modifiedIndex":1`) + `]}`, "", "1760000000003", "/1"},
		{`{"routes_conf_version":1760000000003,"upstreams":[{"nodes":{}}]}`, "", "1760000000003", "/1"},
		{`{"routes":[` + route("r1", "/3", `,"modifiedIndex":2`) + `]}`, "", "1760000000004", "/3"},
		{`{"routes":[` + route("r1", "/4", "") + `]}`, "", "1760000000005", "/4"},
		{`{"routes":[` + route("r1", "/5", `,"modifiedIndex":1760000000005`) + `]}`, "", "1760000000006", "/4"},
		{`{"routes":[` + route("r1", "/1", "") + `,` + route("r1", "/1", "") + `]}`, "found duplicate id r1 in routes", "1760000000006", "/4"},
		{`{"routes":[{"id":"r1","uri":"/1","plugins":{"x":{}}}]}`, "unknown plugin [x]", "1760000000006", "/4"},
		{`{"routes":[]}`, "", "1760000000007", ""},
	} {
		err := b.push(c.doc)
		var refused *Refused
		if errors.As(err, &refused) != (c.want != "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.doc, err, c.want)
		}
		if got := b.Current().Value.Get("routes_conf_version").Text; got != c.routes {
			t.Errorf("%s: version %s, want %s", c.doc, got, c.routes)
		}
		if got := b.objects["routes/r1"]; c.live == "" && got != "" || !strings.Contains(got, c.live) {
			t.Errorf("%s: live is %s, want %s", c.doc, got, c.live)
		}
		if len(b.objects) > 1 && strings.Contains(c.doc, "upstreams") == false {
			t.Errorf("%s: %v", c.doc, b.objects)
		}
	}
}

func TestDigest(t *testing.T) {
	b := open(t, t.TempDir())
	doc := document.NewObject()
	first, err := b.Push("", doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Push("", doc); !errors.Is(err, ErrSame) {
		t.Error(err)
	}
	second, err := b.Push("2", doc)
	if err != nil || second.Revision != first.Revision || second.Digest != "2" {
		t.Errorf("%+v, %v", second, err)
	}
	b.stop()
	if _, err := b.Push("3", doc); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestOneRouteOfMany(t *testing.T) {
	const n = 5000
	text := func(changed string) string {
		var list []string
		for i := range n {
			uri := fmt.Sprintf("/r/%d", i)
			if i == 2500 {
				uri = changed
			}
			list = append(list, fmt.Sprintf(`{"id":"r%d","uri":%q,"plugins":{"key-auth":{}},"upstream":{"type":"roundrobin","nodes":{"127.0.0.1:1":1}}}`, i, uri))
		}
		return `{"routes":[` + strings.Join(list, ",") + `]}`
	}
	b := open(t, t.TempDir())
	b.mustPush(text("/old"))
	compiled, checks := b.state.Work().Compiled["routes"], b.checks
	if compiled != n || checks != n {
		t.Fatalf("%d compiled, %d checked", compiled, checks)
	}
	began := time.Now()
	b.mustPush(text("/new"))
	t.Log("one of", n, "routes took", time.Since(began))
	if got := b.state.Work().Compiled["routes"] - compiled; got != 1 {
		t.Errorf("%d routes were compiled", got)
	}
	if got := b.checks - checks; got != 1 {
		t.Errorf("%d routes were checked", got)
	}
	if d := b.deltas[len(b.deltas)-1]; len(d.Put) != 1 || len(d.Del) != 0 || d.Put[0].ID != "r2500" {
		t.Errorf("%d put, %d deleted", len(d.Put), len(d.Del))
	}
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	b.mustPush(`{"routes":[` + route("r1", "/1", `,"modifiedIndex":1`) + `],"plugins":[{"name":"x"}]}`)
	b.mustPush(`{"routes":[` + route("r1", "/2", `,"modifiedIndex":1`) + `,` + route("r2", "/2", "") + `],"consumers":[{"username":"jack"},{"id":"jack/credentials/a","plugins":{"key-auth":{"key":"k"}}}]}`)
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Error(err)
	}
	was, live := b.Current(), maps.Clone(b.objects)
	if !strings.Contains(live["routes/r1"], `"/1"`) || len(live) != 4 {
		t.Fatal(live)
	}
	b.stop()
	if st, err := os.Stat(filepath.Join(dir, fileName)); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}

	b = open(t, dir)
	if now := b.Current(); now.Value.String() != was.Value.String() || now.Digest != was.Digest || now.LastModified != was.LastModified {
		t.Errorf("%s, want %s", now.Value, was.Value)
	}
	if !maps.Equal(b.objects, live) {
		t.Errorf("%v, want %v", b.objects, live)
	}
	if _, err := b.Push(was.Digest, document.NewObject()); !errors.Is(err, ErrSame) {
		t.Error(err)
	}
	b.mustPush(`{"routes":[` + route("r1", "/3", `,"modifiedIndex":1`) + `]}`)
	if len(b.objects) != 1 || !strings.Contains(b.objects["routes/r1"], `"/1"`) {
		t.Error(b.objects)
	}
}

func TestDamaged(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"document":{}}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNotStored(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	b.mustPush(`{"routes":[` + route("r1", "/1", "") + `]}`)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	was := b.Current()
	if err := b.push(`{}`); err == nil || !strings.Contains(err.Error(), "standalone: ") {
		t.Error(err)
	}
	if b.Current() != was || len(b.objects) != 1 {
		t.Errorf("what was not stored is in force: %v", b.objects)
	}
}

// Whatever is pushed, what was delivered is the last document, and a restart
// changes nothing.
func TestDifferential(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	b := open(t, dir)
	for i := range 200 {
		want, list := map[string]string{}, []string{}
		for id := range 8 {
			if r.IntN(3) == 0 {
				continue
			}
			raw := fmt.Sprintf(`{"id":"%d","nodes":{"127.0.0.1:1":%d}}`, id, r.IntN(3))
			want[fmt.Sprintf("upstreams/%d", id)] = raw
			list = append(list, raw)
		}
		b.mustPush(`{"upstreams":[` + strings.Join(list, ",") + `]}`)
		if !maps.Equal(b.objects, want) {
			t.Fatalf("push %d: %v, want %v", i, b.objects, want)
		}
		if i%50 == 0 {
			b.stop()
			b = open(t, dir)
			if !maps.Equal(b.objects, want) {
				t.Fatalf("push %d, restarted: %v, want %v", i, b.objects, want)
			}
		}
	}
}

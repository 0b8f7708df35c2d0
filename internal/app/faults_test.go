package app

// Bad input and faults: what clients, stores and files may do to the
// configuration of a whole gateway, and the field reports under stale and memory
// that concern it.

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/source/etcd"
)

func TestHostileInput(t *testing.T) {
	o, _ := options(t, t.TempDir(), withKey)
	g := start(t, o)
	defer stop(t, g)
	const ok = `{"uri":"/a","upstream":{"nodes":{"127.0.0.1:1":1}}}`
	const limit = 3 << 19
	pad := func(n int) string { return ok[:len(ok)-1] + strings.Repeat(" ", n-len(ok)) + "}" }
	for name, c := range map[string]struct {
		path, body string
		status     int
		words      string
	}{
		"dots":               {"/routes/../consumers/jack", ok, 400, `property \"username\" is required`},
		"encoded dots":       {"/routes/..%2fconsumers%2fjack", ok, 400, `property \"username\" is required`}, // one view of the path, as nginx's
		"encoded slash":      {"/routes/a%2fb", ok, 201, `"key":"/apisix/routes/a"`},                          // PUT ignores sub paths
		"NUL":                {"/routes/a%00b", ok, 400, `property \"id\" validation failed`},
		"line feed":          {"/routes/a%0ab", ok, 400, `property \"id\" validation failed`},
		"no UTF-8":           {"/routes/%ff%fe", ok, 400, `property \"id\" validation failed`},
		"emoji":              {"/routes/%F0%9F%92%A3", ok, 400, `property \"id\" validation failed`},
		"64 characters":      {"/routes/" + strings.Repeat("a", 64), ok, 201, ""},
		"65 characters":      {"/routes/" + strings.Repeat("a", 65), ok, 400, `property \"id\" validation failed`},
		"100 kB":             {"/routes/" + strings.Repeat("a", 100_000), ok, 400, `property \"id\" validation failed`},
		"deep arrays":        {"/routes/1", strings.Repeat("[", 100_000), 400, "Found too many nested data structures (1001)"},
		"deep objects":       {"/routes/1", strings.Repeat(`{"a":`, 100_000), 400, "Found too many nested data structures (1001)"},
		"deep in a plugin":   {"/routes/1", `{"uri":"/a","plugins":{"key-auth":` + strings.Repeat(`{"a":`, 990) + "1" + strings.Repeat("}", 990) + `}}`, 400, "nested deeper than 256 levels"},
		"a name twice":       {"/routes/twice", `{"uri":1,"uri":"/b","plugins":{}}`, 201, `"uri":"/b"`},
		"a huge number":      {"/routes/1", `{"uri":"/a","plugins":{},"priority":1e400}`, 400, "number out of range"},
		"a huge integer":     {"/routes/1", `{"uri":"/a","plugins":{},"priority":99999999999999999999999999}`, 400, ""},
		"as large as may be": {"/routes/large", pad(limit), 201, ""},
		"one byte more":      {"/routes/1", pad(limit + 1), 400, "request size 1572865 is greater than the maximum size 1572864 allowed"},
		"half a surrogate":   {"/routes/1", `{"uri":"/\ud800","plugins":{}}`, 400, "invalid request body"},
		"bytes no UTF-8":     {"/routes/1", "{\"uri\":\"/\xff\",\"plugins\":{}}", 201, ""},
		"no JSON":            {"/routes/1", "uri: /a", 400, "invalid request body: Expected value"},
		"two documents":      {"/routes/1", ok + ok, 400, "Expected the end but found T_OBJ_BEGIN"},
		"endless pattern":    {"/routes/vars", `{"uri":"/a","plugins":{},"vars":[["uri","~~","((((a+)+)+)+)+$"]]}`, 201, ""},
		"no pattern":         {"/routes/1", `{"uri":"/a","plugins":{},"vars":[["uri","~~","("]]}`, 400, "failed to validate the 'vars' expression"},
	} {
		status, body := do(t, g, "PUT", c.path, c.body)
		if status != c.status || !strings.Contains(body, c.words) {
			t.Errorf("%s: %d %.300s, want %d with %s", name, status, body, c.status, c.words)
		}
	}
	for k := range model.KindCount {
		if n := g.state.Current().Count(k); n > 0 && k != model.KindRoute {
			t.Errorf("%d %s are there", n, k.Dir())
		}
	}
	for path, err := range g.state.Current().Faults {
		t.Errorf("%s was stored and does not run: %v", path, err)
	}
}

// What another client put into the store may name what is not there, or be no
// object at all. Nothing that it guards opens, and the rest is served.
func TestHostileStore(t *testing.T) {
	o, _ := options(t, t.TempDir(), withKey)
	g := start(t, o)
	defer stop(t, g)
	up := `"upstream":{"nodes":{"` + origin(t) + `":1},"type":"roundrobin"}`
	var last int64
	for key, value := range map[string]string{
		"/routes/good": `{"uri":"/good",` + up + `}`, "/routes/service": `{"uri":"/service","service_id":"none"}`,
		"/routes/upstream": `{"uri":"/upstream","upstream_id":"none"}`, "/routes/config": `{"uri":"/config","plugin_config_id":"none",` + up + `}`,
		"/routes/rest": `{"uri":"/*",` + up + `}`, "/routes/text": `not JSON`, "/routes/list": `[1]`, "/routes/null": `null`,
		"/routes/empty": ``, "/routes/deep": strings.Repeat("[", 100_000), "/routes/": `init_dir`, "/routes/no/such/place": `{"uri":"/x"}`,
		"/nowhere/1": `{}`, "/consumers/a/b/c/d": `{}`, "/consumers/": `{}`, "/plugins": `{"name":"x"}`,
		"/services/s/graphql_cost_decorations/d": `{"field_path":5}`, "/global_rules/r": `{"plugins":5}`,
		"/ssls/1": `{"cert":"x","key":"y","sni":"*"}`, "/secrets/vault/1": `7`, "/plugin_metadata/key-auth": `"x"`, "/protos/p": `{"content":7}`,
	} {
		if key == "/global_rules/r" {
			continue // it closes the gateway: below
		}
		res, err := g.store.Put(t.Context(), key, []byte(value), etcd.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, res.Revision)
	}
	if err := g.state.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	proxy := "http://" + g.Data()[0].String()
	for path, want := range map[string]int{"/good": 200, "/service": 404, "/upstream": 502, "/config": 503, "/else": 200} {
		if status, body := get(t, proxy+path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	for _, key := range []string{"routes/text", "routes/list", "routes/empty", "routes/deep", "plugins"} {
		if k, _ := etcd.ObjectKey(key); g.state.Current().Fault(k) == nil {
			t.Errorf("%s has no fault", key)
		}
	}
	res, err := g.store.Put(t.Context(), "/global_rules/r", []byte(`{"plugins":5}`), etcd.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.state.Wait(t.Context(), res.Revision); err != nil {
		t.Fatal(err)
	}
	if status, _ := get(t, proxy+"/good"); status != 503 {
		t.Errorf("with a global rule that nobody can read: %d", status)
	}
}

// Case 77: a key that changed in the file opens nothing any more. Case 78: edits
// of other objects, however many, leave each consumer what it is.
func TestFieldStaleFile(t *testing.T) {
	dir := t.TempDir()
	o, _ := options(t, dir, "deployment: {role: data_plane, role_data_plane: {config_provider: json}}\n")
	o.Config.File = filepath.Join(dir, "config.yaml")
	const consumers, reloads = 50, 5
	r := rand.New(rand.NewPCG(1, 2))
	up := origin(t)
	write := func(key string) {
		var b strings.Builder
		fmt.Fprintf(&b, `{"routes":[{"id":"r","uri":"/a","plugins":{"key-auth":{}},"upstream":{"nodes":{%q:1}}},{"id":"x","uri":"/x%d","plugins":{}}],"consumers":[{"username":"jack","plugins":{"key-auth":{"key":%q}}}`, up, r.IntN(1000), key)
		for _, i := range r.Perm(consumers) {
			fmt.Fprintf(&b, `,{"username":"c%d","plugins":{"key-auth":{"key":"k%d"}}}`, i, i)
		}
		fmt.Fprintf(&b, `,{"username":"extra","desc":"%d"}]}`, r.IntN(1000))
		next := filepath.Join(dir, "next")
		if err := os.WriteFile(next, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "apisix.json")); err != nil {
			t.Fatal(err)
		}
	}
	write("my-key")
	g := start(t, o)
	defer stop(t, g)
	url := "http://" + g.Data()[0].String() + "/a"
	opens := func(key string) bool { status, _ := get(t, url, "apikey", key); return status == 200 }
	if !opens("my-key") {
		t.Fatal("the first key opens nothing")
	}
	write("my-new-key")
	until(t, "the new key", func() bool { return opens("my-new-key") })
	if opens("my-key") {
		t.Error("the old key still opens")
	}
	compiled := g.state.Work().Compiled["consumers"]
	for range reloads {
		before := g.state.Current().Revision
		write("my-new-key")
		until(t, "the next state", func() bool { return g.state.Current().Revision > before || opens("nothing") })
		for i := range consumers {
			if c := g.state.Current().Find("key-auth", fmt.Sprintf("k%d", i)); c == nil || c.Name != fmt.Sprintf("c%d", i) {
				t.Fatalf("consumer %d is %+v", i, c)
			}
		}
	}
	if n := g.state.Work().Compiled["consumers"] - compiled; n > reloads {
		t.Errorf("%d consumers were compiled for %d edits of one", n, reloads)
	}
}

// Cases 36, 39, 41, 42, 43: neither memory nor the number of goroutines grows with the
// number of changes.
func TestFieldMemory(t *testing.T) {
	o, _ := options(t, t.TempDir(), `deployment: {role_traditional: {config_provider: yaml}, admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: abc, role: admin}]}}`+"\n")
	g := start(t, o)
	defer stop(t, g)
	up := origin(t)
	proxy := "http://" + g.Data()[0].String()
	push := func(n int) {
		// The same upstreams every time, and a route and a consumer that never were before.
		var b strings.Builder
		b.WriteString(`{"upstreams":[`)
		for i := range 40 {
			fmt.Fprintf(&b, `{"id":"u%d","nodes":{%q:1},"checks":{"active":{"http_path":"/%d"}}},`, i, up, n%2)
		}
		fmt.Fprintf(&b, `{"id":"last","nodes":{%q:1}}],"routes":[{"id":"breaker","desc":"%d","uri":"/breaker","plugins":{"api-breaker":{"break_response_code":502}},"upstream_id":"last"},{"id":"r%d","uri":"/%d","plugins":{"limit-req":{"rate":1e6,"burst":0,"key":"remote_addr"}},"upstream_id":"last"}],"consumers":[{"username":"c%d","plugins":{"key-auth":{"key":"k%d"}}}]}`, up, n, n, n, n, n)
		req, err := http.NewRequest("PUT", g.adminURL()+"/configs", strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", "abc")
		req.Header.Set("X-Digest", fmt.Sprint(n))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 202 {
			t.Fatalf("push %d: %d", n, res.StatusCode)
		}
		for _, path := range []string{fmt.Sprint(n), "breaker"} {
			if status, body := get(t, proxy+"/"+path); status != 200 {
				t.Fatalf("%s after %d changes: %d %s", path, n, status, body)
			}
		}
	}
	held := func() (heap uint64, goroutines int) {
		var m runtime.MemStats
		for range 3 { // what is retired is closed by goroutines
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	for n := range 40 {
		push(n)
	}
	heap, goroutines := held()
	for n := range 120 {
		push(40 + n)
	}
	after, more := held()
	if after > heap+heap/10+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes in 120 changes", heap, after)
	}
	if more > goroutines+20 {
		t.Errorf("%d goroutines became %d", goroutines, more)
	}
}

package app

// Tests of the field reports under churn-latency and stale: what users of other
// gateways ran into, in a whole gateway. The numbers are those of the reports.

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir/internal/config"
	"weir/internal/source/embed"
)

// A site is a whole gateway and its Admin API's client.
type site struct {
	t     *testing.T
	g     *Gateway
	proxy string
	admin string
	http  *http.Client
	echo  string // host:port of an upstream that answers 200 with its name
}

// meanwhile calls f again and again, n times at once, until end is called.
func meanwhile(n int, f func()) (end func()) {
	var wg sync.WaitGroup
	var over atomic.Bool
	for range n {
		wg.Go(func() {
			for !over.Load() {
				f()
			}
		})
	}
	return func() {
		over.Store(true)
		wg.Wait()
	}
}

const siteKey = "site-admin-key"

func newSite(t *testing.T, more string) *site {
	t.Helper()
	return newSiteWith(t, more, func(*Options) {})
}

// newSiteWith is newSite with options changed.
func newSiteWith(t *testing.T, more string, change func(*Options)) *site {
	t.Helper()
	o, _ := options(t, t.TempDir(), "deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: "+siteKey+", role: admin}]}}\n"+more)
	change(&o)
	s := &site{t: t, g: start(t, o), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	s.proxy = "http://" + s.g.Data()[0].String()
	s.admin = "http://" + s.g.Admin().String() + "/apisix/admin/"
	s.echo = s.upstream("ok")
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		stop(t, s.g)
	})
	return s
}

// upstream starts a server that answers everything with text.
func (s *site) upstream(text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	s.t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().String()
}

// call sends an Admin API request and returns its status.
func (s *site) call(method, path, body string) int {
	req, err := http.NewRequest(method, s.admin+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", siteKey)
	res, err := s.http.Do(req)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode >= 400 {
		s.t.Logf("%s %s: %d %s", method, path, res.StatusCode, b)
	}
	if res.Header.Get("X-Weir-Applied") == "false" {
		s.t.Errorf("%s %s: answered before it was live", method, path)
	}
	return res.StatusCode
}

func (s *site) put(path, body string) {
	s.t.Helper()
	if status := s.call("PUT", path, body); status != 200 && status != 201 {
		s.t.Errorf("PUT %s: %d", path, status)
	}
}

func (s *site) del(path string) {
	s.t.Helper()
	if status := s.call("DELETE", path, ""); status != 200 {
		s.t.Errorf("DELETE %s: %d", path, status)
	}
}

func (s *site) route(uri, node, more string) string {
	return fmt.Sprintf(`{"uri":%q,"upstream":{"type":"roundrobin","nodes":{%q:1}}%s}`, uri, node, more)
}

// get returns the status of a request, with a key if it is not empty.
func (s *site) get(path, key string) int {
	status, _ := s.ask(path, key)
	return status
}

func (s *site) ask(path, key string) (int, string) {
	req, err := http.NewRequest("GET", s.proxy+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("apikey", key)
	}
	res, err := s.http.Do(req)
	if err != nil {
		s.t.Errorf("GET %s: %v", path, err)
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Errorf("GET %s: %v", path, err)
	}
	return res.StatusCode, string(b)
}

func consumer(name, key string) string {
	return fmt.Sprintf(`{"username":%q,"plugins":{"key-auth":{"key":%q}}}`, name, key)
}

// Rows 1, 3, 4, 6, 8, 20, 22, 31: what a write makes the gateway compile.
func TestFieldWork(t *testing.T) {
	s := newSite(t, "")
	s.put("services/s1", `{"upstream":{"type":"roundrobin","nodes":{"`+s.echo+`":1}}}`)
	s.put("services/s2", `{"upstream":{"type":"roundrobin","nodes":{"`+s.echo+`":1}}}`)
	for i := range 20 {
		s.put(fmt.Sprintf("routes/%d", i), fmt.Sprintf(`{"uri":"/%d","service_id":"s%d"}`, i, i%2+1))
	}
	work := func(f func()) string {
		before := s.g.state.Work().Compiled
		f()
		out := []string{}
		for kind, n := range s.g.state.Work().Compiled {
			if n != before[kind] {
				out = append(out, fmt.Sprintf("%s=%d", kind, n-before[kind]))
			}
		}
		return strings.Join(out, " ")
	}
	if got := work(func() { s.put("routes/1", `{"uri":"/1","service_id":"s2"}`) }); got != "" {
		t.Errorf("identical route: %s", got)
	}
	if got := work(func() { s.put("routes/1", `{"uri":"/1","service_id":"s2","priority":1}`) }); got != "routes=1" {
		t.Errorf("changed route: %s", got)
	}
	got := work(func() { s.put("services/s2", `{"name":"n","upstream":{"type":"roundrobin","nodes":{"`+s.echo+`":1}}}`) })
	if got != "services=1 routes=10" && got != "routes=10 services=1" {
		t.Errorf("changed service: %s", got)
	}
	if got := work(func() { s.put("consumers/c", consumer("c", "k")) }); got != "consumers=1" {
		t.Errorf("consumer: %s", got)
	}
	if got := work(func() { s.del("routes/1") }); got != "" {
		t.Errorf("delete: %s", got)
	}

	other := s.upstream("other") // row 31: nodes come and go
	s.put("upstreams/u", `{"nodes":{"`+other+`":1}}`)
	for i := range 20 {
		s.put(fmt.Sprintf("routes/u%d", i), fmt.Sprintf(`{"uri":"/u%d","upstream_id":"u"}`, i))
	}
	for _, nodes := range []string{`{"` + s.echo + `":1}`, `{"` + s.echo + `":1,"` + other + `":1}`, `{"` + s.echo + `":1}`} {
		if got := work(func() { s.put("upstreams/u", `{"nodes":`+nodes+`}`) }); got != "upstreams=1" {
			t.Errorf("changed upstream of 20 routes: %s", got)
		}
	}
	if got := work(func() { s.put("protos/1", `{"content":"syntax = \"proto3\";"}`) }); got != "" && got != "protos=1" { // row 20
		t.Errorf("what no route refers to: %s", got)
	}
}

// Row 22: one host with a certificate of its own more is one certificate to
// compile, and its first handshake after the answer has it; so has one that is
// replaced, and of one that is deleted nothing is left.
func TestFieldCertificates(t *testing.T) {
	s := newSiteWith(t, "", func(o *Options) {
		o.Config.APISIX.SSL.Enable = true
		o.Config.APISIX.SSL.Listen = config.Listeners{{IP: "127.0.0.1"}}
	})
	r := newRegistrar(t)
	put := func(id, host string) string {
		t.Helper()
		made, cert, key := r.issue(host, "/none", ecKey(t))
		s.put("ssls/"+id, sslObject(t, map[string]any{"snis": []string{host}, "cert": cert, "key": key}))
		return made.SerialNumber.String()
	}
	shown := func(host string) string {
		c, err := tls.Dial("tcp", s.g.Data()[1].String(), &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err != nil {
			return ""
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	serials := map[string]string{}
	for i := range 100 {
		host := fmt.Sprintf("h%d.test", i)
		serials[host] = put(fmt.Sprint(i), host)
	}
	compiled := func() int64 { return s.g.state.Work().Compiled["ssls"] }
	before := compiled()
	serials["new.test"] = put("new", "new.test")
	if n := compiled() - before; n != 1 {
		t.Errorf("%d certificates were compiled for a new one", n)
	}
	before = compiled()
	serials["h7.test"] = put("7", "h7.test")
	if n := compiled() - before; n != 1 {
		t.Errorf("%d certificates were compiled for a replaced one", n)
	}
	for host, want := range serials {
		if got := shown(host); got != want {
			t.Errorf("%s: certificate %q, want %q", host, got, want)
		}
	}
	before = compiled()
	s.del("ssls/8")
	if n := compiled() - before; n != 0 || shown("h8.test") != "" {
		t.Errorf("deleted: %d certificates were compiled, %q is shown", n, shown("h8.test"))
	}
}

// Row 32: a batch with a general and a specific route is seen whole or not at all:
// no request of the specific one reaches the other's upstream.
func TestFieldBatch(t *testing.T) {
	server, err := embed.Start(t.Context(), embed.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	s := newSiteWith(t, "", func(o *Options) {
		o.Config.Embedded, o.Config.Deployment.Etcd.Host = false, []string{server.ClientURL()}
	})
	general, specific := s.upstream("general"), s.upstream("specific")
	var before, after atomic.Int64
	end := meanwhile(3, func() {
		switch status, body := s.ask("/api/x", ""); {
		case status == 404:
			before.Add(1)
		case status == 200 && body == "specific":
			after.Add(1)
		default:
			t.Errorf("%d %s", status, body)
		}
	})
	batch := func(ops ...clientv3.Op) {
		t.Helper()
		res, err := server.Client().Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.g.state.Wait(t.Context(), res.Header.Revision); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		batch(clientv3.OpPut("/apisix/routes/a", s.route("/*", general, "")), clientv3.OpPut("/apisix/routes/b", s.route("/api/*", specific, "")))
		if status, body := s.ask("/api/x", ""); status != 200 || body != "specific" {
			t.Errorf("after the batch: %d %s", status, body)
		}
		batch(clientv3.OpDelete("/apisix/routes/b"), clientv3.OpDelete("/apisix/routes/a"))
	}
	end()
	if before.Load() == 0 || after.Load() == 0 {
		t.Errorf("%d requests before, %d after a batch", before.Load(), after.Load())
	}
}

// Rows 4, 14, 15, 17, 21, 27, 28: traffic to what does not change, and new
// connections, while everything else changes: nothing fails; what was just
// written is there at the first request, what was deleted is not.
func TestFieldChurn(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/stable", s.route("/stable", s.echo, `,"plugins":{"key-auth":{}}`))
	s.put("consumers/stable", consumer("stable", "stable-key"))
	var served, dialled atomic.Int64
	endRequests := meanwhile(4, func() {
		if status := s.get("/stable", "stable-key"); status != 200 {
			t.Errorf("the stable route answered %d", status)
		}
		served.Add(1)
	})
	endDials := meanwhile(1, func() {
		time.Sleep(time.Millisecond)
		c, err := net.Dial("tcp", strings.TrimPrefix(s.proxy, "http://"))
		if err != nil {
			t.Errorf("refused: %v", err)
			return
		}
		c.Close()
		dialled.Add(1)
	})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 30 {
				name := fmt.Sprintf("w%d_%d", w, i)
				s.put("consumers/"+name, consumer(name, "key-"+name))
				s.put("upstreams/"+name, `{"type":"roundrobin","nodes":{"`+s.echo+`":1}}`)
				s.put("routes/"+name, fmt.Sprintf(`{"uri":"/%s","upstream_id":%q,"plugins":{"key-auth":{}}}`, name, name))
				if status := s.get("/"+name, "key-"+name); status != 200 {
					t.Errorf("the first request after the answer: %d", status)
				}
				s.del("consumers/" + name)
				if status := s.get("/"+name, "key-"+name); status != 401 {
					t.Errorf("the first request after the delete: %d", status)
				}
				s.del("routes/" + name)
				s.del("upstreams/" + name)
				if status := s.get("/"+name, ""); status != 404 {
					t.Errorf("the first request after the route's delete: %d", status)
				}
			}
		})
	}
	writers.Wait()
	endRequests()
	endDials()
	if served.Load() == 0 || dialled.Load() == 0 {
		t.Errorf("%d served, %d dialled", served.Load(), dialled.Load())
	}
}

// Row 25: a thousand upstreams and five thousand routes at once, from the store
// of a gateway that starts.
func TestFieldStartWithEverything(t *testing.T) {
	dir := t.TempDir()
	more := "deployment: {admin: {admin_listen: {port: 0}, admin_key: [{name: a, key: " + siteKey + ", role: admin}]}}\n"
	o, _ := options(t, dir, more)
	g := start(t, o)
	for i := range 1000 {
		raw := fmt.Sprintf(`{"type":"roundrobin","nodes":{"127.0.0.1:%d":1}}`, 10000+i)
		if _, err := g.store.Put(t.Context(), fmt.Sprintf("/upstreams/%d", i), []byte(raw), noOptions); err != nil {
			t.Fatal(err)
		}
	}
	var last int64
	for i := range 5000 {
		raw := fmt.Sprintf(`{"uri":"/r/%d","upstream_id":"%d"}`, i, i%1000)
		res, err := g.store.Put(t.Context(), fmt.Sprintf("/routes/%d", i), []byte(raw), noOptions)
		if err != nil {
			t.Fatal(err)
		}
		last = res.Revision
	}
	if err := g.state.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	stop(t, g)

	o, _ = options(t, dir, more)
	g = start(t, o)
	defer stop(t, g)
	counts, _ := g.objects()
	if counts["routes"] != 5000 || counts["upstreams"] != 1000 {
		t.Errorf("%v", counts)
	}
	for path, err := range g.state.Current().Faults {
		t.Errorf("%s: %v", path, err)
	}
}

// Rows 62, 76, 77, 78: keys and what hangs on them.
func TestFieldStaleConsumers(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/1", s.route("/a", s.echo, `,"plugins":{"key-auth":{}}`))
	expect := func(what, key string, want int) {
		t.Helper()
		if got := s.get("/a", key); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	s.put("consumers/jack", consumer("jack", "my-key"))
	expect("created", "my-key", 200)
	s.put("consumers/jack", consumer("jack", "my-new-key")) // row 77
	expect("old key", "my-key", 401)
	expect("new key", "my-new-key", 200)
	s.put("consumers/jack/credentials/c1", `{"plugins":{"key-auth":{"key":"cred"}}}`)
	expect("credential", "cred", 200)
	s.del("consumers/jack") // row 76
	expect("deleted", "my-new-key", 401)
	expect("credential of a deleted consumer", "cred", 401)
	s.put("consumers/jack", consumer("jack", "my-new-key"))
	expect("created again", "my-new-key", 200)
	expect("credential stays deleted", "cred", 401)
	limited := `{"username":"jill","plugins":{"key-auth":{"key":"jill"},"limit-count":{"count":2,"time_window":600,"rejected_code":429}}}`
	for round := range 3 { // row 76
		s.put("consumers/jill", limited)
		calls := 0
		for s.get("/a", "jill") == 200 && calls < 3 {
			calls++
		}
		if got := s.get("/a", "jill"); calls > 2 || got != 429 {
			t.Errorf("round %d: %d calls passed, then %d", round, calls, got)
		}
		s.del("consumers/jill")
		expect("deleted with its limit", "jill", 401)
	}

	for i := range 50 { // row 78
		s.put(fmt.Sprintf("consumers/c%d", i), consumer(fmt.Sprintf("c%d", i), fmt.Sprintf("key%d", i)))
	}
	for i := range 100 {
		s.put("consumers/other", consumer("other", fmt.Sprintf("other%d", i)))
		expect("unchanged consumer", fmt.Sprintf("key%d", i%50), 200)
	}
}

// Row 66: nodes that were taken away are not used any more.
func TestFieldStaleNodes(t *testing.T) {
	s := newSite(t, "")
	first, second := s.upstream("first"), s.upstream("second")
	s.put("upstreams/u", `{"type":"roundrobin","nodes":{"`+first+`":1,"`+second+`":1}}`)
	s.put("routes/1", `{"uri":"/a","upstream_id":"u"}`)
	seen := map[string]bool{}
	for range 10 {
		_, body := s.ask("/a", "")
		seen[body] = true
	}
	if len(seen) != 2 {
		t.Errorf("balanced over %v", seen)
	}
	s.put("upstreams/u", `{"type":"roundrobin","nodes":{"`+second+`":1}}`)
	for range 10 {
		if _, body := s.ask("/a", ""); body != "second" {
			t.Errorf("a removed node answered: %q", body)
		}
	}
	s.put("upstreams/u", `{"type":"roundrobin","nodes":{}}`)
	if got := s.get("/a", ""); got != 503 {
		t.Errorf("no node: %d, want 503", got)
	}
}

// The last write of many to one object is the one that holds, and every answer
// was true when it was given.
func TestFieldLastWriteHolds(t *testing.T) {
	s := newSite(t, "")
	s.put("routes/1", s.route("/a", s.echo, `,"plugins":{"key-auth":{}}`))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				s.put("consumers/one", consumer("one", fmt.Sprintf("key-%d-%d", w, i)))
			}
		})
	}
	wg.Wait()
	req, _ := http.NewRequestWithContext(context.Background(), "GET", s.admin+"consumers/one", nil)
	req.Header.Set("X-API-KEY", siteKey)
	res, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	at := bytes.Index(b, []byte(`"key":"key-`))
	if at < 0 {
		t.Fatalf("%s", b)
	}
	key, _, _ := strings.Cut(string(b[at+7:]), `"`)
	valid := 0
	for w := range 8 {
		for i := range 20 {
			if s.get("/a", fmt.Sprintf("key-%d-%d", w, i)) == 200 {
				valid++
			}
		}
	}
	if valid != 1 || s.get("/a", key) != 200 {
		t.Errorf("%d keys work; the stored one is %s", valid, key)
	}
}

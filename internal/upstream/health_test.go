package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/health"
	"weir/internal/model"
	"weir/internal/resolve"
)

const passive = `{"active":{"type":"tcp"},"passive":{"healthy":{"successes":1},
	"unhealthy":{"http_statuses":[500,502],"http_failures":2,"tcp_failures":2,"timeouts":1}}}`

// unasked starts the checks of u as its first request would, but for the active
// ones, which would count as well.
func unasked(u *Upstream) *Upstream {
	f := u.family
	f.mu.Lock()
	defer f.mu.Unlock()
	if u.checks != nil && f.checker == nil {
		u.checking.Store(true)
		f.checker = health.New(health.Config{Name: u.name(), Log: u.env.Log}, u.checks)
		f.target(u)
	}
	return u
}

// status answers every request with the status that is set.
type status struct{ code atomic.Int32 }

func (s *status) serve(p *peer) {
	for {
		if _, _, err := p.request(); err != nil {
			return
		}
		p.say("HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", s.code.Load())
	}
}

func answering(code int32) *status {
	s := new(status)
	s.code.Store(code)
	return s
}

func checkedUpstream(t testing.TB, e Env, checks string, n ...model.Node) *Upstream {
	t.Helper()
	return unasked(compile(t, &model.Upstream{Nodes: n, Checks: json.RawMessage(checks)}, e))
}

// view is what is thought of the nodes, by port.
func view(u *Upstream) map[int]health.Node {
	_, list, _ := u.Health()
	m := map[int]health.Node{}
	for _, n := range list {
		m[n.Port] = n
	}
	return m
}

// statusOf makes one request and returns its status and the port that served.
func statusOf(t testing.TB, u *Upstream) (status, port int) {
	t.Helper()
	c := call(t, "GET")
	status, _, err := do(u, c)
	if err != nil {
		status = ours(err).Status()
	}
	if len(c.Tries) > 0 {
		_, _ = fmt.Sscanf(c.Tries[len(c.Tries)-1].Addr, "127.0.0.1:%d", &port)
	}
	return status, port
}

func TestPassive(t *testing.T) {
	bad, good := answering(500), answering(200)
	b, g := serve(t, bad.serve), serve(t, good.serve)
	u := checkedUpstream(t, env(pools(t)), passive, b, g)
	served := map[int]int{}
	for range 10 {
		_, port := statusOf(t, u)
		served[port]++
	}
	if served[b.Port] != 2 || served[g.Port] != 8 {
		t.Fatal(served, view(u))
	}
	if n := view(u)[b.Port]; n.Status != "unhealthy" || n.Counter.HTTP != 2 {
		t.Fatalf("%+v", n)
	}
	// What the client got counts, whatever the node answered.
	for range 2 {
		c := call(t, "GET")
		if err := u.RoundTrip(c); err != nil {
			t.Fatal(err)
		}
		_, _ = readAll(c)
		c.Status = 502
		c.Finish()
	}
	if n := view(u)[g.Port]; n.Status != "unhealthy" {
		t.Fatalf("%+v", n)
	}
	// Now all are down, so all are used, and the first that does well is back.
	bad.code.Store(200)
	_, port := statusOf(t, u)
	for range 5 {
		if _, next := statusOf(t, u); next != port || view(u)[port].Status != "healthy" {
			t.Fatal(port, next, view(u))
		}
	}
}

// Each failed try counts, by its kind.
func TestPassiveTries(t *testing.T) {
	slow := serve(t, func(p *peer) { p.skip(); p.gone() })
	broken := serve(t, func(p *peer) { p.skip(); p.say("rubbish\r\n\r\n") })
	down, good := refusing(t), serve(t, echo)
	u := unasked(compile(t, &model.Upstream{
		Nodes: nodes(slow, down, good, broken), Checks: json.RawMessage(passive), Timeout: model.Timeout{Read: 20 * time.Millisecond},
	}, env(pools(t))))
	mustDo(t, u, call(t, "GET"))
	if v := view(u); v[slow.Port].Counter.Timeout != 1 || v[slow.Port].Status != "unhealthy" ||
		v[down.Port].Counter.TCP < 1 || v[down.Port].Status != "mostly_healthy" {
		t.Fatalf("%+v", v)
	}
	for range 6 {
		statusOf(t, u)
	}
	if v := view(u); v[down.Port].Status != "unhealthy" || v[broken.Port].Status != "unhealthy" || v[good.Port].Status != "healthy" {
		t.Fatalf("%+v", v)
	}
}

func TestAllDownWarnsOnce(t *testing.T) {
	var out bytes.Buffer
	e := env(pools(t))
	e.Log = slog.New(slog.NewTextHandler(&out, nil))
	e.Owner = "upstreams/7@3"
	s := answering(500)
	u := checkedUpstream(t, e, passive, serve(t, s.serve), serve(t, s.serve))
	for range 10 {
		statusOf(t, u)
	}
	if got := out.String(); strings.Count(got, `all upstream nodes is unhealthy, use default" upstream=upstreams/7`) != 1 {
		t.Fatal(got)
	}
	s.code.Store(200)
	statusOf(t, u)
	statusOf(t, u)
	s.code.Store(500)
	for range 6 {
		statusOf(t, u)
	}
	if got := out.String(); strings.Count(got, "use default") != 2 {
		t.Fatal(got)
	}
}

// While the others are down, a healthy node of weight 0 serves.
func TestSpare(t *testing.T) {
	spare := serve(t, echo)
	spare.Weight = 0
	for _, kind := range []string{"roundrobin", "least_conn"} {
		zero := 0
		u := unasked(compile(t, &model.Upstream{Type: kind, Nodes: nodes(spare, refusing(t)), Retries: &zero, Checks: json.RawMessage(passive)}, env(pools(t))))
		for i := range 6 {
			if status, _ := statusOf(t, u); (status == 200) != (i >= 2) {
				t.Fatal(kind, i, status, view(u))
			}
		}
	}
}

func TestNoChecks(t *testing.T) {
	e := env(pools(t))
	e.NoChecks = true
	u := compile(t, &model.Upstream{Checks: json.RawMessage(passive), Nodes: nodes(
		serve(t, answering(500).serve), serve(t, answering(200).serve))}, e)
	for range 10 {
		statusOf(t, u)
	}
	if kind, nodes, ok := u.Health(); kind != "tcp" || nodes != nil || !ok {
		t.Fatal(kind, nodes, ok)
	}
	if _, err := Compile(&model.Upstream{Checks: json.RawMessage(`[]`)}, env(pools(t))); err == nil {
		t.Fatal("checks that are none")
	}
}

// Keys of nodes that are up do not move when another goes down.
func TestHashRingUnderHealth(t *testing.T) {
	s := []*status{answering(200), answering(200), answering(200)}
	var list []model.Node
	for _, one := range s {
		list = append(list, serve(t, one.serve))
	}
	u := unasked(compile(t, &model.Upstream{Type: "chash", Nodes: list, Checks: json.RawMessage(passive)}, env(pools(t))))
	ask := func(key string) int {
		c := call(t, "GET")
		c.HashKey = func() string { return key }
		_, _, err := do(u, c)
		if err != nil {
			t.Fatal(err)
		}
		var port int
		_, _ = fmt.Sscanf(c.Tries[0].Addr, "127.0.0.1:%d", &port)
		return port
	}
	before := map[string]int{}
	for i := range 30 {
		key := fmt.Sprint("key", i)
		before[key] = ask(key)
	}
	s[0].code.Store(500)
	for !strings.HasPrefix(view(u)[list[0].Port].Status, "unhealthy") {
		for key := range before {
			ask(key)
		}
	}
	for key, port := range before {
		if now := ask(key); port != list[0].Port && now != port || now == list[0].Port {
			t.Errorf("%s moved from %d to %d; down is %d", key, port, now, list[0].Port)
		}
	}
}

// However the nodes change, those that stay keep status and counters (field case
// 153), those that go are not checked any more (64), and a chosen node is the one
// that is checked.
func TestHealthSurvives(t *testing.T) {
	const many = 6
	s := make([]*status, many)
	all := make([]model.Node, many)
	for i := range all {
		s[i] = answering(200)
		all[i] = serve(t, s[i].serve)
	}
	e := env(pools(t))
	e.Owner = "upstreams/1@1"
	r := rand.New(rand.NewPCG(1, 2))
	in := func(mask int) (list []model.Node) {
		for i, n := range all {
			if mask>>i&1 == 1 {
				list = append(list, n)
			}
		}
		return list
	}
	mask := 1<<many - 1
	u, err := Compile(&model.Upstream{Nodes: in(mask), Checks: json.RawMessage(passive)}, e)
	if err != nil {
		t.Fatal(err)
	}
	checker := unasked(u).family.checker
	for round := range 200 {
		for _, one := range s {
			one.code.Store([]int32{200, 500}[r.IntN(2)])
		}
		for range r.IntN(8) {
			statusOf(t, u)
		}
		before := view(u)
		if len(before) != len(in(mask)) {
			t.Fatalf("round %d: %d nodes are checked, %d are there", round, len(before), len(in(mask)))
		}
		next := r.IntN(1<<many-1) + 1
		v, err := Compile(&model.Upstream{Nodes: in(next), Checks: json.RawMessage(passive)}, e)
		if err != nil {
			t.Fatal(err)
		}
		after := view(v)
		for i, n := range all {
			got, there := after[n.Port]
			was, had := before[n.Port]
			switch {
			case there != (next>>i&1 == 1):
				t.Fatalf("round %d: node %d is checked: %v", round, i, there)
			case there && had && got != was:
				t.Fatalf("round %d: node %d was %+v and is %+v", round, i, was, got)
			case there && !had && (got.Status != "healthy" || got.Counter != health.Counter{}):
				t.Fatalf("round %d: node %d is new and %+v", round, i, got)
			}
		}
		for i, n := range v.set.Load().nodes {
			if end := n.ends.Load().list[0]; end.target.Load() == nil || int(end.target.Load().Addr.Port()) != in(next)[i].Port {
				t.Fatalf("round %d: node %d has another's target", round, i)
			}
		}
		u.Close()
		u, mask = v, next
	}
	if u.family.checker != checker {
		t.Fatal("the checks began anew")
	}
	u.Close()
	if len(e.Pools.families) != 0 {
		t.Fatal("a family is left")
	}
}

// Checks that change keep what is known of the nodes; checks that go are over,
// and an object that is deleted and made again is another.
func TestChecksChange(t *testing.T) {
	s := answering(500)
	n, other := serve(t, s.serve), serve(t, s.serve)
	e := env(pools(t))
	e.Owner = "routes/1@1"
	u := checkedUpstream(t, e, passive, n, other)
	for range 4 {
		statusOf(t, u)
	}
	changed := strings.Replace(passive, `"successes":1`, `"successes":2`, 1)
	u = checkedUpstream(t, e, changed, n, other)
	if v := view(u); v[n.Port].Status != "unhealthy" {
		t.Fatalf("%+v", v)
	}
	s.code.Store(200)
	statusOf(t, u)
	if v := view(u); v[n.Port].Status != "mostly_unhealthy" && v[other.Port].Status != "mostly_unhealthy" {
		t.Fatalf("new rules are not in force: %+v", v)
	}
	u = compile(t, &model.Upstream{Nodes: nodes(n, other)}, e)
	if _, nodes, ok := u.Health(); nodes != nil || ok {
		t.Fatal(nodes, ok)
	}
	statusOf(t, u)
	u = checkedUpstream(t, e, passive, n, other)
	statusOf(t, u)
	if v := view(u); v[n.Port].Status != "healthy" {
		t.Fatalf("%+v", v)
	}
	e.Owner = "routes/1@2"
	u = compile(t, &model.Upstream{Nodes: nodes(n), Checks: json.RawMessage(passive)}, e)
	if _, nodes, _ := u.Health(); nodes != nil {
		t.Fatal("another object's checks run", nodes)
	}
}

// The first request to an upstream that another form has replaced starts nothing.
func TestChecksOfTheReplaced(t *testing.T) {
	n := serve(t, echo)
	e := env(pools(t))
	e.Owner = "routes/1@1"
	form := func(n ...model.Node) *Upstream {
		return compile(t, &model.Upstream{Nodes: n, Checks: json.RawMessage(passive)}, e)
	}
	old, current := form(n), form(n, serve(t, echo))
	statusOf(t, old)
	if _, nodes, _ := current.Health(); nodes != nil {
		t.Fatal(nodes)
	}
	statusOf(t, current)
	statusOf(t, old)
	if _, nodes, _ := current.Health(); len(nodes) != 2 {
		t.Fatal(nodes)
	}
}

// Where, and in whose name, nodes are checked.
func TestCheckedAddress(t *testing.T) {
	z, _, e := named(t)
	z.set("svc", answer("127.0.0.1", "127.0.0.2"))
	m := &model.Upstream{Nodes: nodes(model.Node{Host: "svc", Port: 81, Weight: 1}, model.Node{Host: "127.0.0.3", Port: 82, Weight: 1})}
	const active = `{"active":{"type":"tcp","healthy":{"interval":1000}%s}}`
	for _, tc := range []struct {
		more     string
		passHost string
		want     string
	}{
		{"", "", "127.0.0.1:81 svc, 127.0.0.2:81 svc, 127.0.0.3:82 "},
		{`,"port":99`, "node", "127.0.0.1:99 svc, 127.0.0.2:99 svc, 127.0.0.3:99 "},
		{`,"host":"h"`, "rewrite", "127.0.0.1:81 r.example, 127.0.0.2:81 r.example, 127.0.0.3:82 r.example"},
	} {
		m.Checks = json.RawMessage(strings.Replace(fmt.Sprintf(active, "X"), "}X", "}"+tc.more, 1))
		m.PassHost, m.Host = tc.passHost, "r.example"
		u := compile(t, m, e)
		u.refresh(t.Context())
		u.family.startChecks(u)
		var got []string
		for _, n := range u.set.Load().nodes {
			for _, end := range n.ends.Load().list {
				a := end.target.Load().Address
				got = append(got, a.Addr.String()+" "+a.Name)
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: %s", tc.more, strings.Join(got, ", "))
		}
	}
}

// Each address of a name has a health of its own, and the node is up while one
// is.
func TestHealthOfAddresses(t *testing.T) {
	bad, good := answering(500), answering(200)
	port := both(t, bad.serve, good.serve)
	z, clock, e := named(t)
	z.set("svc", answer("127.0.0.1", "127.0.0.2"))
	u := checkedUpstream(t, e, passive, model.Node{Host: "svc", Port: port, Weight: 1})
	failed := 0
	for range 12 {
		if code, _ := statusOf(t, u); code == 500 {
			failed++
		}
	}
	if failed != 2 {
		t.Fatalf("%d requests failed: %+v", failed, view(u))
	}
	// The good one goes: only the bad one is left, and is used.
	z.set("svc", answer("127.0.0.1"))
	clock.pass(10 * time.Second)
	if code, _ := statusOf(t, u); code != 500 {
		t.Fatal(code)
	}
	if _, list, _ := u.Health(); len(list) != 1 || list[0].IP != "127.0.0.1" || list[0].Status != "unhealthy" || list[0].Header != "svc" {
		t.Fatalf("%+v", list)
	}
}

// Checks follow names and services without requests.
func TestChecksFollow(t *testing.T) {
	z, clock, e := named(t)
	z.set("svc", answer("127.0.0.1"))
	e.Discovery = map[string]Discovery{"dns": DNS(e.Names)}
	for _, m := range []*model.Upstream{
		{Nodes: nodes(model.Node{Host: "svc", Port: 1, Weight: 1})},
		{DiscoveryType: "dns", ServiceName: "svc:1"},
	} {
		z.set("svc", answer("127.0.0.1"))
		clock.pass(10 * time.Second)
		m.Checks = json.RawMessage(passive)
		u := compile(t, m, e)
		statusOf(t, u)
		ip := func() string {
			_, list, _ := u.Health()
			if len(list) != 1 {
				return fmt.Sprint(list)
			}
			return list[0].IP
		}
		eventually(t, "the address is checked", func() bool { return ip() == "127.0.0.1" })
		z.set("svc", answer("127.0.0.2"))
		eventually(t, "the other is checked", func() bool {
			clock.pass(10 * time.Second)
			u.family.refresh(t.Context())
			return ip() == "127.0.0.2"
		})
	}
}

// An active check finds a node that died, and that it is back (field case 151).
func TestActiveChecks(t *testing.T) {
	var sick atomic.Bool
	probes := make(chan string, 100)
	n := serve(t, func(p *peer) {
		for {
			head, _, err := p.request()
			if err != nil {
				return
			}
			if strings.HasPrefix(head, "GET /health ") {
				select {
				case probes <- head:
				default:
				}
			}
			if sick.Load() {
				p.say("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			p.ok("")
		}
	})
	good := serve(t, echo)
	u := compile(t, &model.Upstream{Nodes: nodes(n, good), PassHost: "rewrite", Host: "up.example", Checks: json.RawMessage(
		`{"active":{"http_path":"/health","req_headers":["User-Agent: probe"],"healthy":{"successes":1},"unhealthy":{"http_failures":1}}}`)}, env(pools(t)))
	mustDo(t, u, call(t, "GET"))
	if head := <-probes; !strings.Contains(head, "\r\nHost: up.example\r\n") || !strings.Contains(head, "\r\nUser-Agent: probe\r\n") {
		t.Fatal(head)
	}
	sick.Store(true)
	eventually(t, "the node is found down", func() bool { return !u.set.Load().nodes[0].healthy() })
	for range 6 {
		if status, port := statusOf(t, u); status != 200 || port != good.Port {
			t.Fatal(status, port)
		}
	}
	sick.Store(false)
	eventually(t, "the node is found up", func() bool { return u.set.Load().nodes[0].healthy() })
}

// Closing does not wait for a probe that hangs, nor for names.
func TestCloseWhileChecking(t *testing.T) {
	z, _, e := named(t)
	z.fail(errors.New("SERVFAIL"))
	asked := make(chan bool, 10)
	e.Names = names(t, func(ctx context.Context, name string) (resolve.Answer, error) {
		asked <- true
		<-ctx.Done()
		return resolve.Answer{}, ctx.Err()
	})
	hangs := make(chan bool, 10)
	n := serve(t, func(p *peer) {
		hangs <- true
		p.gone()
	})
	u, err := Compile(&model.Upstream{
		Nodes:  nodes(n, model.Node{Host: "slow", Port: 80, Weight: 1}),
		Checks: json.RawMessage(`{"active":{"timeout":1000}}`),
	}, e)
	if err != nil {
		t.Fatal(err)
	}
	u.family.startChecks(u)
	<-asked
	<-hangs
	u.Close()
	if e.Pools.Len() != 0 || len(e.Pools.families) != 0 {
		t.Fatal(e.Pools.Len(), len(e.Pools.families))
	}
}

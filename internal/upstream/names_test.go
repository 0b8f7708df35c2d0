package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/resolve"
)

// A zone is what names stand for, until it is changed.
type zone struct {
	mu  sync.Mutex
	has map[string]resolve.Answer
	err error
}

func (z *zone) set(name string, a resolve.Answer) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.has[name] = a
}

func (z *zone) fail(err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.err = err
}

func (z *zone) lookup(_ context.Context, name string) (resolve.Answer, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	a, ok := z.has[name]
	switch {
	case z.err != nil:
		return a, z.err
	case !ok:
		return a, resolve.ErrNotFound
	}
	return a, nil
}

// clock is time that a test moves on; answers of a zone are then asked for anew.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func named(t testing.TB) (*zone, *clock, Env) {
	z, c := &zone{has: map[string]resolve.Answer{}}, &clock{}
	e := env(pools(t))
	e.Now = c.now
	e.Names = names(t, z.lookup)
	return z, c, e
}

// both are two nodes of one port on two addresses.
func both(t testing.TB, first, second func(*peer)) (port int) {
	t.Helper()
	for range 20 {
		n := serve(t, first)
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(n.Port)))
		if err != nil {
			continue
		}
		ln.Close()
		if second != nil {
			serveAt(t, ln.Addr().String(), second)
		}
		return n.Port
	}
	t.Skip("no port is free on two addresses")
	return 0
}

// The addresses of a name take turns, and one that refuses is passed over within
// the same try.
func TestAddresses(t *testing.T) {
	var one, two counted
	port := both(t, one.echo, two.echo)
	z, _, e := named(t)
	z.set("svc", answer("127.0.0.1", "127.0.0.2"))
	m := &model.Upstream{PassHost: "node", Nodes: nodes(model.Node{Host: "svc", Port: port, Weight: 1})}
	u := compile(t, m, e)
	for range 10 {
		if body := mustDo(t, u, call(t, "GET")); !strings.Contains(body, fmt.Sprintf("Host: svc:%d\r\n", port)) {
			t.Fatal(body)
		}
	}
	if one.opened.Load() != 1 || two.opened.Load() != 1 {
		t.Fatal(one.opened.Load(), two.opened.Load())
	}
	half := both(t, one.echo, nil)
	m.Nodes[0].Port = half
	u = compile(t, m, e)
	for range 4 {
		c := call(t, "POST")
		mustDo(t, u, c)
		if len(c.Tries) != 1 || c.Tries[0].Addr != fmt.Sprintf("127.0.0.1:%d", half) || c.Node != fmt.Sprintf("svc:%d", half) {
			t.Fatalf("%+v", c.Tries)
		}
	}
	z.set("dead", answer("127.0.0.2"))
	m.Nodes[0].Host = "dead"
	c := call(t, "GET")
	if _, _, err := do(compile(t, m, e), c); kindOf(err) != Dial || c.Tries[0].Addr != fmt.Sprintf("127.0.0.2:%d", half) {
		t.Fatal(err, c.Tries)
	}
}

// A removed address is not used after a refresh, and connections to it are
// closed; those to the others stay (field cases 143, 147, 148).
func TestAddressesChange(t *testing.T) {
	var one, two counted
	port := both(t, one.echo, two.echo)
	z, clock, e := named(t)
	z.set("svc", answer("127.0.0.1", "127.0.0.2"))
	u := compile(t, &model.Upstream{Nodes: nodes(model.Node{Host: "svc", Port: port, Weight: 1})}, e)
	for range 4 {
		mustDo(t, u, call(t, "GET"))
	}
	z.set("svc", answer("127.0.0.1"))
	clock.pass(10 * time.Second)
	eventually(t, "the address is gone", func() bool {
		mustDo(t, u, call(t, "GET"))
		return len(u.set.Load().nodes[0].ends.Load().list) == 1
	})
	for range 4 {
		c := call(t, "GET")
		mustDo(t, u, c)
		if !strings.HasPrefix(c.Tries[0].Addr, "127.0.0.1:") {
			t.Fatalf("%+v", c.Tries)
		}
	}
	eventually(t, "the kept connection is closed", func() bool { return two.open.Load() == 0 })
	if one.opened.Load() != 1 {
		t.Error("connections to what stays are lost")
	}
	// DNS fails: what is known stays. It is back, with another answer.
	z.fail(errors.New("SERVFAIL"))
	for range 3 {
		clock.pass(10 * time.Second)
		mustDo(t, u, call(t, "GET"))
	}
	z.fail(nil)
	z.set("svc", answer("127.0.0.2"))
	eventually(t, "the new address is used", func() bool {
		clock.pass(10 * time.Second)
		c := call(t, "GET")
		mustDo(t, u, c)
		return strings.HasPrefix(c.Tries[0].Addr, "127.0.0.2:")
	})
	// The name is gone.
	z.mu.Lock()
	delete(z.has, "svc")
	z.mu.Unlock()
	eventually(t, "there is no node", func() bool {
		clock.pass(10 * time.Second)
		_, _, err := do(u, call(t, "GET"))
		return kindOf(err) == NoNodes && ours(err).Status() == 503
	})
}

// Whatever happens to names and upstreams, pools and names are given back.
func TestNamesAreReleased(t *testing.T) {
	var k counted
	n := serve(t, k.echo)
	z, clock, e := named(t)
	z.set("a", answer("127.0.0.1"))
	m := &model.Upstream{Nodes: nodes(model.Node{Host: "a", Port: n.Port, Weight: 1}, model.Node{Host: "b", Port: n.Port, Weight: 1})}
	u, err := Compile(m, e)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		z.set("a", answer([]string{"127.0.0.1", "127.0.0.2"}[:1+i%2]...))
		clock.pass(10 * time.Second)
		_, _, _ = do(u, call(t, "GET"))
	}
	u.Close()
	// A request that came too late to hold it.
	for range 2 {
		mustDo(t, u, call(t, "GET"))
	}
	if e.Pools.Len() != 0 || e.Names.Len() != 0 || e.Pools.Idle() != 0 {
		t.Fatal(e.Pools.Len(), e.Names.Len(), e.Pools.Idle())
	}
	eventually(t, "no connection", func() bool { return k.open.Load() == 0 })
}

func records(r ...resolve.Record) resolve.Answer {
	return resolve.Answer{TTL: time.Second, Records: r}
}

func TestDiscoverDNS(t *testing.T) {
	a, b := serve(t, echo), serve(t, echo)
	z, clock, e := named(t)
	e.Discovery = map[string]Discovery{"dns": DNS(e.Names)}
	local := answer("127.0.0.1").Records[0].Addr
	at := func(port, weight, priority int) resolve.Record {
		return resolve.Record{Addr: local, Port: port, Weight: weight, Priority: priority}
	}
	z.set("svc", records(at(a.Port, 1, 0), at(b.Port, 2, 0)))
	m := &model.Upstream{DiscoveryType: "dns", ServiceName: "svc", PassHost: "node"}
	u := compile(t, m, e)
	count := func(n int) string {
		to := map[string]int{}
		for range n {
			c := call(t, "GET")
			mustDo(t, u, c)
			to[c.Tries[0].Addr]++
		}
		return fmt.Sprint(to[fmt.Sprint("127.0.0.1:", a.Port)], " ", to[fmt.Sprint("127.0.0.1:", b.Port)])
	}
	if got := count(9); got != "3 6" {
		t.Fatal(got)
	}
	z.set("svc", records(at(b.Port, 1, -10), at(a.Port, 1, -5)))
	clock.pass(10 * time.Second)
	eventually(t, "the nodes change", func() bool {
		mustDo(t, u, call(t, "GET"))
		return strings.Join(u.Nodes(), " ") == fmt.Sprintf("127.0.0.1:%d 127.0.0.1:%d", b.Port, a.Port)
	})
	if got := count(4); got != "4 0" {
		t.Fatal("priorities:", got)
	}
	// The port that the service names wins.
	m.ServiceName = "svc:" + strconv.Itoa(a.Port)
	v := compile(t, m, e)
	c := call(t, "GET")
	mustDo(t, v, c)
	if len(v.Nodes()) != 2 || c.Tries[0].Addr != fmt.Sprintf("127.0.0.1:%d", a.Port) {
		t.Fatal(v.Nodes(), c.Tries)
	}
	z.set("plain", records(at(0, 1, 0)))
	for scheme, want := range map[string]string{"http": "127.0.0.1:80", "https": "127.0.0.1:443"} {
		w := compile(t, &model.Upstream{DiscoveryType: "dns", ServiceName: "plain", Scheme: scheme}, e)
		_, _, _ = do(w, call(t, "GET"))
		if got := w.Nodes(); len(got) != 1 || got[0] != want {
			t.Fatal(got)
		}
	}
}

func TestDiscoverFails(t *testing.T) {
	z, clock, e := named(t)
	m := &model.Upstream{DiscoveryType: "dns", ServiceName: "svc"}
	// Not configured: an upstream may say so all the same, and answers 503.
	_, _, err := do(compile(t, m, e), call(t, "GET"))
	if kindOf(err) != NoNodes || ours(err).Status() != 503 || !strings.Contains(err.Error(), "discovery dns is uninitialized") {
		t.Fatal(err)
	}
	e.Discovery = map[string]Discovery{"dns": DNS(e.Names)}
	u := compile(t, m, e)
	if _, _, err := do(u, call(t, "GET")); kindOf(err) != NoNodes || !errors.Is(err, resolve.ErrNotFound) {
		t.Fatal(err)
	}
	n := serve(t, echo)
	z.set("svc", records(resolve.Record{Addr: answer("127.0.0.1").Records[0].Addr, Port: n.Port, Weight: 1}))
	clock.pass(10 * time.Second)
	mustDo(t, u, call(t, "GET"))
	z.fail(errors.New("SERVFAIL"))
	clock.pass(10 * time.Second)
	mustDo(t, u, call(t, "GET"))
	e.Discovery["dns"] = func(*model.Upstream) (Service, error) { return nil, errors.New("no such service") }
	if _, err := Compile(m, e); err == nil || !strings.Contains(err.Error(), "no such service") {
		t.Fatal(err)
	}
}

// An Abort ends the wait for a service.
func TestDiscoverAbort(t *testing.T) {
	e := env(pools(t))
	asked := make(chan bool)
	cache := names(t, func(ctx context.Context, _ string) (resolve.Answer, error) {
		asked <- true
		<-ctx.Done()
		return resolve.Answer{}, ctx.Err()
	})
	e.Discovery = map[string]Discovery{"dns": DNS(cache)}
	u := compile(t, &model.Upstream{DiscoveryType: "dns", ServiceName: "svc"}, e)
	c := call(t, "GET")
	go func() {
		<-asked
		c.Abort()
	}()
	if _, _, err := do(u, c); kindOf(err) != Aborted {
		t.Fatal(err)
	}
}

func TestSplitService(t *testing.T) {
	for in, want := range map[string]string{
		"svc": "svc 0", "svc:80": "svc 80", "svc:x": "svc:x 0", "svc:99999": "svc:99999 0", "a.b.:8080": "a.b. 8080", "": " 0",
	} {
		host, port := splitService(in)
		if got := fmt.Sprint(host, " ", port); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

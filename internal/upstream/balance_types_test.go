package upstream

import (
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"testing"
	"time"

	"weir/internal/model"
)

// many are n nodes of weight 1.
func many(n int) []model.Node {
	var all []model.Node
	for i := range n {
		all = append(all, model.Node{Host: fmt.Sprintf("10.0.0.%d", i+1), Port: 80, Weight: 1})
	}
	return all
}

func chosen(u *Upstream, key string, tried ...int32) string {
	c := calling(u)
	c.filter.key, c.tried = hashKey(key), tried
	if n := c.set.pick(c); n != nil {
		return n.addr
	}
	return "-"
}

func TestHashKey(t *testing.T) {
	for _, key := range []string{"", "a", "127.0.0.1", "a longer key with ünicode"} {
		if got, want := hashKey(key), crc32.ChecksumIEEE([]byte(key)); got != want {
			t.Errorf("%q: %x, want %x", key, got, want)
		}
	}
}

// The points of a node are those of nginx's consistent hash: CRC-32 of host,
// zero byte, port and the previous point.
func TestHashRingPoints(t *testing.T) {
	u := compile(t, &model.Upstream{Type: "chash", Nodes: []model.Node{
		{Host: "127.0.0.1", Port: 1980, Weight: 2}, {Host: "127.0.0.1", Port: 1981, Weight: 4},
	}}, env(pools(t)))
	r := u.set.Load().groups[0].(*hashRing)
	if len(r.points) != 3*pointsPerWeight {
		t.Fatalf("%d points", len(r.points))
	}
	first := crc32.ChecksumIEEE([]byte("127.0.0.1\x001980\x00\x00\x00\x00"))
	second := crc32.ChecksumIEEE([]byte{'1', '2', '7', '.', '0', '.', '0', '.', '1', 0, '1', '9', '8', '0',
		byte(first), byte(first >> 8), byte(first >> 16), byte(first >> 24)})
	found := map[uint32]int32{}
	for i, p := range r.points {
		found[p.hash] = p.node
		if i > 0 && p.hash < r.points[i-1].hash {
			t.Fatal("the ring is not sorted")
		}
	}
	for _, h := range []uint32{first, second} {
		if n, ok := found[h]; !ok || n != 0 {
			t.Errorf("no point %x", h)
		}
	}
	// A key goes to the first point that is not below its own, around the end.
	last := r.points[len(r.points)-1].hash
	for _, tc := range []struct {
		key  uint32
		want int32
	}{{r.points[5].hash, r.points[5].node}, {r.points[5].hash - 1, r.points[5].node}, {last, r.points[len(r.points)-1].node}, {math.MaxUint32, r.points[0].node}} {
		if tc.key == math.MaxUint32 && last == math.MaxUint32 {
			continue
		}
		if got := r.pick(&filter{key: tc.key}); got.index != tc.want {
			t.Errorf("key %x: node %d, want %d", tc.key, got.index, tc.want)
		}
	}
}

// Keys stay with their node when another comes or goes, and go to the next on
// the ring while their own is tried.
func TestHashRingIsStable(t *testing.T) {
	p := pools(t)
	m := func(n int) *Upstream {
		return compile(t, &model.Upstream{Type: "chash", Nodes: many(n)}, env(p))
	}
	ten, nine := m(10), m(9)
	moved, count := 0, map[string]int{}
	const keys = 2000
	for i := range keys {
		key := fmt.Sprint("key", i)
		a, b := chosen(ten, key), chosen(nine, key)
		count[a]++
		if a != b {
			moved++
			if a != "10.0.0.10:80" {
				t.Fatalf("%s moved from %s, which stays", key, a)
			}
			// As if the node had been tried.
			if c := chosen(ten, key, 9); c != b {
				t.Fatalf("%s goes to %s when its node fails, and to %s when it is not there", key, c, b)
			}
		}
	}
	if moved == 0 || moved > keys/5 {
		t.Errorf("%d of %d keys moved", moved, keys)
	}
	for addr, n := range count {
		if n < keys/40 || n > keys/4 {
			t.Errorf("%s has %d of %d keys", addr, n, keys)
		}
	}
}

func TestHashRingEdges(t *testing.T) {
	p := pools(t)
	for _, tc := range []struct {
		name    string
		weights []int
		tried   []int32
		want    string
	}{
		{"all of weight 0", []int{0, 0}, nil, "-"},
		{"one of weight 0", []int{0, 1, 0}, nil, "10.0.0.2:80"},
		{"all tried", []int{1, 1}, []int32{0, 1}, "-"},
		{"huge and prime", []int{1_000_000_007, 0}, nil, "10.0.0.1:80"},
		{"huge against small", []int{1_000_000_007, 3}, []int32{0}, "10.0.0.2:80"},
	} {
		nodes := many(len(tc.weights))
		for i := range nodes {
			nodes[i].Weight = tc.weights[i]
		}
		u := compile(t, &model.Upstream{Type: "chash", Nodes: nodes}, env(p))
		if got := chosen(u, "k", tc.tried...); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		for _, g := range u.set.Load().groups {
			if n := len(g.(*hashRing).points); n > maxPoints+len(nodes) {
				t.Errorf("%s: %d points", tc.name, n)
			}
		}
	}
}

// calls are n requests that have chosen their node and not ended.
func calls(u *Upstream, n int) []*Call {
	var all []*Call
	for range n {
		c := calling(u)
		if node, err := c.choose(nil); err == nil {
			c.Node = node.addr
		}
		all = append(all, c)
	}
	return all
}

func spread(all []*Call) map[string]int {
	count := map[string]int{}
	for _, c := range all {
		count[c.Node]++
	}
	return count
}

func TestLeastConn(t *testing.T) {
	nodes := many(3)
	nodes[0].Weight, nodes[2].Weight = 2, 0
	u := compile(t, &model.Upstream{Type: "least_conn", Nodes: nodes}, env(pools(t)))
	all := calls(u, 30)
	if got := spread(all); got["10.0.0.1:80"] != 20 || got["10.0.0.2:80"] != 10 || len(got) != 2 {
		t.Fatal(got)
	}
	// The second becomes free and takes what comes, up to its share.
	for _, c := range all {
		if c.Node == "10.0.0.2:80" {
			c.Finish()
		}
	}
	if got := spread(calls(u, 10)); got["10.0.0.2:80"] != 10 {
		t.Fatal(got)
	}
}

// Equals take turns, since no request may be under way when the next comes.
func TestLeastConnTurns(t *testing.T) {
	u := compile(t, &model.Upstream{Type: "least_conn", Nodes: many(3)}, env(pools(t)))
	count := map[string]int{}
	for range 9 {
		for _, c := range calls(u, 1) {
			count[c.Node]++
			c.Finish()
		}
	}
	for addr, n := range count {
		if n != 3 {
			t.Error(addr, n)
		}
	}
}

// What is under way counts after the nodes have changed, also for a node that
// was away and for one that was alone.
func TestLeastConnSurvives(t *testing.T) {
	e := env(pools(t))
	e.Owner = "upstreams/1@1"
	with := func(n int) *Upstream {
		return compile(t, &model.Upstream{Type: "least_conn", Nodes: many(n)}, e)
	}
	long := calls(with(1), 5)
	two := with(2)
	if got := spread(calls(two, 5)); got["10.0.0.2:80"] != 5 {
		t.Fatal(got)
	}
	with(1)
	if got := spread(calls(with(2), 2)); got["10.0.0.1:80"] != 1 || got["10.0.0.2:80"] != 1 {
		t.Fatal(got)
	}
	for _, c := range long {
		c.Finish()
		c.Finish() // counts once
	}
	if got := spread(calls(with(2), 5)); got["10.0.0.1:80"] != 5 {
		t.Fatal(got)
	}
	other := e
	other.Owner = "upstreams/1@9"
	u := compile(t, &model.Upstream{Type: "least_conn", Nodes: many(2)}, other)
	if got := spread(calls(u, 2)); len(got) != 2 {
		t.Fatal("another object's requests count:", got)
	}
}

func TestLeastConnConcurrent(t *testing.T) {
	u := compile(t, &model.Upstream{Type: "least_conn", Nodes: many(4)}, env(pools(t)))
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	for range 40 {
		wg.Go(func() {
			c := calls(u, 1)[0]
			mu.Lock()
			count[c.Node]++
			mu.Unlock()
		})
	}
	wg.Wait()
	for addr, n := range count {
		if n != 10 {
			t.Error(addr, n)
		}
	}
}

func TestScore(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
	l := new(load)
	if l.score(start) != 0 {
		t.Error("nothing is known")
	}
	l.observe(2*time.Second, at(0))
	if got := l.score(at(0)); !near(got, 2) {
		t.Error("the first observation counts whole:", got)
	}
	if got := l.score(at(10)); !near(got, 2/math.E) {
		t.Error("after the decay time:", got)
	}
	l.observe(time.Second, at(10))
	if got, want := l.score(at(10)), 2/math.E+1-1/math.E; !near(got, want) {
		t.Error(got, want)
	}
	if got := l.score(at(70)); got != 0 {
		t.Error("a minute later it is forgotten:", got)
	}
	l.observe(3*time.Second, at(100))
	if got := l.score(at(100)); !near(got, 3) {
		t.Error("what was forgotten does not weigh:", got)
	}
}

func TestEWMA(t *testing.T) {
	now := time.Unix(1000, 0)
	e := env(pools(t))
	e.Now = func() time.Time { return now }
	draws := []int{}
	e.Start = func(n int) int {
		d := draws[0]
		draws = draws[1:]
		if d >= n {
			t.Fatalf("draw %d of %d", d, n)
		}
		return d
	}
	nodes := many(4)
	nodes[3].Weight = 0
	u := compile(t, &model.Upstream{Type: "ewma", Nodes: nodes}, e)
	for i, n := range u.set.Load().nodes {
		n.load.observe(time.Duration(i+1)*time.Second, now)
	}
	for _, tc := range []struct {
		draws []int
		tried []int32
		want  string
	}{
		{[]int{0, 0}, nil, "10.0.0.1:80"}, // first and second
		{[]int{2, 1}, nil, "10.0.0.2:80"}, // third and second
		{[]int{1, 1}, nil, "10.0.0.2:80"}, // second and third
		{[]int{1, 0}, []int32{0}, "10.0.0.2:80"},
		{[]int{0}, []int32{0, 1}, "10.0.0.3:80"},
		{nil, []int32{0, 1, 2}, "-"},
	} {
		draws = tc.draws
		if got := chosen(u, "", tc.tried...); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// What an exchange took is observed.
func TestEWMAObserves(t *testing.T) {
	n := serve(t, func(p *peer) {
		for {
			if _, _, err := p.request(); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
			p.ok("")
		}
	})
	u := compile(t, &model.Upstream{Type: "ewma", Nodes: nodes(n)}, env(pools(t)))
	mustDo(t, u, call(t, "GET"))
	l := u.set.Load().nodes[0].load
	if s := l.score(time.Now()); s < 0.005 || l.active.Load() != 0 {
		t.Error(s, l.active.Load())
	}
}

func TestUnknownBalancer(t *testing.T) {
	m := &model.Upstream{Type: "fastest_ever", Nodes: nodes(serve(t, echo))}
	mustDo(t, compile(t, m, env(pools(t))), call(t, "GET"))
	m.Nodes = append(m.Nodes, m.Nodes[0])
	_, _, err := do(compile(t, m, env(pools(t))), call(t, "GET"))
	if e := ours(err); e == nil || e.Kind != BadBalancer || e.Status() != 502 {
		t.Fatal(err)
	}
}

func BenchmarkBalancers(b *testing.B) {
	for _, kind := range []string{"roundrobin", "chash", "least_conn", "ewma"} {
		b.Run(kind, func(b *testing.B) {
			p := NewPools()
			defer p.Close()
			u, err := Compile(&model.Upstream{Type: kind, Nodes: many(10)}, Env{Pools: p})
			if err != nil {
				b.Fatal(err)
			}
			defer u.Close()
			c := calling(u)
			b.ReportAllocs()
			for b.Loop() {
				c.filter.key = hashKey("127.0.0.1")
				if _, err := c.choose(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package upstream

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"weir/internal/model"
)

// picks are the hosts of n picks.
func picks(u *Upstream, n int, tried ...int32) string {
	var s strings.Builder
	c := calling(u)
	for range n {
		c.tried = tried
		if p := c.set.pick(c); p != nil {
			s.WriteString(p.domain)
		} else {
			s.WriteByte('-')
		}
	}
	return s.String()
}

// calling is a Call to u that has not chosen a node yet.
func calling(u *Upstream) *Call {
	c := &Call{}
	c.up, c.set = u, u.set.Load()
	return c
}

func nodes(n ...model.Node) []model.Node { return n }

func TestPick(t *testing.T) {
	a, b, c := model.Node{Host: "a", Weight: 5}, model.Node{Host: "b", Weight: 1}, model.Node{Host: "c", Weight: 1}
	w := func(n model.Node, weight, priority int) model.Node {
		n.Weight, n.Priority = weight, priority
		return n
	}
	for _, tc := range []struct {
		name  string
		nodes []model.Node
		tried []int32
		want  string
	}{
		{"smooth", nodes(a, b, c), nil, "aabacaaaabacaa"},
		{"divisor", nodes(w(a, 200, 0), w(b, 100, 0)), nil, "abaaba"},
		{"weight 0", nodes(a, w(b, 0, 0), c), nil, "aaacaaaaacaa"},
		{"all 0", nodes(w(a, 0, 0), w(b, 0, 0)), nil, "--"},
		{"none", nil, nil, "--"},
		{"single, weight 0, tried", nodes(w(a, 0, 0)), []int32{0}, "aa"},
		{"tried", nodes(a, b, c), []int32{0}, "bcbcbc"},
		{"priority", nodes(w(a, 1, -1), w(b, 1, 1), w(c, 1, 1)), nil, "bcbc"},
		{"priority, one tried", nodes(w(a, 1, -1), w(b, 1, 1), w(c, 1, 1)), []int32{1}, "cccc"},
		{"priority, group tried", nodes(w(a, 1, -1), w(b, 1, 1), w(c, 1, 1)), []int32{1, 2}, "aa"},
		{"higher group of weight 0", nodes(w(a, 1, 0), w(b, 0, 1)), nil, "aa"},
		{"all tried", nodes(a, b), []int32{0, 1}, "--"},
		{"long period", nodes(w(a, 5003, 0), w(b, 1009, 0), w(c, 997, 0)), nil, "aabacaaa"},
		{"long period, tried", nodes(w(a, 5003, 0), w(b, 1009, 0)), []int32{0}, "bb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := compile(t, &model.Upstream{Nodes: tc.nodes}, env(pools(t)))
			if got := picks(u, len(tc.want), tc.tried...); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPickStart(t *testing.T) {
	e := env(pools(t))
	e.Start = func(n int) int { return n - 1 }
	m := &model.Upstream{Nodes: nodes(model.Node{Host: "a", Weight: 1}, model.Node{Host: "b", Weight: 1})}
	if got := picks(compile(t, m, e), 4); got != "baba" {
		t.Fatal(got)
	}
}

// The shares are exact however many goroutines pick.
func TestPickShares(t *testing.T) {
	for _, weight := range []int{3, 4099} {
		u := compile(t, &model.Upstream{Nodes: nodes(
			model.Node{Host: "a", Weight: weight}, model.Node{Host: "b", Weight: 1})}, env(pools(t)))
		var mu sync.Mutex
		count := map[string]int{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range weight + 1 {
					h := picks(u, 1)
					mu.Lock()
					count[h]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if count["a"] != 4*weight || count["b"] != 4 {
			t.Fatal(count)
		}
	}
}

func TestUnsupported(t *testing.T) {
	p := pools(t)
	for _, m := range []model.Upstream{
		{Scheme: "spdy"}, {Scheme: "kafka"}, {DiscoveryType: "consul", ServiceName: "s"},
	} {
		m.ID = "1"
		m.Nodes = nodes(model.Node{Host: "a", Weight: 1})
		_, err := Compile(&m, env(p))
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "not supported yet") {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if p.Len() != 0 {
		t.Error("a refused upstream uses pools")
	}
}

func BenchmarkPick(b *testing.B) {
	for _, bc := range []struct {
		name   string
		weight int
	}{{"cycle", 3}, {"long", 4099}} {
		b.Run(bc.name, func(b *testing.B) {
			p := NewPools()
			defer p.Close()
			u, err := Compile(&model.Upstream{Nodes: nodes(
				model.Node{Host: "a", Weight: bc.weight}, model.Node{Host: "b", Weight: 1}, model.Node{Host: "c", Weight: 1})}, env(p))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			c := calling(u)
			for b.Loop() {
				c.set.pick(c)
			}
		})
	}
}

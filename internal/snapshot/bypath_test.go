package snapshot

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/threescale"
	"weir/internal/wire"
)

// sharing are products that share hosts and differ in their mapping rules.
func sharing(products, hosts int, patterns func(i int) []string) (all []model.Object) {
	for i := range products {
		var rules []string
		for _, p := range patterns(i) {
			rules = append(rules, fmt.Sprintf(`{"http_method":"ANY","pattern":%q,"metric_system_name":"hits","delta":1}`, p))
		}
		all = append(all, product(strconv.Itoa(i), int64(i+1), fmt.Sprintf(`"hosts":["h%d"],"proxy_rules":[%s]`, i%hosts, strings.Join(rules, ","))))
	}
	return all
}

// The index finds what a look at every rule of every product finds.
func TestPathsAgainstAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "/", "/a", "/b/", "{x}", "/{y}/", "a*", "b?", "(a|b)", "a|b", "$", ".", "[ab]", "é*", "?q={v}", `\\w`}
	pick := func(from []string, most int) string {
		text := "/"
		for range r.IntN(most) {
			text += from[r.IntN(len(from))]
		}
		return text
	}
	a := productApplier(t, threescale.Settings{PathRoutingOnly: true})
	matched := 0
	for range 300 {
		a.ApplyProducts(model.Delta{Put: sharing(8, 1, func(int) (list []string) {
			for range r.IntN(4) {
				list = append(list, pick(parts, 5))
			}
			return list
		})})
		s := a.Current()
		at, _ := s.hosts.Get("h0")
		for range 40 {
			path := pick([]string{"a", "b", "/", "/a", "ab/", ".", "é"}, 6)
			want := "none"
			for _, e := range at.all {
				if e.running.Product != nil && coversAny(e.running.Product.Rules, path) {
					want = e.ID
					matched++
					break
				}
			}
			if got := found(s, "h0", path); got != want {
				t.Fatalf("%s: product %s, want %s", path, got, want)
			}
		}
	}
	if matched < 1000 {
		t.Errorf("only %d paths lead anywhere", matched)
	}
}

func coversAny(rules []*threescale.Rule, path string) bool {
	for _, r := range rules {
		if r.Matches("GET", threescale.EscapePath(path), func(string) (string, bool) { return "", false }) {
			return true
		}
	}
	return false
}

// However many products share a host, a path is held against those rules alone
// that begin as it does, and what clients send is not remembered.
func TestManyPaths(t *testing.T) {
	const products, hosts = 2000, 3
	a := productApplier(t, threescale.Settings{PathRoutingOnly: true})
	a.ApplyProducts(model.Delta{Put: sharing(products, hosts, func(i int) []string {
		return []string{fmt.Sprintf("/product%d/{id}/x", i), fmt.Sprintf("/product%d/(in|out)", i)}
	})})
	s := a.Current()
	for i := range products {
		host := fmt.Sprint("h", i%hosts)
		for _, path := range []string{"/product%d/7/x", "/product%d/out"} {
			if got := found(s, host, fmt.Sprintf(path, i)); got != strconv.Itoa(i) {
				t.Fatalf("product %d: %s", i, got)
			}
		}
		if got := found(s, fmt.Sprint("h", (i+1)%hosts), fmt.Sprintf("/product%d/7/x", i)); got != "none" {
			t.Fatalf("product %d at another host: %s", i, got)
		}
	}
	at, _ := s.hosts.Get("h0")
	rules := len(at.paths.rules)
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		path := "/" + strconv.FormatUint(r.Uint64(), 36) + strings.Repeat("/x", r.IntN(8))
		if got := found(s, "h0", path); got != "none" {
			t.Fatal(path, got)
		}
		asked := 0
		for _, n := range at.paths.lengths {
			if n <= len(path) {
				asked += len(at.paths.rules[path[:n]])
			}
		}
		if asked != 0 {
			t.Fatalf("%s is held against %d rules", path, asked)
		}
	}
	if n := len(at.paths.rules); n != rules || len(at.paths.lengths) > 8 {
		t.Errorf("%d prefixes, were %d, of %d lengths", n, rules, len(at.paths.lengths))
	}
}

func BenchmarkManyPaths(b *testing.B) {
	a := productApplier(b, threescale.Settings{PathRoutingOnly: true})
	a.ApplyProducts(model.Delta{Put: sharing(2000, 1, func(i int) (list []string) {
		for j := range 5 {
			list = append(list, fmt.Sprintf("/product%d/v%d/{id}/x", i, j))
		}
		return list
	})})
	s := a.Current()
	for _, path := range []string{"/product0/v0/1/x", "/product1999/v4/1/x", "/nothing/like/it"} {
		b.Run(path[1:], func(b *testing.B) {
			c := &plugin.Ctx{Request: &wire.Request{Method: "GET", Host: "h0", Target: path}, Path: path}
			b.ReportAllocs()
			for b.Loop() {
				s.MatchProduct(c)
			}
		})
	}
}

package portal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/dialect/apicast"
	"weir/internal/model"
)

func TestPlace(t *testing.T) {
	const g = gap
	for _, c := range []struct{ have, want []int64 }{
		{nil, []int64{}},
		{[]int64{0, 0, 0}, []int64{g, 2 * g, 3 * g}},
		{[]int64{g, 2 * g}, []int64{g, 2 * g}},
		{[]int64{g, 0, 2 * g}, []int64{g, g + g/2, 2 * g}},
		{[]int64{0, g}, []int64{g / 2, g}},
		{[]int64{g, 3 * g, 2 * g, 4 * g}, []int64{g, g + g/2, 2 * g, 4 * g}},
		{[]int64{2 * g, 3 * g, g}, []int64{2 * g, 3 * g, 4 * g}},
		{[]int64{7, 0, 8}, []int64{g, 2 * g, 3 * g}},
		{[]int64{0, 1}, []int64{g, 2 * g}},
	} {
		if got := place(c.have); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.have, got, c.want)
		}
	}
}

// Whatever moves, the numbers increase, and what did not move keeps its own.
func TestPlaceRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var numbers []int64
	for range 2000 {
		next := slices.Clone(numbers)
		switch n := len(next); {
		case n < 5 || r.IntN(3) == 0:
			next = slices.Insert(next, r.IntN(n+1), 0)
		case r.IntN(2) == 0:
			i := r.IntN(n)
			next = slices.Delete(next, i, i+1)
		default:
			i, j := r.IntN(n), r.IntN(n)
			next[i], next[j] = next[j], next[i]
		}
		got := place(next)
		moved := 0
		for i := range got {
			if i > 0 && got[i] <= got[i-1] || got[i] <= 0 {
				t.Fatalf("%v does not increase", got)
			}
			if next[i] != 0 && got[i] != next[i] {
				moved++
			}
		}
		if moved > 2 && moved < len(got)-1 {
			t.Fatalf("%d numbers changed for one edit: %v, %v", moved, next, got)
		}
		numbers = got
	}
}

func services(docs ...string) (out []service) {
	for _, d := range docs {
		e, err := apicast.ReadEntry([]byte(d))
		if err != nil {
			panic(err)
		}
		out = append(out, service{e, e.OIDC})
	}
	return out
}

func svc(id int, hosts string, more string) string {
	return fmt.Sprintf(`{"id":%d,"proxy":{"hosts":["%s"]%s}}`, id, strings.ReplaceAll(hosts, ",", `","`), more)
}

// sum is a step in short: what is put, and after a minus what is deleted.
func sum(d model.Delta) string {
	var parts []string
	for _, o := range d.Put {
		parts = append(parts, o.ID)
	}
	for _, k := range d.Del {
		parts = append(parts, "-"+k.ID)
	}
	return strings.Join(parts, " ")
}

func ids(s *state) string {
	var out []string
	last := int64(0)
	for _, p := range s.order {
		out = append(out, p.ID)
		if p.object.Created <= last {
			out = append(out, "!")
		}
		last = p.object.Created
	}
	return strings.Join(out, " ")
}

func TestWhole(t *testing.T) {
	var s state
	for _, c := range []struct {
		docs []string
		step string
	}{
		{[]string{svc(1, "a", ""), svc(2, "b", ""), svc(3, "c", "")}, "1 2 3"},
		{[]string{svc(1, "a", ""), svc(2, "b", ""), svc(3, "c", "")}, ""},
		{[]string{svc(1, "a", ""), svc(2, "x", ""), svc(3, "c", "")}, "2"},
		{[]string{svc(1, "a", ""), `{ "proxy": {"hosts" : ["x"] }, "id":2 }`, svc(3, "c", "")}, ""},
		{[]string{svc(1, "a", ""), svc(4, "d", ""), svc(2, "x", ""), svc(3, "c", "")}, "4"},
		{[]string{svc(3, "c", ""), svc(1, "a", ""), svc(4, "d", ""), svc(2, "x", "")}, "3"},
		{[]string{svc(3, "c", ""), svc(4, "d", "")}, "-1 -2"},
		{nil, "-3 -4"},
	} {
		next := s.whole(services(c.docs...), nil)
		if got := sum(next.since(&s)); got != c.step {
			t.Errorf("%s: step %q, want %q", c.docs, got, c.step)
		}
		s = *next
		if strings.Contains(ids(&s), "!") || len(s.order) != len(c.docs) {
			t.Errorf("%s: %s", c.docs, ids(&s))
		}
	}
}

func TestMerged(t *testing.T) {
	var s state
	for _, c := range []struct {
		host  string
		docs  []string
		step  string
		order string
	}{
		{"a", []string{svc(1, "a", ""), svc(3, "a,b", "")}, "1 3", "1 3"},
		{"c", []string{svc(5, "c", "")}, "5", "1 3 5"},
		{"a", []string{svc(1, "a", ""), svc(2, "a", ""), svc(3, "a,b", "")}, "2", "1 2 3 5"},
		{"a", []string{svc(3, "a,b", ""), svc(1, "a", "")}, "5 3 -2", "5 3 1"},
		{"b", []string{svc(3, "b", "")}, "3", "5 3 1"},
		{"c", nil, "-5", "3 1"},
		{"d", nil, "", "3 1"},
		{"a", []string{svc(1, "a", `,"secret_token":"x"`)}, "1", "3 1"},
	} {
		next := s.merged(c.host, services(c.docs...), nil)
		if got := sum(next.since(&s)); got != c.step {
			t.Errorf("%s %s: step %q, want %q", c.host, c.docs, got, c.step)
		}
		s = *next
		if got := ids(&s); got != c.order {
			t.Errorf("%s %s: order %q, want %q", c.host, c.docs, got, c.order)
		}
	}
}

func TestDocument(t *testing.T) {
	v := services(svc(1, "a", ""), svc(2, "b", ""))
	v[1].oidc = []byte(`{"issuer":"i"}`)
	s := (&state{}).whole(v, nil)
	if got := string(s.document(false)); got != `{"services":[`+svc(1, "a", "")+`,`+svc(2, "b", "")+`]}` {
		t.Error(got)
	}
	if got := string(s.document(true)); !strings.HasSuffix(got, `,"oidc":[{"service_id":"1"},{"issuer":"i"}]}`) {
		t.Error(got)
	}
	if d := s.since(&state{}); string(d.Put[1].Raw) != `{"service":`+svc(2, "b", "")+`,"oidc":{"issuer":"i"}}` {
		t.Errorf("%s", d.Put[1].Raw)
	}
}

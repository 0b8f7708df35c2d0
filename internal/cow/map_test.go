package cow

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
)

// check compares a map with what it should hold, through every way of reading.
func check(t *testing.T, m Map[int], want map[string]int) {
	t.Helper()
	if m.Len() != len(want) {
		t.Fatalf("Len is %d, want %d", m.Len(), len(want))
	}
	if got := maps.Collect(m.All()); !maps.Equal(got, want) {
		t.Fatalf("All yields %d entries, want %d: %v, want %v", len(got), len(want), got, want)
	}
	for k, v := range want {
		if got, ok := m.Get(k); !ok || got != v {
			t.Fatalf("Get(%q) is %d, %v, want %d", k, got, ok, v)
		}
	}
}

func TestZero(t *testing.T) {
	var m Map[int]
	check(t, m, nil)
	if _, ok := m.Get(""); ok {
		t.Error("the zero map has an entry")
	}
	e := m.Edit()
	if e.Del("a") || e.Len() != 0 {
		t.Error("deleted from an empty map")
	}
	check(t, e.Map(), nil)
}

// TestAgainstMap makes random changes to many versions of one map and holds
// every version against a plain map, at the time and at the end.
func TestAgainstMap(t *testing.T) {
	type version struct {
		m    Map[int]
		want map[string]int
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		keys := 1 << (2 + seed%10)
		versions := []version{{}}
		for range 60 {
			from := versions[r.IntN(len(versions))]
			if r.IntN(4) > 0 {
				from = versions[len(versions)-1]
			}
			e, want := from.m.Edit(), maps.Clone(from.want)
			if want == nil {
				want = map[string]int{}
			}
			dels := r.IntN(5)
			for range r.IntN(1 + keys/4) {
				change(t, r, e, want, keys, dels)
			}
			v := version{e.Map(), want}
			check(t, v.m, want)
			versions = append(versions, v)
		}
		for _, v := range versions {
			check(t, v.m, v.want)
		}
	}
}

func change(t *testing.T, r *rand.Rand, e *Edit[int], want map[string]int, keys, dels int) {
	t.Helper()
	k := fmt.Sprint("key", r.IntN(keys))
	_, there := want[k]
	if r.IntN(4) < dels {
		if e.Del(k) != there {
			t.Fatalf("Del(%q) is %v", k, !there)
		}
		delete(want, k)
	} else {
		v := r.Int()
		if e.Set(k, v) != there {
			t.Fatalf("Set(%q) is %v", k, !there)
		}
		want[k] = v
	}
	got, ok := e.Get(k)
	if v, there := want[k]; ok != there || got != v || e.Len() != len(want) {
		t.Fatalf("after a change Get(%q) is %d, %v, want %d; Len %d", k, got, ok, v, e.Len())
	}
}

// TestCollisions uses hashes so poor that leaves cannot be split.
func TestCollisions(t *testing.T) {
	for name, weak := range map[string]func(string) uint64{
		"all equal": func(string) uint64 { return 42 },
		"top bits":  func(k string) uint64 { return hash(k) &^ (1<<58 - 1) },
		"two":       func(k string) uint64 { return hash(k) & 1 },
		"far apart": func(k string) uint64 { return hash(k) & (1<<53 | 1<<12) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			e, want := &Edit[int]{owner: &owner{weak}}, map[string]int{}
			for i := range 4000 {
				dels := 1
				if i > 2000 {
					dels = 3
				}
				change(t, r, e, want, 200, dels)
				if i%50 == 0 {
					e = &Edit[int]{m: e.Map(), owner: e.owner}
				}
			}
			for k, v := range want {
				if got, ok := e.Get(k); !ok || got != v {
					t.Fatalf("Get(%q) is %d, %v", k, got, ok)
				}
			}
			if got := e.Map(); !maps.Equal(maps.Collect(got.All()), want) {
				t.Fatal("All differs")
			}
		})
	}
}

// TestShape holds leaves and directories to their sizes: growing and shrinking
// leaves no waste behind.
func TestShape(t *testing.T) {
	var m Map[int]
	e := m.Edit()
	const n = 20000
	for i := range n {
		e.Set(fmt.Sprint(i), i)
	}
	m = e.Map()
	if leaves, items := shape(t, m.root, true); items != n || leaves > n/leafSize*2 {
		t.Errorf("%d entries in %d leaves", items, leaves)
	}
	e = m.Edit()
	for i := 10; i < n; i++ {
		e.Del(fmt.Sprint(i))
	}
	small := e.Map()
	if leaves, items := shape(t, small.root, false); items != 10 || leaves > 4 {
		t.Errorf("%d entries in %d leaves after the others were deleted", items, leaves)
	}
	e = small.Edit()
	for i := range 10 {
		e.Del(fmt.Sprint(i))
	}
	if none := e.Map(); none.root != nil {
		t.Error("an empty map has a root")
	}
}

// TestFit: what many entries are set in has no room to spare, and the maps before
// and after stay as they are.
func TestFit(t *testing.T) {
	var m Map[int]
	e, want := m.Edit(), map[string]int{}
	const n = 3 * many
	for i := range n {
		e.Set(fmt.Sprint(i), i)
		want[fmt.Sprint(i)] = i
	}
	m = e.Map()
	check(t, m, want)
	if entries, room := space(m.root); entries != n || room > n*12/10 {
		t.Errorf("room for %d entries, %d are there", room, entries)
	}
	e = m.Edit()
	changed := maps.Clone(want)
	for i := range many {
		e.Set(fmt.Sprint(3*i), -i)
		changed[fmt.Sprint(3*i)] = -i
	}
	check(t, e.Map(), changed)
	check(t, m, want)
	for i := range n {
		e.Set(fmt.Sprint(i), i)
		e.Del(fmt.Sprint(i))
	}
	check(t, e.Map(), nil)
}

// space counts entries and those that there is room for.
func space(n *node[int]) (entries, room int) {
	if n.slots == nil {
		return len(n.items), cap(n.items)
	}
	for i, kid := range n.slots[:n.width()] {
		if kid.slots != nil || i>>kid.depth == 0 {
			e, r := space(kid)
			entries, room = entries+e, room+r
		}
	}
	return entries, room
}

func shape(t *testing.T, n *node[int], full bool) (leaves, items int) {
	t.Helper()
	if n.slots == nil {
		if len(n.items) > leafSize {
			t.Errorf("leaf of %d entries", len(n.items))
		}
		return 1, len(n.items)
	}
	if k := int(n.width()); k > 1<<slotBits || k&(k-1) != 0 || k == 1 {
		t.Errorf("directory of %d slots", k)
	}
	for i, kid := range n.slots[:n.width()] {
		if kid.slots == nil && i>>kid.depth != 0 {
			if n.slots[i&(1<<kid.depth-1)] != kid {
				t.Error("a leaf is not in all its slots")
			}
			continue
		}
		l, c := shape(t, kid, full)
		leaves, items = leaves+l, items+c
	}
	return leaves, items
}

func TestStopIterating(t *testing.T) {
	var m Map[int]
	e := m.Edit()
	for i := range 1000 {
		e.Set(fmt.Sprint(i), i)
	}
	m = e.Map()
	n := 0
	for range m.All() {
		if n++; n == 100 {
			break
		}
	}
	if n != 100 {
		t.Errorf("%d entries before the end of the loop", n)
	}
}

// TestReaders reads old versions while new ones are made from them.
func TestReaders(t *testing.T) {
	var m Map[int]
	e := m.Edit()
	for i := range 2000 {
		e.Set(fmt.Sprint(i), 0)
	}
	m = e.Map()
	var wg sync.WaitGroup
	for version := range 50 {
		old := m
		wg.Go(func() {
			for i := range 2000 {
				if v, ok := old.Get(fmt.Sprint(i)); !ok || v > version {
					t.Errorf("version %d has %d, %v under %d", version, v, ok, i)
					return
				}
			}
		})
		e := m.Edit()
		for i := version; i < 2000; i += 17 {
			e.Set(fmt.Sprint(i), version+1)
		}
		m = e.Map()
	}
	wg.Wait()
}

func TestGetDoesNotAllocate(t *testing.T) {
	var m Map[int]
	e := m.Edit()
	for i := range 5000 {
		e.Set(fmt.Sprint(i), i)
	}
	m = e.Map()
	key := []byte("4711")
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := m.Get(string(key)); !ok {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

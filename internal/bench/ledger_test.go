package bench

import "testing"

// What an object may be after writes of which some were acknowledged, some refused,
// and some left nobody knows how.
func TestLedger(t *testing.T) {
	const put, del = false, true
	type write struct {
		gone bool
		end  string // acknowledged, refused, or nothing
	}
	for _, c := range []struct {
		name   string
		writes []write
		seen   version
		want   judgement
	}{
		{"never written, not there", nil, version{gone: true}, holds},
		{"never written, but there", nil, version{n: 1}, unknown},
		{"acknowledged", []write{{put, "acknowledged"}}, version{n: 1}, holds},
		{"acknowledged, not there", []write{{put, "acknowledged"}}, version{gone: true}, lost},
		{"the one before", []write{{put, "acknowledged"}, {put, "acknowledged"}}, version{n: 1}, lost},
		{"tried, not carried out", []write{{put, "acknowledged"}, {put, ""}}, version{n: 1}, holds},
		{"tried, carried out", []write{{put, "acknowledged"}, {put, ""}}, version{n: 2}, holds},
		{"deletion tried", []write{{put, "acknowledged"}, {del, ""}}, version{gone: true}, holds},
		{"deleted, still there", []write{{put, "acknowledged"}, {del, "acknowledged"}}, version{n: 1}, lost},
		{"tried before what was acknowledged", []write{{put, ""}, {put, "acknowledged"}}, version{n: 1}, lost},
		{"refused", []write{{put, "acknowledged"}, {put, "refused"}}, version{n: 2}, lost},
		{"from nowhere", []write{{put, "acknowledged"}}, version{n: 7}, unknown},
	} {
		l := newLedger()
		for _, w := range c.writes {
			v := l.begin("a", w.gone)
			switch w.end {
			case "acknowledged":
				l.acknowledge("a", v)
			case "refused":
				l.refuse("a", v)
			}
		}
		if got := l.judge("a", c.seen); got != c.want {
			t.Errorf("%s: judged %d, want %d", c.name, got, c.want)
		}
	}
}

func TestLedgerAdopts(t *testing.T) {
	l := newLedger()
	for _, key := range []string{"a", "b"} {
		l.acknowledge(key, l.begin(key, false))
		l.acknowledge(key, l.begin(key, false))
	}
	l.adopt(map[string]int{"a": 1})
	if l.judge("a", version{n: 1}) != holds || l.judge("a", version{n: 2}) != lost || l.judge("b", version{gone: true}) != holds {
		t.Error("what is stored is not what must be")
	}
	if v := l.begin("a", false); v.n != 3 {
		t.Errorf("number %d was given before", v.n)
	}
	if called, acked := l.counts(); called != 5 || acked != 4 {
		t.Errorf("%d called, %d acknowledged", called, acked)
	}
}

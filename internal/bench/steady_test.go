package bench

import "testing"

func TestSteady(t *testing.T) {
	const seconds = 600
	run := func(of func(at float64) holding) []holding {
		var all []holding
		for at := 10.0; at <= seconds; at += 10 {
			s := of(at)
			s.At = at
			all = append(all, s)
		}
		return all
	}
	for _, c := range []struct {
		name string
		of   func(at float64) holding
		flat [4]bool
	}{
		{"flat", func(float64) holding { return holding{RSS: 60, Heap: 20, Goroutines: 40, Descriptors: 30} }, [4]bool{true, true, true, true}},
		{"grows at first", func(at float64) holding {
			return holding{RSS: min(60, 30+at/2), Heap: 20, Goroutines: 40, Descriptors: 30}
		}, [4]bool{true, true, true, true}},
		{"leaks", func(at float64) holding {
			return holding{RSS: 60 + at/50, Heap: 20 + at/100, Goroutines: 40 + at/10, Descriptors: 30 + at/20}
		}, [4]bool{false, false, false, false}},
		{"one sample sticks out", func(at float64) holding {
			s := holding{RSS: 60, Heap: 20, Goroutines: 40, Descriptors: 30}
			if at == 590 {
				s.RSS = 90
			}
			return s
		}, [4]bool{true, true, true, true}},
		{"a few connections more", func(at float64) holding {
			return holding{RSS: 60, Heap: 20, Goroutines: 40 + at/100, Descriptors: 30 + at/100}
		}, [4]bool{true, true, true, true}},
	} {
		got, err := steady(run(c.of), seconds)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range got {
			if m.Flat != c.flat[i] {
				t.Errorf("%s: %+v", c.name, m)
			}
		}
	}
	if _, err := steady(nil, seconds); err == nil {
		t.Error("nothing was judged")
	}
}

package bench

import (
	"fmt"
	"slices"
)

// A holding is what a gateway holds at a moment, after a garbage collection.
type holding struct {
	At          float64 `json:"seconds"`
	RSS         float64 `json:"rss_mib"`
	Heap        float64 `json:"heap_live_mib"`
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
}

// A Measure is how something stood after the first sixth of a run and at its end:
// the medians of the samples around the one and before the other.
type Measure struct {
	Name    string  `json:"name"`
	Early   float64 `json:"early"`
	Late    float64 `json:"late"`
	Percent float64 `json:"growth_percent"`
	Flat    bool    `json:"flat"`
}

// growth is how much more, as a share, is still flat.
const growth = 0.05

// steady judges the samples of a run of so many seconds. Counts may be ten more
// whatever their share: connections come and go.
func steady(samples []holding, seconds float64) ([]Measure, error) {
	var early, late []holding
	for _, s := range samples {
		if s.At >= seconds/8 && s.At <= seconds*5/24 {
			early = append(early, s)
		}
		if s.At >= seconds*11/12 {
			late = append(late, s)
		}
	}
	if len(early) == 0 || len(late) == 0 {
		return nil, fmt.Errorf("%d samples around the first sixth and %d at the end are not enough", len(early), len(late))
	}
	var all []Measure
	for _, m := range []struct {
		name  string
		of    func(holding) float64
		spare float64
	}{
		{"resident MiB", func(s holding) float64 { return s.RSS }, 0},
		{"live heap MiB", func(s holding) float64 { return s.Heap }, 0},
		{"goroutines", func(s holding) float64 { return s.Goroutines }, 10},
		{"descriptors", func(s holding) float64 { return s.Descriptors }, 10},
	} {
		a, b := middle(early, m.of), middle(late, m.of)
		all = append(all, Measure{Name: m.name, Early: a, Late: b, Percent: (b/a - 1) * 100, Flat: b <= a*(1+growth)+m.spare})
	}
	return all, nil
}

func middle(samples []holding, of func(holding) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return median(values)
}

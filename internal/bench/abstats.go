package bench

import (
	"math"
	"slices"
)

// An Effect is by how much a figure of one side differs from that of the first
// side: the median over the pairs of measurements, and an interval that holds
// the true median with at least 95 % confidence. The interval consists of two of
// the pairs' own values, chosen by the binomial distribution (the sign test
// turned around): it assumes nothing of how measurements scatter and a few
// disturbed ones do not move it.
type Effect struct {
	Percent    float64 `json:"percent"` // +3: three per cent more than the first side
	Low        float64 `json:"low_percent"`
	High       float64 `json:"high_percent"`
	Confidence float64 `json:"confidence_percent"` // of the interval, as the number of pairs gives it
	// Established says that the interval does not hold 0.
	Established bool `json:"established"`
}

// fewestPairs is how many pairs the interval needs to have 95 % confidence.
const fewestPairs = 6

const wantedConfidence = 0.95

// effectOf compares figures of pairs; ratios has those of the side divided by
// those of the first.
func effectOf(ratios []float64) Effect {
	sorted := slices.Sorted(slices.Values(ratios))
	k, confidence := orderInterval(len(sorted))
	e := Effect{
		Percent: percent(median(sorted)), Low: percent(sorted[k-1]), High: percent(sorted[len(sorted)-k]),
		Confidence: 100 * confidence,
	}
	e.Established = e.Low > 0 || e.High < 0
	return e
}

func percent(ratio float64) float64 { return 100 * (ratio - 1) }

// orderInterval says that the k-th smallest and the k-th largest of n values
// bound their distribution's median with a confidence. k is the largest with
// which that is enough, and at least 1.
func orderInterval(n int) (k int, confidence float64) {
	below := func(k int) float64 { // the chance of fewer than k values below the median
		sum := 0.0
		for i := range k {
			sum += math.Exp(lnChoose(n, i) - float64(n)*math.Ln2)
		}
		return sum
	}
	for k = 1; k+1 <= n/2 && 1-2*below(k+1) >= wantedConfidence; k++ {
	}
	return k, 1 - 2*below(k)
}

func lnChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

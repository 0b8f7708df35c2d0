package threescale

// Usage is what a request counts on which metric, each metric once, in the order
// in which they came.
type Usage []Count

// A Count is one metric's share.
type Count struct {
	Metric string
	Delta  int64
}

// Add counts delta on metric.
func (u *Usage) Add(metric string, delta int64) {
	for i := range *u {
		if (*u)[i].Metric == metric {
			(*u)[i].Delta += delta
			return
		}
	}
	*u = append(*u, Count{metric, delta})
}

// Trim leaves out what sums up to nothing or less.
func (u *Usage) Trim() {
	kept := (*u)[:0]
	for _, c := range *u {
		if c.Delta > 0 {
			kept = append(kept, c)
		}
	}
	*u = kept
}

package threescale

import "weir/internal/monotonic"

// Seldom is what policies log by.
type Seldom = monotonic.Seldom

package app

import (
	"maps"
	"slices"
	"time"

	"weir/internal/meter"
)

// describeConfiguration makes known how far the gateway is with its configuration
// and what that costs: what GET /v1/revision says, as metrics.
func (g *Gateway) describeConfiguration(m *meter.Registry) {
	number := func(d meter.Desc, value func() float64) {
		m.Func(d, func(emit func(float64, ...string)) { emit(value()) })
	}
	number(gauge("config_applied_revision", "Revision of the configuration that requests see"),
		func() float64 { return float64(g.revision().Applied) })
	number(gauge("config_store_revision", "Highest revision that the source of the configuration has shown"),
		func() float64 { return float64(g.revision().Store) })
	number(gauge("config_lag_revisions", "Revisions between the two; 0: up to date"),
		func() float64 { return float64(g.revision().Lag) })
	number(gauge("config_stale_seconds", "Age of the saved copy that serves because the store has not answered since the start; 0: none does"), g.staleness)
	number(gauge("config_faults", "Objects that do not run as they are stored"), func() float64 {
		n := 0
		for range g.state.Current().Faults {
			n++
		}
		return float64(n)
	})
	number(counter("config_steps_total", "Steps of the configuration that were applied"),
		func() float64 { return float64(g.state.Work().Deltas) })
	number(counter("config_changes_total", "Objects that came, changed or went in these steps"),
		func() float64 { return float64(g.state.Work().Changes) })
	m.Func(counter("config_compiled_total", "Objects that were compiled", "kind"), func(emit func(float64, ...string)) {
		each(g.state.Work().Compiled, emit)
	})
	m.Func(gauge("config_objects", "Objects of the configuration", "kind"), func(emit func(float64, ...string)) {
		counts, _ := g.objects()
		each(counts, emit)
	})
	g.describeComparing(m)
}

// describeComparing makes known what reading the store anew and comparing with it
// have found.
func (g *Gateway) describeComparing(m *meter.Registry) {
	m.Func(counter("config_resyncs_total", "Times that the whole store was read", "reason"), func(emit func(float64, ...string)) {
		each(g.sourceStatus().Resyncs, emit)
	})
	m.Func(counter("config_drift_total", "Differences between the running state and the store that were found and healed", "kind"),
		func(emit func(float64, ...string)) { each(g.sourceStatus().Checked.Drift, emit) })
	m.Func(counter("config_compared_total", "Keys of the store that were compared with the running state"),
		func(emit func(float64, ...string)) { emit(float64(g.sourceStatus().Checked.Keys)) })
	m.Func(counter("config_compare_cycles_total", "Times that the whole store was compared"),
		func(emit func(float64, ...string)) { emit(float64(g.sourceStatus().Checked.Cycles)) })
	m.Func(gauge("config_compare_cycle_seconds", "How long the last time took, pauses included"),
		func(emit func(float64, ...string)) { emit(g.sourceStatus().Checked.Cycle.Seconds()) })
}

// staleness is the age of the saved copy that serves.
func (g *Gateway) staleness() float64 {
	if at := g.staleSince.Load(); at != nil {
		return time.Since(*at).Seconds()
	}
	return 0
}

// each emits the values of a map by their keys.
func each[N int | int64](of map[string]N, emit func(float64, ...string)) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		emit(float64(of[key]), key)
	}
}

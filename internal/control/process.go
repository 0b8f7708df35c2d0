package control

import (
	"net/http"
	"runtime/metrics"
)

// A Process is what the process holds, for whoever wants to see that it stays flat.
type Process struct {
	Goroutines uint64 `json:"goroutines"`
	Live       uint64 `json:"heap_live_bytes"` // found reachable by the last collection
	Heap       uint64 `json:"heap_bytes"`      // objects, reachable or not yet collected
	Memory     uint64 `json:"memory_bytes"`    // mapped by the runtime, less what was given back
	Cycles     uint64 `json:"gc_cycles"`
}

// process is GET /v1/process.
func process(w http.ResponseWriter, _ *http.Request) {
	s := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(s)
	n := func(i int) uint64 { return s[i].Value.Uint64() }
	answer(w, http.StatusOK, Process{Goroutines: n(0), Live: n(1), Heap: n(2), Memory: n(3) - n(4), Cycles: n(5)})
}

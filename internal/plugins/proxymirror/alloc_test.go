//go:build !race

package proxymirror

import (
	"testing"

	"weir/internal/plugin/plugintest"
)

// TestNoAllocation: a request that is not copied costs nothing.
func TestNoAllocation(t *testing.T) {
	g := newGateway(t)
	g.env.Rand = func() float64 { return 0.9 }
	ph := g.compile(`{"host":"http://127.0.0.1","sample_ratio":0.5}`)
	c := plugintest.NewCtx("/")
	n := testing.AllocsPerRun(100, func() {
		plugintest.Send(ph, c)
		ph.Log(c)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

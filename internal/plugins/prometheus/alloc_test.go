//go:build !race

package prometheus

import "testing"

// TestNoAllocation: a request whose labels were seen before allocates nothing.
func TestNoAllocation(t *testing.T) {
	for what, raw := range map[string]string{"plain": "", "extra labels": attr} {
		g := newGateway(t, raw)
		r := g.compile(`{}`, "")
		c := finished(nil)
		if n := testing.AllocsPerRun(100, func() { r.Log(c) }); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
		r.close()
	}
}

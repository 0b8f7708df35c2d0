package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// sinceEpoch are the files that may ask for nanoseconds since 1970, and why.
var sinceEpoch = map[string]string{
	"internal/app/selfsigned.go":    "a serial number",
	"internal/limit/window.go":      "where windows begin; what passes in them is monotonic",
	"internal/threescale/verify.go": "tokens tell of the day",
}

// TestClock keeps times that are stored and compared from standing still or running
// away when the clock of the system is set: they come from internal/monotonic.
func TestClock(t *testing.T) {
	for _, p := range packages(t) {
		if p.name() == "internal/bench" || parent(p.name()) == "internal/bench" {
			continue // its clocks run for a few minutes, and nobody sets them
		}
		for _, f := range p.GoFiles {
			name := p.name() + "/" + f
			asked := asksSinceEpoch(t, filepath.Join(p.Dir, f))
			_, may := sinceEpoch[name]
			switch {
			case asked && !may:
				t.Errorf("%s: UnixNano; a step of the clock moves it, see internal/monotonic", name)
			case may && !asked:
				t.Errorf("%s: is listed and does not ask", name)
			}
		}
	}
}

func asksSinceEpoch(t *testing.T, path string) (asked bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "UnixNano" {
			asked = true
		}
		return true
	})
	return asked
}

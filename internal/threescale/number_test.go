package threescale

import (
	"encoding/json"
	"testing"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]struct {
		number Number
		whole  Whole
		bad    int // how many of the two it is not
	}{
		`1`: {1, 1, 0}, `"1"`: {1, 1, 0}, `" 10 "`: {10, 10, 0}, `null`: {0, 0, 0}, `1.5`: {1.5, 0, 1}, `"1e3"`: {1000, 1000, 0},
		`-1`: {-1, -1, 0}, `"x"`: {0, 0, 2}, `""`: {0, 0, 2}, `"inf"`: {0, 0, 2}, `"NaN"`: {0, 0, 2}, `1e300`: {1e300, 0, 1}, `{}`: {0, 0, 2}, `true`: {0, 0, 2},
	} {
		var n Number
		var w Whole
		bad := 0
		if json.Unmarshal([]byte(text), &n) != nil {
			bad++
		}
		if json.Unmarshal([]byte(text), &w) != nil {
			bad++
		}
		if n != want.number || w != want.whole || bad != want.bad {
			t.Errorf("%s: %v %v, %d errors", text, n, w, bad)
		}
	}
}

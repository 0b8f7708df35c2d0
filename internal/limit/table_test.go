package limit

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTableIsAMap: whatever is put, taken out, left to expire and swept, the table
// holds what a map would.
func TestTableIsAMap(t *testing.T) {
	type want struct {
		value int
		end   time.Duration
	}
	clock := new(fake)
	table := NewTable[int](clock.now)
	defer table.Close()
	model := map[string]want{}
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Duration(0)
	for step := range 200_000 {
		number := rng.IntN(5000)
		key := strconv.Itoa(number) + strings.Repeat("x", number%40) // some lie in their entry, some do not
		before := model[key]
		if before.end <= now {
			before = want{}
		}
		keep := time.Duration(rng.IntN(4)) * time.Second
		table.Do([]byte(key), func(v *int, _ time.Duration) time.Duration {
			if *v != before.value {
				t.Fatalf("step %d: %s has %d, want %d", step, key, *v, before.value)
			}
			*v = step
			return keep
		})
		if model[key] = (want{step, now + keep}); keep == 0 {
			delete(model, key)
		}
		if step%1000 == 0 {
			clock.forward(500 * time.Millisecond)
			now += 500 * time.Millisecond
			for k, w := range model {
				if w.end <= now {
					delete(model, k)
				}
			}
			for range 2 { // what moves in from the other end is seen by the second
				table.sweep()
			}
			if table.Len() != len(model) {
				t.Fatalf("step %d: %d keys, want %d", step, table.Len(), len(model))
			}
		}
	}
}

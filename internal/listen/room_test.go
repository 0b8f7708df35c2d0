package listen

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestRoomBound(t *testing.T) {
	for descriptors, want := range map[int]int{
		0: 0, 1: 1, 64: 1, 66: 1, 190: 63, 1024: 448, 65536: 32256, 1 << 20: 523776,
	} {
		if got := newRoom(func() int { return descriptors }).Bound(); got != want {
			t.Errorf("%d descriptors: %d, want %d", descriptors, got, want)
		}
	}
	var none *Room
	none.Enter(nil)
	none.Leave()
	none.Wake()
	if none.Bound() != 0 || none.Crowded() {
		t.Error("no room is no bound")
	}
}

// Who comes when there is no room waits until somebody leaves, also when the limit
// of the process has fallen below what is open.
func TestRoomWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(leastReserve + 4)
		r := newRoom(func() int { return int(limit.Load()) })
		going := func() bool { return false }
		r.Enter(going)
		r.Enter(going)
		entered := 2
		limit.Store(leastReserve + 2)
		go func() { r.Enter(going); entered++ }()
		for _, left := range []int{1, 2} {
			synctest.Wait()
			if entered != 2 || !r.Crowded() {
				t.Fatalf("%d left: %d entered, crowded %v", left-1, entered, r.Crowded())
			}
			r.Leave()
		}
		synctest.Wait()
		if entered != 3 || r.Crowded() {
			t.Errorf("%d entered, crowded %v", entered, r.Crowded())
		}
	})
}

// Who waits gives up when that has no sense any more.
func TestRoomWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(func() int { return 1 })
		var stopping atomic.Bool
		r.Enter(stopping.Load)
		entered := make(chan bool)
		go func() { entered <- r.Enter(stopping.Load) }()
		synctest.Wait()
		stopping.Store(true)
		r.Wake()
		if <-entered {
			t.Error("entered although there was no room")
		}
		if r.Crowded() {
			t.Error("still waiting")
		}
	})
}

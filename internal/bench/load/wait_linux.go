package load

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// preciseWait gives the calling goroutine a thread of its own and returns a
// function that sleeps in the kernel until a time, and one that gives the
// thread back. The runtime's own timers round up to a millisecond when the
// process is idle; this wakes within tens of microseconds and does not spin,
// so it takes nothing from a gateway on the same cores.
func preciseWait() (wait func(time.Time), release func()) {
	runtime.LockOSThread()
	// Failing to narrow the slack only costs precision, and that is reported.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	wait = func(t time.Time) {
		for {
			d := time.Until(t)
			if d <= 0 {
				return
			}
			ts := unix.NsecToTimespec(int64(d))
			// Interrupted by the runtime's preemption signals: sleep the rest.
			_ = unix.Nanosleep(&ts, nil)
		}
	}
	return wait, func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
		runtime.UnlockOSThread()
	}
}

//go:build !linux

package load

import "time"

// preciseWait is the runtime's sleep where no finer one is known.
func preciseWait() (wait func(time.Time), release func()) {
	return func(t time.Time) { time.Sleep(time.Until(t)) }, func() {}
}

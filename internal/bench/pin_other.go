//go:build !linux

package bench

import "time"

// onCore runs f; only Linux can keep it on one core.
func onCore(_ int, f func() error) error { return f() }

// leaveCore divides the cores on Linux only.
func leaveCore() (core int, restore func(), ok bool) { return 0, func() {}, false }

// cpuTime is the user and system time of a process.
func cpuTime(pid int) (time.Duration, error) {
	u, err := processUsage(pid)
	return u.cpu, err
}

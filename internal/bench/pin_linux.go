package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// onCore runs f on a thread that may only use one core. A process that f starts
// inherits that.
func onCore(core int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("core %d: sched_setaffinity: %w", core, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return f()
}

// leaveCore divides the cores that this process may use: it keeps all but the
// first, which is returned. ok is false if there is only one. restore undoes it.
func leaveCore() (core int, restore func(), ok bool) {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return 0, func() {}, false
	}
	for !all.IsSet(core) {
		core++
	}
	rest := all
	rest.Clear(core)
	procs := runtime.GOMAXPROCS(rest.Count())
	setThreads(&rest)
	return core, func() {
		setThreads(&all)
		runtime.GOMAXPROCS(procs)
	}, true
}

// setThreads sets where the threads of this process run. New ones inherit it
// from those that start them; the second round is for those born in the first.
func setThreads(set *unix.CPUSet) {
	for range 2 {
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, t := range tasks {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.SchedSetaffinity(id, set) // it may have ended
			}
		}
	}
}

// cpuTime is the user and system time of all threads of a process since its
// start, those that have ended included: what utime and stime of /proc/PID/stat
// say in hundredths of a second, in nanoseconds (clock_getcpuclockid(3)).
func cpuTime(pid int) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

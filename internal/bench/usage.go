package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process and all its descendants have used.
type usage struct {
	cpu time.Duration // user and system time since their start
	rss int64         // resident bytes now
}

// clockTick is the unit of times in /proc/PID/stat: USER_HZ, 100 on every
// architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// processUsage reads /proc (proc(5)) for pid and its descendants, so that a
// master with workers counts as one gateway. The time of descendants that have
// ended counts once they were waited for.
func processUsage(pid int) (usage, error) {
	var u usage
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, err
	}
	// The command name stands in parentheses and may contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 22 {
		return u, fmt.Errorf("%s/stat has %d fields", dir, len(fields))
	}
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s/stat: %w", dir, err)
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	if err != nil {
		return u, fmt.Errorf("%s/stat: %w", dir, err)
	}
	u.rss = pages * int64(os.Getpagesize())
	for _, child := range children(dir) {
		// A child that has just ended is not an error.
		if c, err := processUsage(child); err == nil {
			u.cpu += c.cpu
			u.rss += c.rss
		}
	}
	return u, nil
}

func children(dir string) []int {
	lists, _ := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	var pids []int
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

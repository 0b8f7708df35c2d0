package listen

import "syscall"

// maxDescriptors is RLIMIT_NOFILE; 0: unknown.
func maxDescriptors() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(l.Cur, 1<<30))
}

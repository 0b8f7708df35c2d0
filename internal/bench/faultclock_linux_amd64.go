package bench

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A falseClock shows one process another time of day than the system's, and nobody
// else. Go programs ask the kernel's vDSO for the time, a page of code in every
// process; in that process it is overwritten with code that adds an offset.
type falseClock struct {
	mem    *os.File // the memory of the process
	offset int64    // address of the seconds that are added
}

// falsified replaces clock_gettime(clock, *timespec) of the vDSO.
var falsified = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME?
	0x75, 10, // jne past the addition
	0x48, 0x8b, 0x15, 6, 0, 0, 0, // mov rdx, [rip+6]: the offset
	0x48, 0x01, 0x16, // add [rsi], rdx: the seconds
	0xc3, 0x90, 0x90, // ret, and nothing up to the offset
	0, 0, 0, 0, 0, 0, 0, 0, // the offset
}

// needClock says why no process can be shown another time.
func needClock(*faultOptions) error { return nil }

// newFalseClock takes over the clock of a process, whose time stays what it is.
func newFalseClock(pid int) (*falseClock, error) {
	from, to, err := vdso(pid)
	if err != nil {
		return nil, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c := &falseClock{mem: mem}
	if err := c.install(pid, from, to); err != nil {
		c.close()
		return nil, fmt.Errorf("the clock of process %d: %w", pid, err)
	}
	return c, nil
}

func (c *falseClock) install(pid int, from, to int64) error {
	image := make([]byte, to-from)
	if _, err := c.mem.ReadAt(image, from); err != nil {
		return err
	}
	at, size, err := clockGettime(image)
	if err != nil {
		return err
	}
	if size < len(falsified) {
		return fmt.Errorf("clock_gettime has %d bytes, %d are needed", size, len(falsified))
	}
	at += from
	c.offset = at + int64(len(falsified)) - 8
	return whileStopped(pid, at, at+int64(size), func() error {
		_, err := c.mem.WriteAt(falsified, at)
		return err
	})
}

// set shows the process the time of the system and d, in whole seconds.
func (c *falseClock) set(d time.Duration) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(d/time.Second))
	_, err := c.mem.WriteAt(b[:], c.offset)
	return err
}

func (c *falseClock) close() { c.mem.Close() }

// vdso is where the vDSO of a process lies.
func vdso(pid int) (from, to int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, errors.New("there is no vDSO")
}

// clockGettime finds the function in the image of a vDSO.
func clockGettime(image []byte) (at int64, size int, err error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int64(s.Value), int(s.Size), nil
		}
	}
	return 0, 0, errors.New("the vDSO has no clock_gettime")
}

// whileStopped runs f while the process stands still and none of its threads is
// between the given addresses.
func whileStopped(pid int, from, to int64, f func() error) error {
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	for range 1000 {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		inside, err := anyThread(pid, from, to)
		if err == nil && !inside {
			return f()
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("its threads do not stop where they should")
}

// anyThread reports whether a thread of a stopped process is between addresses.
func anyThread(pid int, from, to int64) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return false, err
	}
	for _, path := range threads {
		pc, err := counter(path)
		if err != nil {
			return false, err
		}
		if pc >= from && pc < to {
			return true, nil
		}
	}
	return false, nil
}

// counter is the address at which a stopped thread goes on (proc_pid_syscall(5)).
func counter(path string) (int64, error) {
	for range 1000 {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		if fields := strings.Fields(string(text)); len(fields) >= 3 {
			return strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		}
		time.Sleep(100 * time.Microsecond) // "running": it has not stopped yet
	}
	return 0, fmt.Errorf("%s: the thread does not stop", path)
}

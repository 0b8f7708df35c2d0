package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitDescriptors lowers the RLIMIT_NOFILE of a running process (prlimit(2)).
func limitDescriptors(pid, n int) error {
	l := unix.Rlimit{Cur: uint64(n), Max: uint64(n)}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &l, nil)
}

// smallDisk is the size of the file system that disk-full fills: two segments of
// etcd's log and a little.
const smallDisk = 256 << 20

// needMount says why no file system can be mounted.
func needMount(*faultOptions) error {
	dir, err := os.MkdirTemp("", "weir-mount-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return unix.Unmount(dir, 0)
}

// mount puts the gateway's data on a small file system.
func (t *trial) mount() error {
	if err := os.MkdirAll(t.dataDir(), 0o700); err != nil {
		return err
	}
	return unix.Mount("tmpfs", t.dataDir(), "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", smallDisk))
}

// unmount undoes mount; where nothing is mounted it does nothing.
func (t *trial) unmount() { _ = unix.Unmount(t.dataDir(), unix.MNT_DETACH) }

// fillDisk fills the disk with the gateway's data to the last byte, writes on until
// its store gives up or a while has passed, makes room and starts the gateway again
// if it needs that.
func fillDisk(ctx context.Context, t *trial) error {
	filler := filepath.Join(t.dataDir(), "filler")
	if err := fill(filler); err != nil {
		return err
	}
	before := t.acknowledged()
	if err := t.pause(ctx, 2*t.opts.hold); err != nil {
		return err
	}
	t.note("%d writes were acknowledged on the full disk", t.acknowledged()-before)
	select {
	case <-t.gateway.proc.ended.Done():
		return errors.New("the gateway has ended because its disk is full")
	default:
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if t.writable(ctx) {
		t.note("room was enough to go on")
		return nil
	}
	t.note("the store had given up: the gateway served without it and was started again")
	t.stopWriters()
	t.stopLoad() // all that it has sent was answered; the restart is not part of the fault
	t.gateway.proc.stop()
	t.mended = time.Now()
	return t.gateway.start()
}

// fill writes a file until nothing fits any more.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size >= 1; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

// A backlog is a listener that accepts nothing and whose queue is full, so that
// connecting to it gets no answer at all.
type backlog struct {
	addr  string
	fd    int
	conns []net.Conn
}

func fullBacklog() (*backlog, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	b := &backlog{fd: fd}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		b.close()
		return nil, err
	}
	if err := unix.Listen(fd, 0); err != nil {
		b.close()
		return nil, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		b.close()
		return nil, err
	}
	b.addr = fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	for range 10 {
		nc, err := net.DialTimeout("tcp", b.addr, 200*time.Millisecond)
		if err != nil {
			return b, nil
		}
		b.conns = append(b.conns, nc)
	}
	b.close()
	return nil, errors.New("the queue of a listener does not fill up")
}

func (b *backlog) close() {
	for _, nc := range b.conns {
		_ = nc.Close()
	}
	_ = unix.Close(b.fd)
}

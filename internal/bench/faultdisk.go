package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// loopDisk is the size of the file system that hangs: the logs of three members of
// etcd, and a little.
const loopDisk = 768 << 20

// needLoop says why no file system can be mounted and stopped.
func needLoop(*faultOptions) error {
	dir, err := os.MkdirTemp("", "weir-loop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "at")
	if err := mountLoop(filepath.Join(dir, "image"), at, 16<<20); err != nil {
		return err
	}
	return errors.Join(freeze(at), thaw(at), run("umount", at))
}

// mountLoop mounts a new file system that lies in a file.
func mountLoop(image, at string, size int64) error {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, size); err != nil {
		return err
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if err := run("mkfs.ext4", "-q", "-F", image); err != nil {
		return err
	}
	if err := run("mount", "-o", "loop", image, at); err != nil {
		return err
	}
	return os.Chmod(at, 0o700)
}

// freeze has whoever writes to a file system wait for thaw.
func freeze(at string) error { return run("fsfreeze", "--freeze", at) }
func thaw(at string) error   { return run("fsfreeze", "--unfreeze", at) }

// mountLoop puts the data on a disk that can be stopped.
func (t *trial) mountLoop() error {
	return mountLoop(filepath.Join(t.dir, "disk"), t.dataDir(), loopDisk)
}

// slowDisk stops the disk of the store, and of the gateway's saved copy, for a while,
// and then for half of every second.
func slowDisk(ctx context.Context, t *trial) error {
	n, err := t.stopDisk(ctx, t.opts.hold)
	if err != nil {
		return err
	}
	t.note("%d writes were acknowledged while the disk stood still for %v (their last step may have been before)", n, t.opts.hold)
	const beat = 500 * time.Millisecond
	before := t.acknowledged()
	for end := time.Now().Add(2 * t.opts.hold); time.Now().Before(end); {
		if _, err := t.stopDisk(ctx, beat); err != nil {
			return err
		}
		if err := t.pause(ctx, beat); err != nil {
			return err
		}
	}
	t.note("%d writes were acknowledged while it stood still for half of every second", t.acknowledged()-before)
	t.mended = time.Now()
	return nil
}

// stopDisk counts the writes that are acknowledged while the disk stands still. It
// leaves it running whatever happens: what waits for it cannot be killed.
func (t *trial) stopDisk(ctx context.Context, d time.Duration) (acknowledged int, err error) {
	if err := freeze(t.dataDir()); err != nil {
		return 0, err
	}
	before := t.acknowledged()
	err = t.pause(ctx, d)
	acknowledged = t.acknowledged() - before
	return acknowledged, errors.Join(err, thaw(t.dataDir()))
}

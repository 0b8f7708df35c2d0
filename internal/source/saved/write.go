package saved

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weir/internal/durable"
	"weir/internal/model"
)

const (
	part       = 200         // objects of one line of a whole state
	mostBehind = 100_000     // objects that may be pending
	idleStep   = time.Minute // how often the time of an unchanged configuration is renewed
	retry      = time.Minute // after a failure
	restFactor = 4           // a part is followed by a rest of so many times what it took
)

// Follow begins to write: what whole yields, and what Add tells of from now on. What
// cannot be written is told to failed, and tried again later. Close ends it.
func (c *Copy) Follow(whole Whole, failed func(error)) {
	c.whole, c.failed = whole, failed
	go c.run()
}

// Add tells of a step that whole contains by now. One that changes nothing is written
// once a minute.
func (c *Copy) Add(d model.Delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects += len(d.Put) + len(d.Del)
	if c.missed = c.missed || c.objects > mostBehind; c.missed {
		c.pending = nil
	} else {
		c.pending = append(c.pending, d)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take returns what is pending, and whether that is all there was.
func (c *Copy) take() (steps []model.Delta, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps, all = c.pending, !c.missed
	c.pending, c.objects, c.missed = nil, 0, false
	return steps, all
}

// miss says that only the whole state helps.
func (c *Copy) miss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending, c.missed = nil, true
}

// Close writes what is left, without rest, and ends writing if Follow has begun it.
func (c *Copy) Close(ctx context.Context) error {
	if c.whole == nil {
		return nil
	}
	close(c.stop)
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", c.path, ctx.Err())
	}
}

// run writes until Close.
func (c *Copy) run() {
	defer close(c.ended)
	c.miss()
	for {
		err := c.write()
		wake := c.wake
		if err != nil {
			c.failed(err)
			c.miss()
			wake = nil
		}
		select {
		case <-c.stop:
			if err := c.end(); err != nil {
				c.failed(err)
			}
			return
		case <-wake:
		case <-time.After(retry):
		}
	}
}

// end writes what is left, and that the state was current until now.
func (c *Copy) end() error {
	if err := c.write(); err != nil {
		return err
	}
	revision, _ := c.whole()
	return errors.Join(c.out.append(step{Time: c.now(), Revision: revision}), c.out.close())
}

// write appends what is pending, or writes the whole state if that is shorter.
func (c *Copy) write() error {
	steps, all := c.take()
	if !all || c.out.size > 2*c.out.whole+1<<20 {
		return c.fold()
	}
	for _, d := range steps {
		now := c.now()
		if len(d.Put) == 0 && len(d.Del) == 0 && now.Sub(c.out.last) < idleStep {
			continue
		}
		if err := c.out.append(step{now, d.Revision, d.Put, d.Del}); err != nil {
			return err
		}
	}
	return nil
}

// fold replaces the file by one that holds the whole state. The old one stays until
// the new one is whole, on the disk.
func (c *Copy) fold() error {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	out := &output{file: f}
	if err := c.putAll(out); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := durable.Rename(f, c.path); err != nil {
		return errors.Join(err, f.Close())
	}
	if c.out != nil {
		_ = c.out.file.Close() // it has no name any more
	}
	out.whole, c.out = out.size, out
	return nil
}

// putAll writes the whole state in parts: as text, a large one takes several times
// its memory. It works a part of the time only, so that requests do not notice.
func (c *Copy) putAll(out *output) error {
	revision, objects := c.whole()
	began := time.Now()
	some := make([]model.Object, 0, part)
	for o := range objects {
		if some = append(some, o); len(some) < part {
			continue
		}
		if err := out.append(step{Time: c.now(), Revision: revision, Put: some}); err != nil {
			return err
		}
		some = some[:0]
		c.rest(restFactor * time.Since(began))
		began = time.Now()
	}
	return out.append(step{Time: c.now(), Revision: revision, Put: some})
}

// rest waits unless writing is to end.
func (c *Copy) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.stop:
	case <-t.C:
	}
}

// An output is the file that steps are appended to.
type output struct {
	file  *os.File
	whole int64     // bytes of the whole state at its beginning
	size  int64     // bytes
	last  time.Time // when the last step was written
}

func (o *output) append(s step) error {
	o.last = s.Time
	return json.NewEncoder(o).Encode(s) // in one Write, of memory that is used again
}

func (o *output) Write(line []byte) (n int, err error) {
	n, err = o.file.Write(line)
	o.size += int64(n)
	return n, err
}

func (o *output) close() error { return errors.Join(o.file.Sync(), o.file.Close()) }

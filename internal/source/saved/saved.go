// Package saved keeps the last good configuration of a store in a file, so that
// a gateway can start while its store cannot be reached.
package saved

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"weir/internal/model"
)

// A Copy is the file. Its steps are appended as they come and folded into one
// whole state when they have become more than that. It holds credentials: the
// file is readable by its owner only.
type Copy struct {
	path  string
	now   func() time.Time
	file  *os.File
	whole int64     // bytes of the whole state at the file's beginning
	size  int64     // bytes of the file
	said  time.Time // when the last step was written
}

// step is one line of the file.
type step struct {
	Time     time.Time      `json:"t"`
	Revision int64          `json:"revision"`
	Put      []model.Object `json:"put,omitempty"`
	Del      []model.Key    `json:"del,omitempty"`
}

// idleStep is how often the time of an unchanged configuration is renewed.
const idleStep = time.Minute

// New returns the copy in the file of that path. Nothing is read or written yet.
func New(path string) *Copy { return &Copy{path: path, now: time.Now} }

// Load reads the state and when it was known to be current. A file that does
// not exist is os.ErrNotExist. A last line that was cut is left out.
func (c *Copy) Load() (d model.Delta, at time.Time, err error) {
	f, err := os.Open(c.path)
	if err != nil {
		return d, at, err
	}
	defer f.Close()
	objects := map[model.Key]model.Object{}
	for dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20)); ; {
		var s step
		if err := dec.Decode(&s); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		} else if err != nil {
			return model.Delta{}, at, fmt.Errorf("%s: %w", c.path, err)
		}
		for _, o := range s.Put {
			objects[o.Key] = o
		}
		for _, k := range s.Del {
			delete(objects, k)
		}
		d.Revision, at = s.Revision, s.Time
	}
	for _, o := range objects {
		d.Put = append(d.Put, o)
	}
	return d, at, nil
}

// Begin replaces the file by one that holds a whole state.
func (c *Copy) Begin(d model.Delta) error {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	before := c.file
	c.file, c.size = f, 0
	// In parts: as text, a large state takes several times its memory.
	const part = 1000
	rest := d.Put
	for ; len(rest) > part; rest = rest[part:] {
		if err := c.append(model.Delta{Revision: d.Revision, Put: rest[:part]}); err != nil {
			return err
		}
	}
	if err := c.append(model.Delta{Revision: d.Revision, Put: rest, Del: d.Del}); err != nil {
		return err
	}
	c.whole = c.size
	if before != nil {
		before.Close()
	}
	return os.Rename(c.path+".new", c.path)
}

// Add appends a step. One that changes nothing is written once a minute.
func (c *Copy) Add(d model.Delta) error {
	if len(d.Put) == 0 && len(d.Del) == 0 && c.now().Sub(c.said) < idleStep {
		return nil
	}
	if err := c.append(d); err != nil {
		return err
	}
	if c.size <= 2*c.whole+1<<20 {
		return nil
	}
	all, _, err := c.Load()
	if err != nil {
		return err
	}
	return c.Begin(all)
}

func (c *Copy) append(d model.Delta) error {
	c.said = c.now()
	b, err := json.Marshal(step{c.said, d.Revision, d.Put, d.Del})
	if err != nil {
		return err
	}
	n, err := c.file.Write(append(b, '\n'))
	c.size += int64(n)
	return err
}

// Close ends writing. revision is renewed if something was written at all.
func (c *Copy) Close(revision int64) error {
	if c.file == nil {
		return nil
	}
	return errors.Join(c.append(model.Delta{Revision: revision}), c.file.Close())
}

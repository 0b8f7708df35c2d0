// Package saved keeps the last good configuration of a store in a file, so that
// a gateway can start while its store cannot be reached.
package saved

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"weir/internal/model"
)

// A Copy is the file. Its steps are appended as they come, and when they have become
// more than the whole state at its beginning, it is written anew. Whoever tells of
// steps does not wait for that: a goroutine of the Copy's own writes. The file holds
// credentials: it is readable by its owner only.
type Copy struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	pending []model.Delta // not written yet
	objects int           // in them
	missed  bool          // there was more than is kept: only the whole state helps

	wake   chan struct{} // something is pending
	stop   chan struct{} // the rest is written without rest
	ended  chan struct{} // nothing is written any more
	whole  Whole
	failed func(error)

	out *output // of the goroutine that writes; nil: nothing is written yet
}

// A Whole yields the state as it is now, and its revision.
type Whole func() (revision int64, objects iter.Seq[model.Object])

// step is one line of the file.
type step struct {
	Time     time.Time      `json:"t"`
	Revision int64          `json:"revision"`
	Put      []model.Object `json:"put,omitempty"`
	Del      []model.Key    `json:"del,omitempty"`
}

// New returns the copy in the file of that path. Nothing is read or written yet.
func New(path string) *Copy {
	return &Copy{path: path, now: time.Now, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
}

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

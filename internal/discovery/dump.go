package discovery

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// A Dump is the file in which the nodes of services survive a restart while the
// registry cannot be reached. Its form is APISIX's.
type Dump struct {
	Path   string
	Load   bool          // at the start
	Expire time.Duration // age from which it is not loaded; 0: never

	dirty chan struct{}
}

// dumpPause is the least time between two writes.
const dumpPause = 500 * time.Millisecond

// dumped is the content of the file.
type dumped struct {
	Services   map[string]dumpedNodes `json:"services"`
	LastUpdate int64                  `json:"last_update"` // seconds of the epoch
	Expire     int64                  `json:"expire"`      // seconds
}

// dumpedNodes may be an empty object, too: APISIX does not tell an empty list
// from one.
type dumpedNodes []Node

func (d *dumpedNodes) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("{}")) {
		return nil
	}
	return json.Unmarshal(b, (*[]Node)(d))
}

// NewDump makes a Dump.
func NewDump(path string, load bool, expire time.Duration) *Dump {
	return &Dump{Path: path, Load: load, Expire: expire, dirty: make(chan struct{}, 1)}
}

// load reads the file; nil: nothing of it is to be used.
func (d *Dump) load(log *slog.Logger) map[string]dumpedNodes {
	if !d.Load {
		return nil
	}
	content, err := d.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		log.Warn("the dump file of discovery cannot be used", "err", err)
		return nil
	case d.Expire != 0 && time.Unix(content.LastUpdate, 0).Add(d.Expire).Before(time.Now()):
		log.Warn("dump file: " + d.Path + " had expired, ignored it")
		return nil
	}
	return content.Services
}

func (d *Dump) read() (dumped, error) {
	var content dumped
	b, err := os.ReadFile(d.Path)
	if err != nil {
		return content, err
	}
	if err := json.Unmarshal(b, &content); err != nil {
		return content, fmt.Errorf("%s: %w", d.Path, err)
	}
	if content.LastUpdate == 0 {
		return content, errors.New(d.Path + ": last_update is missing")
	}
	return content, nil
}

// changed has the file written.
func (d *Dump) changed() {
	select {
	case d.dirty <- struct{}{}:
	default:
	}
}

// run writes the file when services have changed, and once more at the end if
// that is due.
func (d *Dump) run(ctx context.Context, services func() map[string][]Node, log *slog.Logger) {
	failing := false
	for {
		end := false
		select {
		case <-d.dirty:
		case <-ctx.Done():
			end = true
			select {
			case <-d.dirty:
			default:
				return
			}
		}
		err := d.write(services())
		if err != nil && !failing {
			log.Error("the dump file of discovery cannot be written", "err", err)
		}
		failing = err != nil
		if end {
			return
		}
		Sleep(ctx, dumpPause)
	}
}

// write replaces the file in one step: a reader finds the old one or the new one.
func (d *Dump) write(services map[string][]Node) error {
	content := dumped{make(map[string]dumpedNodes, len(services)), time.Now().Unix(), int64(d.Expire / time.Second)}
	for key, nodes := range services {
		content.Services[key] = nodes
	}
	b, err := json.Marshal(content)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(d.Path), filepath.Base(d.Path)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(b)
	err = cmp.Or(err, next.Chmod(0o644), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), d.Path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // the first failure is the one to report
	}
	return err
}

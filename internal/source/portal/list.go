package portal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"weir/internal/dialect/apicast"
	"weir/internal/document"
)

// errNoList says that an answer is none of a portal, and too long to say why.
var errNoList = errors.New("it is not a list of proxy_configs")

// readList reads a list of the portal as it arrives. A service whose text is as it
// was in the list before is the same entry: its text is found by brackets and
// quotes, and nothing in it is read. What is not plainly a list of services is
// left to readConfigs, which knows what is wrong with it.
func readList(body io.Reader, old []*apicast.Entry) ([]*apicast.Entry, error) {
	buffer := buffers.Get().(*[]byte)
	w := document.WalkReader(body, *buffer)
	defer func() {
		if *buffer = w.Buffer(); cap(*buffer) <= largestBuffer {
			buffers.Put(buffer)
		}
	}()
	l := &list{old: old}
	if l.read(w) && l.found && w.Over() {
		return l.entries, nil
	}
	if text, small := w.Whole(); small {
		return readConfigs(text)
	}
	return nil, cmp.Or(w.Err(), l.err, errNoList)
}

// buffers are for answers: a portal's are large, and all alike.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestBuffer is the largest that is kept for another answer.
const largestBuffer = 4 << 20

// A list is one of the portal while it is read.
type list struct {
	old     []*apicast.Entry
	next    int // in old: the one that probably comes
	entries []*apicast.Entry
	found   bool
	err     error
}

func (l *list) read(w *document.Walk) bool {
	return w.Object(func(name string) bool {
		if name != "proxy_configs" {
			return plainName(name) && w.Skip()
		}
		l.entries, l.next, l.found = make([]*apicast.Entry, 0, len(l.old)), 0, true
		return w.Array(func() bool { return l.service(w) })
	})
}

// service reads the content of the proxy_config of the object that comes next.
func (l *list) service(w *document.Walk) bool {
	read := false
	return w.Object(func(name string) bool {
		if name != "proxy_config" {
			return plainName(name) && w.Skip()
		}
		return w.Object(func(name string) bool {
			if name != "content" {
				return plainName(name) && w.Skip()
			}
			text, ok := w.Value()
			if read || !ok { // a second one
				return false
			}
			read = true
			return l.add(text)
		})
	}) && read
}

// plainName says that a name cannot be taken for one that is looked for:
// encoding/json does not tell capitals apart.
func plainName(name string) bool { return strings.ToLower(name) == name }

// add adds the service with this text.
func (l *list) add(text []byte) bool {
	for ahead := range 2 {
		if at := l.next + ahead; at < len(l.old) && bytes.Equal(l.old[at].Service, text) {
			l.entries = append(l.entries, l.old[at])
			l.next = at + 1
			return true
		}
	}
	if len(l.entries) == apicast.MaxServices {
		l.err = apicast.ErrTooMany
		return false
	}
	e, err := readEntry(text)
	if err != nil {
		l.err = fmt.Errorf("proxy_configs[%d]: %w", len(l.entries), err)
		return false
	}
	l.entries = append(l.entries, e)
	if l.next < len(l.old) && l.old[l.next].ID == e.ID {
		l.next++
	}
	return true
}

// readEntry is apicast.ReadEntry for what lua-cjson reads.
func readEntry(text []byte) (*apicast.Entry, error) {
	strict, err := document.Strict(text)
	if err != nil {
		return nil, err
	}
	return apicast.ReadEntry(strict)
}

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
	id      []byte // of the proxy_config that is read; empty: it has none
	unread  []byte // its content, if that cannot be read or there is none
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
	before, wrapped := len(l.entries), false
	if before == apicast.MaxServices {
		l.err = apicast.ErrTooMany
		return false
	}
	return w.Object(func(name string) bool {
		if name != "proxy_config" {
			return plainName(name) && w.Skip()
		}
		if wrapped { // a second one
			return false
		}
		wrapped = true
		if !l.config(w) {
			return false
		}
		if len(l.entries) == before {
			l.entries = append(l.entries, readEntry(l.id, l.unread))
			if l.next < len(l.old) && l.old[l.next].Unread != nil {
				l.next++
			}
		}
		return true
	}) && wrapped
}

// config reads a proxy_config.
func (l *list) config(w *document.Walk) bool {
	read := false
	l.id, l.unread = l.id[:0], nil
	return w.Object(func(name string) bool {
		switch {
		case name == "id":
			text, ok := w.Value()
			l.id = append(l.id[:0], text...)
			return ok
		case name != "content":
			return plainName(name) && w.Skip()
		}
		text, ok := w.Value()
		if read || !ok { // a second one
			return false
		}
		read = true
		return l.add(text)
	})
}

// plainName says that a name cannot be taken for one that is looked for:
// encoding/json does not tell capitals apart.
func plainName(name string) bool { return strings.ToLower(name) == name }

// add adds the service with this text, if it can be read.
func (l *list) add(text []byte) bool {
	for ahead := range 2 {
		if at := l.next + ahead; at < len(l.old) && bytes.Equal(l.old[at].Service, text) {
			l.entries = append(l.entries, l.old[at])
			l.next = at + 1
			return true
		}
	}
	text, err := document.Strict(text)
	if err != nil {
		l.err = fmt.Errorf("proxy_configs[%d]: %w", len(l.entries), err)
		return false
	}
	e, err := apicast.ReadEntry(text)
	if err != nil {
		l.unread = bytes.Clone(text)
		return true
	}
	l.entries = append(l.entries, e)
	if l.next < len(l.old) && l.old[l.next].ID == e.ID {
		l.next++
	}
	return true
}

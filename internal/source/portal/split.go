package portal

import (
	"bytes"
	"strings"

	"weir/internal/dialect/apicast"
)

// again reads a list of the portal like readConfigs. A service whose text is as it
// was in the list before is the same entry: its text is found by brackets and
// quotes, and nothing in it is read. What is not plainly a list of services is
// left to readConfigs, which knows what is wrong with it.
func again(body []byte, old []*apicast.Entry) ([]*apicast.Entry, error) {
	if len(old) == 0 {
		return readConfigs(body)
	}
	t := text{b: body}
	texts, found := make([][]byte, 0, len(old)+1), false
	whole := t.object(func(name string) bool {
		if name != "proxy_configs" {
			return t.skip()
		}
		texts, found = texts[:0], true
		return t.array(func() bool {
			service, ok := t.content()
			texts = append(texts, service)
			return ok && service != nil
		})
	})
	if !whole || !found || !t.over() {
		return readConfigs(body)
	}
	entries := make([]*apicast.Entry, 0, len(texts))
	next := 0 // in old: the one that is probably the same
	for _, service := range texts {
		switch {
		case next < len(old) && bytes.Equal(old[next].Service, service):
			entries = append(entries, old[next])
			next++
			continue
		case next+1 < len(old) && bytes.Equal(old[next+1].Service, service):
			entries = append(entries, old[next+1])
			next += 2
			continue
		}
		e, err := apicast.ReadEntry(bytes.Clone(service))
		if err != nil {
			return readConfigs(body)
		}
		entries = append(entries, e)
		if next < len(old) && old[next].ID == e.ID {
			next++
		}
	}
	return entries, nil
}

// content is the content of the proxy_config of the object that comes next; nil if
// it has none.
func (t *text) content() (service []byte, ok bool) {
	ok = t.object(func(name string) bool {
		if name != "proxy_config" {
			return t.skip()
		}
		return t.object(func(name string) bool {
			t.space()
			from := t.at
			ok := t.skip()
			if name == "content" {
				service = t.b[from:t.at]
			}
			return ok
		})
	})
	return service, ok
}

// A text is a JSON text that is walked through. Its methods are false where it is
// not what they expect, or where it is that in an unusual way.
type text struct {
	b  []byte
	at int
}

func (t *text) space() {
	for t.at < len(t.b) && (t.b[t.at] == ' ' || t.b[t.at] == '\n' || t.b[t.at] == '\r' || t.b[t.at] == '\t') {
		t.at++
	}
}

// take goes over c, if that comes next.
func (t *text) take(c byte) bool {
	t.space()
	if t.at < len(t.b) && t.b[t.at] == c {
		t.at++
		return true
	}
	return false
}

// over says that nothing comes any more.
func (t *text) over() bool {
	t.space()
	return t.at == len(t.b)
}

// object goes over an object; member, called with each name, over its value.
func (t *text) object(member func(name string) bool) bool {
	return t.list('{', '}', func() bool {
		t.space()
		from := t.at
		if t.at == len(t.b) || t.b[t.at] != '"' || !t.skip() {
			return false
		}
		name := string(t.b[from+1 : t.at-1])
		return plainName(name) && t.take(':') && member(name)
	})
}

// plainName says that a name is written in the one way in which it is looked for.
func plainName(name string) bool {
	return !strings.Contains(name, `\`) && strings.ToLower(name) == name
}

// array goes over an array; item over each value of it.
func (t *text) array(item func() bool) bool { return t.list('[', ']', item) }

func (t *text) list(open, end byte, item func() bool) bool {
	if !t.take(open) {
		return false
	}
	if t.take(end) {
		return true
	}
	for item() {
		if t.take(end) {
			return true
		}
		if !t.take(',') {
			return false
		}
	}
	return false
}

// skip goes over any value.
func (t *text) skip() bool {
	t.space()
	depth, from := 0, t.at
	for ; t.at < len(t.b); t.at++ {
		switch t.b[t.at] {
		case '"':
			if !t.quoted() {
				return false
			}
			if depth == 0 {
				t.at++
				return true
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				t.at++
				return true
			}
			if depth < 0 { // the end of what this value is in
				return t.at > from
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return t.at > from
			}
		}
	}
	return false
}

// quoted goes from a quotation mark to the one that ends the string.
func (t *text) quoted() bool {
	for {
		i := bytes.IndexByte(t.b[t.at+1:], '"')
		if i < 0 {
			return false
		}
		t.at += 1 + i
		escapes := 0
		for t.b[t.at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return true
		}
	}
}

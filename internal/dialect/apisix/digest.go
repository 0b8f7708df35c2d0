package apisix

import (
	"bytes"
	"crypto/sha256"
	"sort"
)

// A Digest stands for the content of a document.
type Digest [sha256.Size]byte

// WithoutTimes returns a digest of a document that ignores its create_time and
// update_time, and the order of its members at the top level: two documents
// with the same digest mean the same. What is no JSON object has the digest of
// its bytes.
func WithoutTimes(raw []byte) Digest {
	var room [24]member
	members, ok := topLevel(room[:0], raw)
	if !ok {
		return sha256.Sum256(raw)
	}
	sort.SliceStable(members, func(i, j int) bool { return bytes.Compare(members[i].name, members[j].name) < 0 })
	h := sha256.New()
	for _, m := range members {
		if string(m.name) == `"create_time"` || string(m.name) == `"update_time"` {
			continue
		}
		h.Write(m.name)
		h.Write([]byte{':'})
		h.Write(m.value)
		h.Write([]byte{','})
	}
	var d Digest
	h.Sum(d[:0])
	return d
}

// A member is one name and value of an object, as they are written.
type member struct{ name, value []byte }

// topLevel splits an object. It trusts that the values are well formed: a
// document that is not yields no wrong equality, only another digest.
func topLevel(dst []member, raw []byte) ([]member, bool) {
	s := scanner{raw: raw}
	if !s.take('{') {
		return nil, false
	}
	if s.take('}') {
		return dst, s.done()
	}
	for {
		name := s.value()
		if len(name) < 2 || name[0] != '"' || !s.take(':') {
			return nil, false
		}
		value := s.value()
		if len(value) == 0 {
			return nil, false
		}
		dst = append(dst, member{name, value})
		if s.take('}') {
			return dst, s.done()
		}
		if !s.take(',') {
			return nil, false
		}
	}
}

// scanner walks over JSON text.
type scanner struct {
	raw []byte
	at  int
}

func (s *scanner) space() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	s.space()
	if s.at < len(s.raw) && s.raw[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) done() bool {
	s.space()
	return s.at == len(s.raw)
}

// value returns the next value as it is written, without surrounding space.
func (s *scanner) value() []byte {
	s.space()
	from, depth := s.at, 0
	for s.at < len(s.raw) {
		switch c := s.raw[s.at]; c {
		case '"':
			s.text()
			if depth == 0 {
				return s.raw[from:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.raw[from:s.at]
			}
			if depth--; depth == 0 {
				s.at++
				return s.raw[from:s.at]
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.raw[from:s.at]
			}
		}
		s.at++
	}
	return s.raw[from:s.at]
}

// text steps over a string.
func (s *scanner) text() {
	for s.at++; s.at < len(s.raw); s.at++ {
		switch s.raw[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return
		}
	}
	s.at = len(s.raw)
}

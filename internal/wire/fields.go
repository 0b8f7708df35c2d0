package wire

import (
	"bytes"
	"math"
)

// facts are what the fields of a head say about the message.
type facts struct {
	length      int64 // Content-Length, -1: none
	chunked     bool
	close       bool // Connection: close
	keepAlive   bool // Connection: keep-alive
	upgrading   bool // Connection: upgrade
	upgrade     bool // an Upgrade field
	nominates   bool // Connection lists other names
	expect      bool
	expectOther bool // Expect is something other than 100-continue
	trailers    bool // a Trailer field
	hosts       int
	tokens      int // names in Connection fields
	host        string
}

// parseFields parses the field lines of section from p on; the section ends
// with its empty line, and its lines end in CRLF.
func parseFields(h *Header, section []byte, p int) error {
	h.buf = section
	for end := len(section) - 2; p < end; {
		start := p
		for tokenByte[section[p]] {
			p++
		}
		colon := p
		if colon == start || section[colon] != ':' {
			return ErrMalformed
		}
		p += bytes.IndexByte(section[p:], '\n') + 1
		value := trim(section[colon+1 : p-2])
		if !isText(value) {
			return ErrMalformed
		}
		name := view(section[start:colon])
		h.fields = append(h.fields, Field{
			Name:  name,
			Value: view(value),
			Known: classify(name),
			start: int32(start),
			end:   int32(p),
		})
	}
	return nil
}

// gather reads what the known fields say, and marks the nominated ones.
func (f *facts) gather(h *Header, tokens int) error {
	f.length = -1
	for i := range h.fields {
		field := &h.fields[i]
		if field.Known == KnownNone {
			continue
		}
		if err := f.add(field.Known, field.Value); err != nil {
			return err
		}
	}
	if f.tokens > tokens {
		return ErrHeadTooLarge
	}
	if f.chunked && f.length >= 0 {
		return ErrMalformed
	}
	if f.nominates {
		h.nominate()
	}
	return nil
}

func (f *facts) add(known Known, value string) error {
	switch known {
	case KnownContentLength:
		if f.length >= 0 {
			return ErrMalformed
		}
		n, ok := parseLength(value)
		if !ok {
			return ErrMalformed
		}
		f.length = n
	case KnownTransferEncoding:
		if f.chunked || !EqualFold(value, "chunked") {
			return ErrMalformed
		}
		f.chunked = true
	case KnownConnection:
		f.connection(value)
	case KnownHost:
		f.host = value
		f.hosts++
	case KnownExpect:
		f.expect = true
		f.expectOther = f.expectOther || !EqualFold(value, "100-continue")
	case KnownTrailer:
		f.trailers = true
	case KnownUpgrade:
		f.upgrade = true
	}
	return nil
}

func (f *facts) connection(value string) {
	for value != "" {
		var name string
		if name, value = nextToken(value); name == "" {
			continue
		}
		f.tokens++
		switch {
		case EqualFold(name, "close"):
			f.close = true
		case EqualFold(name, "keep-alive"):
			f.keepAlive = true
		case EqualFold(name, "upgrade"):
			f.upgrading = true
		default:
			f.nominates = true
		}
	}
}

// nominate marks the fields that Connection fields name. The message's own
// framing and target are end-to-end whatever a peer says.
func (h *Header) nominate() {
	for i := range h.fields {
		if h.fields[i].Known.Name() != KnownConnection {
			continue
		}
		for list := h.fields[i].Value; list != ""; {
			var name string
			if name, list = nextToken(list); name != "" {
				h.mark(name)
			}
		}
	}
}

func (h *Header) mark(name string) {
	switch classify(name) {
	case KnownHost, KnownContentLength, KnownTransferEncoding, KnownConnection,
		KnownKeepAlive, KnownUpgrade, KnownExpect, KnownDate:
		return
	}
	for i := range h.fields {
		if f := &h.fields[i]; EqualFold(f.Name, name) {
			f.Known |= Nominated
		}
	}
}

// nextToken cuts the first element, which may be empty, off a comma-separated
// list.
func nextToken(list string) (token, rest string) {
	for i := range len(list) {
		if list[i] == ',' {
			return trimString(list[:i]), list[i+1:]
		}
	}
	return trimString(list), ""
}

func trimString(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// parseLength is the value of 1*DIGIT that fits in 63 bits.
func parseLength(s string) (n int64, ok bool) {
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 || n > (math.MaxInt64-int64(c))/10 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	return n, s != ""
}

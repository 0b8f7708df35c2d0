package wire

import "unsafe"

// A Field is one header line. Name and Value are views: of the head's buffer,
// or of whatever was given to Add or Set.
type Field struct {
	Name, Value string

	// Known is set by the parser for the names a gateway treats specially.
	Known Known

	// Dropped fields are neither found nor sent.
	Dropped bool

	start, end int32 // the line in the head's buffer; end is 0 for added fields, received for those without a line
}

// A Header is the ordered list of the fields of one message: those that were
// parsed and those added since. It keeps spelling, order and repetition.
// Names are compared without regard to ASCII case. The zero Header is empty.
type Header struct {
	fields []Field
	buf    []byte // what start and end of parsed fields refer to
}

// keptFields is the number of fields whose memory a Header keeps for the next
// message.
const keptFields = 128

// Reset empties h and keeps its memory, unless an unusual message made it large.
func (h *Header) Reset() {
	if h.buf = nil; cap(h.fields) > keptFields {
		h.fields = nil
		return
	}
	clear(h.fields)
	h.fields = h.fields[:0]
}

// Fields returns all fields, dropped ones too. The caller may set Dropped and
// nothing else; the slice is valid until the next Add or Set.
func (h *Header) Fields() []Field { return h.fields }

// Get returns the value of the first field of that name.
func (h *Header) Get(name string) (value string, ok bool) {
	for i := range h.fields {
		if f := &h.fields[i]; len(f.Name) == len(name) && !f.Dropped && EqualFold(f.Name, name) {
			return f.Value, true
		}
	}
	return "", false
}

// Add appends a field. What would end its line or hide in it is percent-encoded:
// in a name all that is no token byte, in a value the control bytes but TAB. So a
// value that was made of a client's words cannot become a field of its own. A
// field without a name is not added.
func (h *Header) Add(name, value string) {
	if !isToken(raw(name)) {
		if name == "" {
			return
		}
		name = escaped(name, tokenByte)
	}
	if !isText(raw(value)) {
		value = escaped(value, textByte)
	}
	h.fields = append(h.fields, Field{Name: name, Value: value})
}

// AddValid is Add for what is known to be valid: constants, and parts of a
// message that was read.
func (h *Header) AddValid(name, value string) {
	h.fields = append(h.fields, Field{Name: name, Value: value})
}

// received is the end of a field that was received in a protocol without lines.
const received = -1

// Receive appends a field of the message itself, for protocols that do not
// transmit lines. name and value have been checked by the protocol's codec.
func (h *Header) Receive(name, value string) {
	h.fields = append(h.fields, Field{Name: name, Value: value, Known: classify(name), end: received})
}

// Added returns the end of Fields: those that do not come from the message that
// was read.
func (h *Header) Added() []Field {
	i := len(h.fields)
	for i > 0 && h.fields[i-1].end == 0 {
		i--
	}
	return h.fields[i:]
}

// escaped is s with every byte that is not in plain percent-encoded.
func escaped(s string, plain [256]bool) string {
	var out []byte
	for i := range len(s) {
		if plain[s[i]] {
			out = append(out, s[i])
		} else {
			out = appendEscape(out, s[i])
		}
	}
	return view(out)
}

// raw is s as bytes, not to be written to.
func raw(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Set makes name have the one given value: the first such field's place is
// lost, the new one stands at the end.
func (h *Header) Set(name, value string) {
	h.Del(name)
	h.Add(name, value)
}

// Del drops every field of that name and reports whether there was one.
func (h *Header) Del(name string) bool {
	found := false
	for i := range h.fields {
		if f := &h.fields[i]; len(f.Name) == len(name) && !f.Dropped && EqualFold(f.Name, name) {
			f.Dropped, found = true, true
		}
	}
	return found
}

// AppendTo appends the lines of every field that is not dropped, each ended by
// CRLF. Parsed lines that stood together are copied together.
func (h *Header) AppendTo(dst []byte) []byte {
	var from, to int32
	for i := range h.fields {
		f := &h.fields[i]
		switch {
		case f.Dropped:
			continue
		case f.end <= 0:
			dst = append(dst, h.buf[from:to]...)
			from, to = 0, 0
			dst = append(append(append(append(dst, f.Name...), ": "...), f.Value...), '\r', '\n')
			continue
		case f.start != to:
			dst = append(dst, h.buf[from:to]...)
			from = f.start
		}
		to = f.end
	}
	return append(dst, h.buf[from:to]...)
}

// EqualFold compares without regard to ASCII case.
func EqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

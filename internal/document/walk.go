package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// A Walk goes through a JSON text by its brackets and quotation marks and reads
// nothing else, perhaps while the text still arrives. Its methods are false where
// the text is not what they expect; what is valid JSON they understand, what is not
// they may take for something.
type Walk struct {
	src  io.Reader // of what is not in text yet; nil: there is no more
	err  error     // why it ended, unless it did well
	text []byte    // what is kept
	at   int       // in text: where the walk is
	from int       // in text: where the value begins that is wanted; -1: none is
	gone bool      // text lacks the beginning
}

// kept is how much of a text that arrives is kept at least. Beyond it only a value
// that is asked for is.
const kept = 1 << 20

// WalkText goes through a text. The values that it gives are parts of it.
func WalkText(text []byte) *Walk { return &Walk{text: text, from: -1} }

// WalkReader goes through a text as it arrives. A value that it gives holds until
// the next is asked for. buffer, whose content does not count, is used for the
// text; see Buffer.
func WalkReader(src io.Reader, buffer []byte) *Walk {
	return &Walk{src: src, text: buffer[:0], from: -1}
}

// Buffer is the buffer to use again, when the walk and its values are not needed
// any more.
func (w *Walk) Buffer() []byte { return w.text }

// Err is the error that ended the text early; nil: none did.
func (w *Walk) Err() error { return w.err }

// Whole is the text if no more than a small one, and reads the rest of it.
func (w *Walk) Whole() (text []byte, small bool) {
	for !w.gone && w.src != nil && len(w.text) < kept {
		w.fill()
	}
	return w.text, !w.gone && w.src == nil && w.err == nil
}

// more says that a character comes.
func (w *Walk) more() bool { return w.at < len(w.text) || w.src != nil && w.fill() }

// fill reads more of the text, at the end of what there is. It reports whether
// there was more.
func (w *Walk) fill() bool {
	const first = 64 << 10
	if len(w.text) == cap(w.text) {
		w.makeRoom(first)
	}
	for range 100 { // a reader may give nothing sometimes, but not always
		n, err := w.src.Read(w.text[len(w.text):cap(w.text)])
		w.text = w.text[:len(w.text)+n]
		if err != nil {
			w.src = nil
			if !errors.Is(err, io.EOF) {
				w.err = err
			}
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
	w.src, w.err = nil, io.ErrNoProgress
	return false
}

// makeRoom drops what is behind the walk, or else makes the buffer larger.
func (w *Walk) makeRoom(first int) {
	behind := w.at
	if w.from >= 0 {
		behind = w.from
	}
	if cap(w.text) >= kept && behind > 0 {
		w.text = w.text[:copy(w.text, w.text[behind:])]
		w.at -= behind
		w.from -= behind // below 0, if there was none
		w.gone = true
	}
	if len(w.text) == cap(w.text) {
		larger := make([]byte, len(w.text), max(first, 2*cap(w.text)))
		copy(larger, w.text)
		w.text = larger
	}
}

func (w *Walk) space() {
	for w.more() && isSpace(w.text[w.at]) {
		w.at++
	}
}

// take goes over c, if that comes next.
func (w *Walk) take(c byte) bool {
	w.space()
	if w.more() && w.text[w.at] == c {
		w.at++
		return true
	}
	return false
}

// Over says that nothing comes any more.
func (w *Walk) Over() bool {
	w.space()
	return !w.more() && w.err == nil
}

// Object goes over an object; member, called with each name, over its value.
func (w *Walk) Object(member func(name string) bool) bool {
	return w.list('{', '}', func() bool {
		quoted, ok := w.Value()
		if !ok || quoted[0] != '"' {
			return false
		}
		name := string(quoted[1 : len(quoted)-1])
		if bytes.IndexByte(quoted, '\\') >= 0 && json.Unmarshal(quoted, &name) != nil {
			return false
		}
		return w.take(':') && member(name)
	})
}

// Array goes over an array; item over each value of it.
func (w *Walk) Array(item func() bool) bool { return w.list('[', ']', item) }

func (w *Walk) list(open, end byte, item func() bool) bool {
	if !w.take(open) {
		return false
	}
	if w.take(end) {
		return true
	}
	for item() {
		if w.take(end) {
			return true
		}
		if !w.take(',') {
			return false
		}
	}
	return false
}

// Value is the value that comes next.
func (w *Walk) Value() (value []byte, ok bool) {
	w.space()
	w.from = w.at
	ok = w.Skip()
	value, w.from = w.text[w.from:w.at:w.at], -1
	return value, ok && len(value) > 0
}

// Skip goes over any value.
func (w *Walk) Skip() bool {
	w.space()
	depth, some := 0, false
	for w.more() {
		switch w.text[w.at] {
		case '"':
			if w.at++; !w.quoted() {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of what this value is in
				return some
			}
			if depth--; depth == 0 {
				w.at++
				return true
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return some
			}
		}
		w.at++
		some = true
	}
	return some && depth == 0 && w.err == nil
}

// quoted goes from behind a quotation mark to behind the one that ends the string.
func (w *Walk) quoted() bool {
	end := -1 // in text: the next quotation mark, or where text ends; -1: not known
	for w.more() {
		if end < 0 {
			if end = bytes.IndexByte(w.text[w.at:], '"'); end < 0 {
				end = len(w.text) - w.at
			}
			end += w.at
		}
		escape := bytes.IndexByte(w.text[w.at:end], '\\')
		if escape < 0 {
			if w.at = end; w.at < len(w.text) {
				w.at++
				return true
			}
			end = -1
			continue
		}
		// Behind end, and where the text may move, end is not known.
		if w.at += escape + 1; w.at == end {
			end = -1
		}
		if !w.more() {
			return false
		}
		if w.at++; w.at == end {
			end = -1
		}
	}
	return false
}

package document

import (
	"errors"
	"io"
)

// ReadText reads a text to its end. size is how long it is said to be; below 0: it
// is not said. Besides the text no more is allocated than its length once more,
// and that only when the text is there: one that is given up half-way, by an error
// of r for instance, costs what was read of it.
func ReadText(r io.Reader, size int64) ([]byte, error) {
	const first, most = 16 << 10, 8 << 20
	var parts [][]byte
	part := make([]byte, 0, first)
	if size > 0 {
		part = make([]byte, 0, size+1) // one more to see the end
	}
	total := 0
	for {
		if len(part) == cap(part) {
			parts = append(parts, part)
			part = make([]byte, 0, min(max(total, first), most))
		}
		n, err := r.Read(part[len(part):cap(part)])
		part, total = part[:len(part)+n], total+n
		switch {
		case errors.Is(err, io.EOF):
			if len(parts) == 0 {
				return part, nil
			}
			text := make([]byte, 0, total)
			for _, p := range append(parts, part) {
				text = append(text, p...)
			}
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

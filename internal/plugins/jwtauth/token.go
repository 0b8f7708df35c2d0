package jwtauth

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"sync"

	"weir/internal/plugin"
)

// A token is a signed JWT in compact form (RFC 7515 §7.1), decoded and not yet
// trusted. It lives in a buffer.
type token struct {
	signed    []byte // header and payload as they were sent, what the signature covers
	header    plugin.Object
	payload   plugin.Object
	signature []byte // nil: not base64url
}

// A buffer is memory for one token.
type buffer struct{ text, decoded []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// parse takes a token apart.
func (b *buffer) parse(text string) (t token, ok bool) {
	b.text, b.decoded = append(b.text[:0], text...), b.decoded[:0]
	header, rest, ok := bytes.Cut(b.text, dot)
	payload, signature, more := bytes.Cut(rest, dot)
	if !ok || !more || bytes.Contains(signature, dot) {
		return token{}, false
	}
	if t.header, ok = plugin.ParseObject(b.decode(header)); !ok {
		return token{}, false
	}
	if t.payload, ok = plugin.ParseObject(b.decode(payload)); !ok {
		return token{}, false
	}
	t.signed = b.text[:len(header)+len(dot)+len(payload)]
	t.signature = b.decode(signature)
	return t, true
}

var dot = []byte{'.'}

// decode decodes base64url, with or without padding; nil: it is none.
func (b *buffer) decode(part []byte) []byte {
	from := len(b.decoded)
	out, err := base64.RawURLEncoding.AppendDecode(b.decoded, bytes.TrimRight(part, "="))
	if err != nil {
		return nil
	}
	b.decoded = out
	return out[from:len(out):len(out)]
}

// number is the number that a JSON value is.
func number(value []byte) (n float64, ok bool) {
	if value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	return n, err == nil
}

package wire

import (
	"encoding/binary"
	"unsafe"
)

// Classes of bytes, from the grammars of RFC 9110 §5.6.2 and RFC 3986.
var (
	tokenByte  = table("!#$%&'*+-.^_`|~" + digits + letters)
	hostByte   = table("-._~!$&'()*+,;=" + digits + letters)
	targetByte = targetBytes()
	textByte   = textBytes()
)

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func table(members string) (t [256]bool) {
	for i := range len(members) {
		t[members[i]] = true
	}
	return t
}

// targetBytes are the bytes of a request target: no controls, space or
// fragment; what RFC 3986 forbids beyond that is common in the wild and
// harmless when passed on as it is.
func targetBytes() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && c != 0x7f && c != '#'
	}
	return t
}

// textBytes are the bytes of a field value (RFC 9110 §5.5).
func textBytes() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != 0x7f || c == '\t'
	}
	return t
}

func isToken(b []byte) bool {
	for _, c := range b {
		if !tokenByte[c] {
			return false
		}
	}
	return len(b) > 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// isText reports whether b holds no control byte but TAB, which is what field
// values and reason phrases may consist of (RFC 9110 §5.5).
func isText(b []byte) bool {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		del := x ^ 0x7f*ones
		if ((x-' '*ones)&^x|(del-ones)&^del)&highs != 0 && !isShortText(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return isShortText(b)
}

func isShortText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// trim removes spaces and tabs on both sides.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// view is b as a string, without a copy.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// hexValue is the value of a hexadecimal digit, 0xff for other bytes.
func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

package expr

import (
	"regexp"
	"strconv"
	"strings"
)

// The classes of PCRE that Go's engine does not have, or has with another
// meaning, as the inside of a class.
const (
	spaceClass      = `\t-\r\x20`
	notSpaceClass   = `\x00-\x08\x0e-\x1f\x21-` + lastText
	horizontalClass = `\t\x20` + noBreakText
	notHorizontal   = `\x00-\x08\n-\x1f\x21-` + beforeNoBreak + afterNoBreak + `-` + lastText
	verticalClass   = `\n-\r` + nextLineText
	notVertical     = `\x00-\t\x0e-` + beforeNextLine + afterNextLine + `-` + lastText

	lastText       = string(rune(lastRune))
	noBreakText    = string(rune(0xE0A0))
	beforeNoBreak  = string(rune(0xE09F))
	afterNoBreak   = string(rune(0xE0A1))
	nextLineText   = string(rune(0xE085))
	beforeNextLine = string(rune(0xE084))
	afterNextLine  = string(rune(0xE086))
)

// classes is immutable.
var classes = map[byte]string{
	's': spaceClass, 'S': notSpaceClass, 'h': horizontalClass, 'H': notHorizontal, 'v': verticalClass, 'V': notVertical,
}

// escape translates a backslash and what belongs to it.
func (t *translator) escape(inClass bool) {
	rest := t.in[t.at+1:]
	if rest == "" {
		t.write(`\`) // an error for both engines
		t.at++
		return
	}
	c := rest[0]
	t.at += 2
	if class, ok := classes[c]; ok {
		if !inClass {
			class = "[" + class + "]"
		}
		t.write(class)
		return
	}
	switch {
	case c == 'x':
		t.hex()
	case t.isOctal(rest, inClass):
		t.octal(rest)
	case c == 'Q':
		t.quoted(inClass)
	case c == 'E':
	case c == 'e':
		t.write(`\x1b`)
	case c == 'c' && len(rest) > 1:
		t.rune(rune(upper(rest[1]) ^ 0x40))
		t.at++
	case c == '_' || c >= 0x80:
		t.literal(c)
	case inClass && c == 'b':
		t.write(`\x08`)
	case inClass:
		t.write(`\` + string(rune(c)))
	case c == 'Z':
		t.beyond = true
		t.write(`(?=\n?\z)`)
	case c == 'R':
		t.write(`(?:\r\n|[` + verticalClass + `])`)
		t.beyond = true // it does not give back the line feed of a pair
	case c == 'N':
		t.write(`[^\n]`)
	case c == 'K':
		t.write("(?:)") // where a match begins does not matter
	case c == 'k' && t.named(rest[1:]):
	default:
		t.beyond = t.beyond || '1' <= c && c <= '9' // Go's engine takes the number of a group for a code
		t.write(`\` + string(rune(c)))
	}
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// hex translates what follows \x: up to two digits, or any number in braces.
func (t *translator) hex() {
	rest := t.in[t.at:]
	digits, n := "", 0
	if inner, _, ok := strings.Cut(rest, "}"); ok && strings.HasPrefix(rest, "{") {
		digits, n = inner[1:], len(inner)+1
	} else {
		for n < 2 && n < len(rest) && hexDigit(rest[n]) >= 0 {
			n++
		}
		digits = rest[:n]
		if n == 0 {
			digits = "0"
		}
	}
	code, err := strconv.ParseUint(digits, 16, 8)
	if err != nil {
		t.write(`\x{` + digits) // an error for both engines
		return
	}
	t.at += n
	t.rune(rune(code))
}

// named translates what follows \k, the name of a group, and says whether it is one.
func (t *translator) named(rest string) bool {
	if rest == "" {
		return false
	}
	end := map[byte]string{'<': ">", '\'': "'", '{': "}"}[rest[0]]
	name, _, ended := strings.Cut(rest[1:], end)
	if end == "" || !ended {
		return false
	}
	t.beyond = true
	t.at += len(name) + 2
	t.reference(name)
	return true
}

// isOctal says whether digits behind a backslash are a code, not a group: those that
// begin with 0, those in a class, and numbers from 10 on that no group before has.
func (t *translator) isOctal(digits string, inClass bool) bool {
	if digits[0] < '0' || digits[0] > '7' {
		return false
	}
	if inClass || digits[0] == '0' {
		return true
	}
	n := 1
	for n < len(digits) && '0' <= digits[n] && digits[n] <= '9' {
		n++
	}
	group, err := strconv.Atoi(digits[:n])
	return err != nil || group >= 10 && group > t.groups
}

// octal translates up to three digits, the first of which is taken.
func (t *translator) octal(digits string) {
	n := 1
	for n < min(3, len(digits)) && '0' <= digits[n] && digits[n] <= '7' {
		n++
	}
	code, err := strconv.ParseUint(digits[:n], 8, 8)
	if err != nil {
		t.write(`\x{` + digits[:n]) // an error for both engines
		return
	}
	t.at += n - 1
	t.rune(rune(code))
}

// rune writes a character by its code of 8 bits.
func (t *translator) rune(code rune) {
	if code >= 0x80 {
		t.out.WriteRune(highByte(byte(code)))
		return
	}
	t.write(`\x` + string("0123456789abcdef"[code>>4]) + string("0123456789abcdef"[code&15]))
}

// quoted translates the text between \Q and \E.
func (t *translator) quoted(inClass bool) {
	inner, _, ended := strings.Cut(t.in[t.at:], `\E`)
	for i := range len(inner) {
		t.begin()
		switch c := inner[i : i+1]; {
		case c >= "\x80":
			t.literal(c[0])
		case inClass && c == "-":
			t.write(`\-`)
		default:
			t.write(regexp.QuoteMeta(c))
		}
	}
	t.at += len(inner)
	if ended {
		t.at += len(`\E`)
	}
}

// class translates a class in brackets.
func (t *translator) class() {
	t.write("[")
	t.at++
	if strings.HasPrefix(t.in[t.at:], "^") {
		t.write("^")
		t.at++
	}
	if strings.HasPrefix(t.in[t.at:], "]") {
		t.write(`\]`)
		t.at++
	}
	for t.at < len(t.in) {
		switch c := t.in[t.at]; c {
		case ']':
			t.write("]")
			t.at++
			return
		case '\\':
			t.escape(true)
		case '[':
			t.bracket()
		default:
			t.literal(c)
			t.at++
		}
	}
}

// bracket translates a bracket within a class: the start of a named class or
// itself.
func (t *translator) bracket() {
	rest := t.in[t.at:]
	if end := strings.Index(rest, ":]"); end > 0 && strings.HasPrefix(rest, "[:") && !strings.ContainsAny(rest[2:end], "]\\[") {
		name := rest[2:end]
		t.at += end + len(":]")
		switch name {
		case "space":
			t.write(spaceClass)
		case "^space":
			t.write(notSpaceClass)
		default:
			t.write("[:" + name + ":]")
		}
		return
	}
	t.write(`\[`)
	t.at++
}

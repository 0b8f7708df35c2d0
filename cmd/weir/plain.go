package main

import (
	"io"
	"strings"
	"unicode"
)

// plain is text on one line: ids and names come from a store and may be anything, also
// what a terminal obeys.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// plainLines is plain for each of several lines.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

// A plainWriter writes plain lines. Every Write has whole characters.
type plainWriter struct{ to io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.to, plainLines(string(p)))
	return len(p), err
}

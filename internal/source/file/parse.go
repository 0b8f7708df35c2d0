package file

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/document"
	"weir/internal/source/declared"
)

// parse reads the text of a file, by the ending of its name.
func (s *Source) parse(text []byte) (*document.Value, error) {
	read := s.parseYAML
	if filepath.Ext(s.cfg.Path) == ".json" {
		read = s.parseJSON
	}
	doc, err := read(text)
	if err != nil {
		return nil, err
	}
	if !doc.Is(document.Object) || len(doc.Members) == 0 {
		return nil, errors.New("the document is not a table of sections")
	}
	return doc, nil
}

// parseYAML wants the end of the text to be marked, so that a file of which the
// rest is yet to be written is not taken for a whole one. Variables are replaced
// before the text is read: quotes in the text decide what a value is.
func (s *Source) parseYAML(text []byte) (*document.Value, error) {
	const tail = 10
	end := text[max(0, len(text)-tail):]
	if !bytes.HasSuffix(bytes.TrimRight(end, " \t\r\n\v\f"), []byte("#END")) {
		return nil, errors.New("missing valid end flag: the last line is not #END")
	}
	expanded, _, err := s.cfg.Lookup.expand(string(text))
	if err != nil {
		return nil, err
	}
	return declared.ParseYAML([]byte(expanded))
}

func (s *Source) parseJSON(text []byte) (*document.Value, error) {
	doc, err := document.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("failed to decode json: line %d: %w", lineOf(text, err), err)
	}
	return doc, s.cfg.Lookup.expandValue(doc)
}

// lineOf is the line, from 1, of the character that a syntax error names.
func lineOf(text []byte, err error) int {
	_, at, _ := strings.Cut(err.Error(), " at character ")
	n, notNumber := strconv.Atoi(at)
	if notNumber != nil {
		return 1
	}
	return 1 + bytes.Count(text[:min(max(n-1, 0), len(text))], []byte("\n"))
}

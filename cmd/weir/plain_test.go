package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"weir/internal/app"
	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/transfer"
)

// What is stored under any name does not command the terminal, nor forge lines.
func TestHostileNames(t *testing.T) {
	const evil = "\x1b[2J\u202e\nroute\tmine"
	var out bytes.Buffer
	text, err := json.Marshal(map[string]any{
		"route": map[string]string{"id": "1", "name": evil}, "candidates": []map[string]string{{"id": evil, "name": evil, "path": evil}},
	})
	said := new(app.Explanation)
	if err = errors.Join(err, json.Unmarshal(text, said)); err != nil {
		t.Fatal(err)
	}
	if err := printExplanation(&out, said); err != nil {
		t.Fatal(err)
	}
	v, err := document.Parse([]byte(`{"name":"\u001b[2J\n","uri":"/\u009b2J"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := table(&out, model.KindRoute, []transfer.Listed{{Key: model.Key{Kind: model.KindRoute, ID: evil}, Value: v}}); err != nil {
		t.Fatal(err)
	}
	printFindings(plainWriter{&out}, migrateReport{Findings: []transfer.Finding{{Group: transfer.GroupLua, What: evil, Objects: []string{evil}}}}, false)
	for line := range strings.Lines(out.String()) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", line)
		}
	}
	if strings.Contains(out.String(), "\nroute\ufffdmine") {
		t.Errorf("a forged line: %q", out.String())
	}
}

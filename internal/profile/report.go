package profile

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"
)

// plain is text on one line: names come from a store and may be anything, also what a
// terminal obeys or what turns the direction of the text.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// prose is plain text that is no HTML within Markdown.
func prose(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(plain(text))
}

// literal is a block of lines that Markdown shows as they are.
func literal(lines []string) string {
	var b strings.Builder
	fence := "```"
	for _, line := range lines {
		line = plain(line)
		for strings.Contains(line, fence) {
			fence += "`"
		}
		b.WriteString(line + "\n")
	}
	return fence + "\n" + b.String() + fence + "\n"
}

// WriteMarkdown writes the diagnosis as Markdown.
func (d *Diagnosis) WriteMarkdown(to io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Diagnosis of %s\n\n%s, over %s\n", prose(d.Gateway), d.At.Format(time.DateTime), d.Length.Round(time.Second))
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "\n## %d. %s\n\n%s\n\n", i+1, s.Title, prose(s.Verdict))
		if len(s.Evidence) > 0 {
			b.WriteString(literal(s.Evidence))
		}
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"Ruled out", d.RuledOut}, {"Measured", d.Measured}} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		for _, line := range part.lines {
			fmt.Fprintf(&b, "* %s\n", prose(line))
		}
		if len(part.lines) == 0 {
			b.WriteString("Nothing.\n")
		}
	}
	_, err := to.Write(b.Bytes())
	return err
}

//go:embed report.html
var reportPage string

// WriteHTML writes the diagnosis as one page with the flame graph in it.
func (d *Diagnosis) WriteHTML(to io.Writer) error {
	var flame bytes.Buffer
	if err := d.analysis.WriteHTML(&flame, "CPU of "+d.Gateway); err != nil {
		return err
	}
	t, err := template.New("report").Funcs(template.FuncMap{
		"next": func(i int) int { return i + 1 }, "plain": plain,
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	return t.Execute(to, map[string]any{"D": d, "At": d.At.Format(time.DateTime), "Length": d.Length.Round(time.Second), "Flame": flame.String()})
}

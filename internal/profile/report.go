package profile

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

// WriteMarkdown writes the diagnosis as Markdown.
func (d *Diagnosis) WriteMarkdown(to io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Diagnosis of %s\n\n%s, over %s\n", d.Gateway, d.At.Format(time.DateTime), d.Length.Round(time.Second))
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "\n## %d. %s\n\n%s\n\n", i+1, s.Title, s.Verdict)
		if len(s.Evidence) > 0 {
			fmt.Fprintf(&b, "```\n%s\n```\n", strings.Join(s.Evidence, "\n"))
		}
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"Ruled out", d.RuledOut}, {"Measured", d.Measured}} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		for _, line := range part.lines {
			fmt.Fprintf(&b, "* %s\n", line)
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
		"next": func(i int) int { return i + 1 }, "lines": func(l []string) string { return strings.Join(l, "\n") },
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	return t.Execute(to, map[string]any{"D": d, "At": d.At.Format(time.DateTime), "Length": d.Length.Round(time.Second), "Flame": flame.String()})
}

package transfer

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/document"
)

// AppendYAML appends a value as YAML that APISIX, Weir and every other reader of
// YAML 1.1 or 1.2 take for the same JSON value: what could be read as something
// else is quoted. It ends with a line feed. It fails for a text that is not
// UTF-8, which YAML cannot hold.
func AppendYAML(dst []byte, v *document.Value) ([]byte, error) {
	if path, bad := notUTF8(v, ""); bad {
		return nil, fmt.Errorf("%s is not UTF-8, which YAML cannot hold; write JSON", path)
	}
	p := yamlPrinter{}
	p.b.Write(dst)
	p.value(v, 0, false)
	return p.b.Bytes(), nil
}

// notUTF8 finds a text that is not UTF-8.
func notUTF8(v *document.Value, path string) (at string, found bool) {
	if v.Is(document.String) && !utf8.ValidString(v.Text) {
		return path, true
	}
	for i, item := range v.Items {
		if at, found = notUTF8(item, join(path, strconv.Itoa(i+1))); found {
			return at, true
		}
	}
	for _, m := range v.Members {
		if !utf8.ValidString(m.Name) {
			return "a name in " + path, true
		}
		if at, found = notUTF8(m.Value, join(path, m.Name)); found {
			return at, true
		}
	}
	return "", false
}

// join appends a name to a dotted path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

type yamlPrinter struct{ b bytes.Buffer }

func (p *yamlPrinter) indent(depth int) {
	for range depth {
		p.b.WriteString("  ")
	}
}

// value prints v whose lines are indented by depth. After "- " the first line
// is where it shall be.
func (p *yamlPrinter) value(v *document.Value, depth int, inLine bool) {
	switch {
	case v.Is(document.Object) && len(v.Members) > 0:
		for i, m := range v.Members {
			if i > 0 || !inLine {
				p.indent(depth)
			}
			p.member(m, depth)
		}
	case v.Is(document.Array) && len(v.Items) > 0:
		for i, item := range v.Items {
			if i > 0 || !inLine {
				p.indent(depth)
			}
			p.b.WriteString("- ")
			p.value(item, depth+1, true)
		}
	default:
		p.scalar(v, depth)
		p.b.WriteByte('\n')
	}
}

// maxKey bounds the keys in the short form; YAML's own bound is 1024
// characters.
const maxKey = 120

func (p *yamlPrinter) member(m document.Member, depth int) {
	if len(m.Name) > maxKey {
		p.b.WriteString("? ")
		p.quote(m.Name)
		p.b.WriteByte('\n')
		p.indent(depth)
	} else {
		p.text(m.Name, 0, false)
	}
	p.b.WriteByte(':')
	v := m.Value
	if v.Is(document.Object) && len(v.Members) > 0 || v.Is(document.Array) && len(v.Items) > 0 {
		p.b.WriteByte('\n')
		p.value(v, depth+1, false)
		return
	}
	p.b.WriteByte(' ')
	p.scalar(v, depth+1)
	p.b.WriteByte('\n')
}

func (p *yamlPrinter) scalar(v *document.Value, depth int) {
	switch v.Kind {
	case document.String:
		p.text(v.Text, depth, true)
	case document.Number:
		p.number(v.Text)
	default: // empty arrays and objects, too
		p.b.Write(v.Append(nil))
	}
}

// number writes exponents in the form that YAML 1.1 knows, with a dot.
func (p *yamlPrinter) number(s string) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent := s[:i], s[i+1:]
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		if exponent[0] != '+' && exponent[0] != '-' {
			exponent = "+" + exponent
		}
		s = mantissa + "e" + exponent
	}
	p.b.WriteString(s)
}

func (p *yamlPrinter) text(s string, depth int, block bool) {
	switch {
	case isPlain(s):
		p.b.WriteString(s)
	case block && isBlock(s):
		p.block(s, depth)
	default:
		p.quote(s)
	}
}

// isPlain admits the texts that no version of YAML takes for anything else.
func isPlain(s string) bool {
	if s == "" || len(s) > maxKey {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == '/':
		case i == 0, !strings.ContainsRune("0123456789.-*", rune(c)):
			return false
		}
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// isBlock admits texts of several lines that a reader likes to see as such:
// certificates, scripts. Spaces at the edges of lines would be lost on readers.
func isBlock(s string) bool {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if len(lines) < 2 {
		return false
	}
	for i, l := range lines {
		if i == 0 && (l == "" || l[0] == ' ') || strings.HasSuffix(l, " ") || !printable(l) {
			return false
		}
	}
	return lines[len(lines)-1] != ""
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (p *yamlPrinter) block(s string, depth int) {
	body, ended := strings.CutSuffix(s, "\n")
	p.b.WriteByte('|')
	if !ended {
		p.b.WriteByte('-')
	}
	for l := range strings.SplitSeq(body, "\n") {
		p.b.WriteByte('\n')
		if l != "" {
			p.indent(depth)
			p.b.WriteString(l)
		}
	}
}

// quote prints a text between double quotes, which may hold what JSON's may.
func (p *yamlPrinter) quote(s string) {
	p.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			p.b.WriteByte('\\')
			p.b.WriteRune(r)
		case r == '\n':
			p.b.WriteString(`\n`)
		case r == '\t':
			p.b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			p.b.WriteRune(r)
		case r <= 0xFFFF:
			fmt.Fprintf(&p.b, `\u%04X`, r)
		default:
			fmt.Fprintf(&p.b, `\U%08X`, r)
		}
	}
	p.b.WriteByte('"')
}

// AppendJSON appends a value as indented JSON and a line feed.
func AppendJSON(dst []byte, v *document.Value) []byte {
	p := jsonPrinter{dst}
	p.value(v, 0)
	return append(p.b, '\n')
}

type jsonPrinter struct{ b []byte }

func (p *jsonPrinter) line(depth int) {
	p.b = append(p.b, '\n')
	for range depth {
		p.b = append(p.b, "  "...)
	}
}

func (p *jsonPrinter) value(v *document.Value, depth int) {
	switch {
	case v.Is(document.Array) && len(v.Items) > 0:
		p.b = append(p.b, '[')
		for i, item := range v.Items {
			if i > 0 {
				p.b = append(p.b, ',')
			}
			p.line(depth + 1)
			p.value(item, depth+1)
		}
		p.line(depth)
		p.b = append(p.b, ']')
	case v.Is(document.Object) && len(v.Members) > 0:
		p.b = append(p.b, '{')
		for i, m := range v.Members {
			if i > 0 {
				p.b = append(p.b, ',')
			}
			p.line(depth + 1)
			p.b = document.NewString(m.Name).Append(p.b)
			p.b = append(p.b, ": "...)
			p.value(m.Value, depth+1)
		}
		p.line(depth)
		p.b = append(p.b, '}')
	default:
		p.b = v.Append(p.b)
	}
}

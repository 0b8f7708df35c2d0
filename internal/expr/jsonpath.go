package expr

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/document"
)

// A jsonPath is a compiled JSONPath in the syntax of lua-jsonpath 1.0: names,
// indexes from 0, "*", "..", unions, slices, filters "?(…)" and scripts "(…)".
// Its meaning is Goessner's (goessner.net/articles/JsonPath); the original's own
// deviations (filters that are not last, names found twice, "or" with what is
// absent) are not kept.
type jsonPath struct{ steps []step }

// A step selects children of a value, or of all its descendants and itself.
type step struct {
	descend bool
	all     bool // *
	names   []string
	slices  []slice
	filter  *operation
	script  *operation
}

// A slice selects items from, to (not included) and by step.
type slice struct {
	from, to, step int
	open           bool // no end is given
}

// limits of an evaluation.
const (
	maxResults = 1 << 16 // values found
	maxVisits  = 1 << 20 // values looked at
)

// compileJSONPath compiles a path without the "$." that begins it.
func compileJSONPath(path string) (*jsonPath, error) {
	p := &pathParser{text: path}
	jp := &jsonPath{}
	for first := true; ; first = false {
		p.space()
		if p.at == len(p.text) && !first {
			return jp, nil
		}
		s, ok := p.step(first)
		if !ok {
			return nil, fmt.Errorf(`invalid expression "$.%s" near "%s"`, path, p.text[min(p.at, len(p.text)):])
		}
		jp.steps = append(jp.steps, s)
	}
}

type pathParser struct {
	text  string
	at    int
	depth int // of parentheses in an expression
}

func (p *pathParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take consumes s if it comes next.
func (p *pathParser) take(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

// step reads the next step. The first stands behind "$.", which may make a
// descent of a dot.
func (p *pathParser) step(first bool) (s step, ok bool) {
	switch {
	case first && p.take("."), !first && p.take(".."):
		s.descend = true
		if p.take("[") {
			return p.subscript(s)
		}
	case !first && p.take("["):
		return p.subscript(s)
	case first, p.take("."):
	default:
		return s, false
	}
	if p.take("*") {
		s.all = true
		return s, true
	}
	if name := p.name(); name != "" {
		s.names = []string{name}
		return s, true
	}
	index, ok := p.integer()
	s.names = []string{strconv.Itoa(index)}
	return s, ok
}

func (p *pathParser) name() string {
	from := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at], p.at > from) {
		p.at++
	}
	return p.text[from:p.at]
}

func isNameByte(c byte, inside bool) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || inside && '0' <= c && c <= '9'
}

func (p *pathParser) integer() (n int, ok bool) {
	from := p.at
	if p.at < len(p.text) && (p.text[p.at] == '-' || p.text[p.at] == '+') {
		p.at++
	}
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.text[from:p.at])
	if err != nil {
		p.at = from
	}
	return n, err == nil
}

// subscript reads what stands in brackets and the closing one.
func (p *pathParser) subscript(s step) (step, bool) {
	ok := true
	switch {
	case p.take("*"):
		s.all = true
	case p.take("?("):
		s.filter, ok = p.enclosed()
	case p.take("("):
		s.script, ok = p.enclosed()
	default:
		ok = p.union(&s)
	}
	return s, ok && p.take("]")
}

func (p *pathParser) enclosed() (*operation, bool) {
	op, ok := p.expression(0)
	return op, ok && p.take(")")
}

// union reads names, indexes and slices with commas between.
func (p *pathParser) union(s *step) bool {
	for {
		p.space()
		if name, ok := p.quoted(); ok {
			s.names = append(s.names, name)
		} else if !p.indexOrSlice(s) {
			return false
		}
		p.space()
		if !p.take(",") {
			return true
		}
	}
}

func (p *pathParser) indexOrSlice(s *step) bool {
	from, given := p.integer()
	p.space()
	if !p.take(":") {
		s.names = append(s.names, strconv.Itoa(from))
		return given
	}
	p.space()
	r := slice{from: from, step: 1}
	to, given := p.integer()
	r.to, r.open = to, !given
	p.space()
	if p.take(":") {
		p.space()
		var ok bool
		if r.step, ok = p.integer(); !ok || r.step == 0 {
			return false
		}
	}
	s.slices = append(s.slices, r)
	return true
}

// quoted reads a text in single or double quotes; a backslash makes the quote a
// part of it.
func (p *pathParser) quoted() (string, bool) {
	if p.at == len(p.text) || p.text[p.at] != '\'' && p.text[p.at] != '"' {
		return "", false
	}
	quote := p.text[p.at]
	for i := p.at + 1; i < len(p.text); i++ {
		switch p.text[i] {
		case '\\':
			i++
		case quote:
			s := strings.ReplaceAll(p.text[p.at+1:i], `\`+string(rune(quote)), string(rune(quote)))
			p.at = i + 1
			return s, true
		}
	}
	return "", false
}

// A search is one evaluation.
type jsonSearch struct {
	found  []*document.Value
	visits int
}

// find returns the values that the path leads to from root, at most maxResults.
func (jp *jsonPath) find(root *document.Value) []*document.Value {
	f := &jsonSearch{found: []*document.Value{root}}
	for i := range jp.steps {
		from := f.found
		f.found = nil
		for _, v := range from {
			f.step(&jp.steps[i], v)
		}
	}
	return f.found
}

func (f *jsonSearch) full() bool { return len(f.found) >= maxResults || f.visits >= maxVisits }

func (f *jsonSearch) add(v *document.Value) {
	if v != nil && !f.full() {
		f.found = append(f.found, v)
	}
}

func (f *jsonSearch) step(s *step, v *document.Value) {
	if f.visits++; f.full() || !isList(v) {
		return
	}
	f.children(s, v)
	if !s.descend {
		return
	}
	for _, child := range v.Items {
		f.step(s, child)
	}
	for _, m := range v.Members {
		f.step(s, m.Value)
	}
}

func (f *jsonSearch) children(s *step, v *document.Value) {
	switch {
	case s.all, s.filter != nil:
		for _, child := range v.Items {
			f.candidate(s, child)
		}
		for _, m := range v.Members {
			f.candidate(s, m.Value)
		}
		return
	case s.script != nil:
		name, ok := s.script.eval(v).append(nil)
		if ok {
			f.add(childOf(v, string(name)))
		}
		return
	}
	for _, name := range s.names {
		f.add(childOf(v, name))
	}
	for _, r := range s.slices {
		f.slice(r, v)
	}
}

func (f *jsonSearch) candidate(s *step, v *document.Value) {
	if f.visits++; s.filter == nil || s.filter.eval(v).truth() {
		f.add(v)
	}
}

// childOf is a member, or the item of that index.
func childOf(v *document.Value, name string) *document.Value {
	if v.Kind == document.Object {
		return v.Get(name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(v.Items) || name[0] == '+' {
		return nil
	}
	return v.Items[i]
}

func (f *jsonSearch) slice(r slice, v *document.Value) {
	n := len(v.Items)
	from, to := r.from, r.to
	if from < 0 {
		from += n
	}
	if r.open {
		to = n
	} else if to < 0 {
		to += n
	}
	if r.step < 0 {
		return // as in the original, which counts up to the end
	}
	for i := max(from, 0); i < min(to, n); i += min(r.step, n+1) {
		f.add(v.Items[i])
	}
}

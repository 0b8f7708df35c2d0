package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
	syntax2 "github.com/dlclark/regexp2/syntax"
)

// A Pattern is a regular expression with the syntax and the meaning of PCRE,
// used as APISIX does: on bytes, not on characters, without further options. It
// is immutable.
//
// Bytes above 0x7F are matched as characters of the private use area, one for
// each, which no letter's case and no class but a negated one has.
type Pattern struct {
	linear    *regexp.Regexp
	strict    *regexp.Regexp // linear with "$" as the very end alone; nil: no "$"
	backtrack *regexp2.Regexp
	every     *Pattern // finds all matches in place of linear; nil: linear does
}

// patternTime bounds a match that needs backtracking. It is enforced within a
// tenth of a second.
const patternTime = 100 * time.Millisecond

// CompilePattern compiles a pattern; fold ignores the case of ASCII letters.
// Go's linear engine runs it where that knows the syntax and means the same, a
// backtracking one otherwise. Recursion, callouts and control verbs are errors.
func CompilePattern(pattern string, fold bool) (*Pattern, error) {
	if linear, strict := compileLinear(pattern, fold); linear != nil {
		return &Pattern{linear: linear, strict: strict}, nil
	}
	re, err := compileBacktracking(pattern, fold)
	if err != nil {
		return nil, patternError(pattern, err)
	}
	return &Pattern{backtrack: re}, nil
}

func compileBacktracking(pattern string, fold bool) (*regexp2.Regexp, error) {
	options := regexp2.RegexOptions(regexp2.RE2)
	if fold {
		options |= regexp2.IgnoreCase
	}
	t := translator{in: pattern, backtrack: true, names: map[string]int{}}
	re, err := regexp2.Compile(t.translate(), options)
	if err == nil {
		re.MatchTimeout = patternTime
	}
	return re, err
}

// patternError says what is wrong with a pattern, in the words of PCRE as
// OpenResty passes them on, where it has the same complaint.
func patternError(pattern string, err error) error {
	words := map[syntax2.ErrorCode]string{
		syntax2.ErrMissingParen:          "missing )",
		syntax2.ErrUnterminatedBracket:   "missing terminating ] for character class",
		syntax2.ErrIllegalEndEscape:      `\ at end of pattern`,
		syntax2.ErrMissingRepeatArgument: "nothing to repeat",
		syntax2.ErrUnexpectedParen:       "unmatched parentheses",
		syntax2.ErrUndefinedBackRef:      "reference to non-existent subpattern",
	}
	if e, ok := errors.AsType[*syntax2.Error](err); ok && words[e.Code] != "" {
		return fmt.Errorf("pcre_compile() failed: %s in \"%s\"", words[e.Code], pattern)
	}
	return fmt.Errorf("invalid or unsupported regular expression %q: %w", pattern, err)
}

// compileLinear returns nil if Go's engine does not know the pattern, or would
// understand something else.
func compileLinear(pattern string, fold bool) (linear, strict *regexp.Regexp) {
	t := translator{in: pattern, names: map[string]int{}}
	translated := t.translate()
	if t.beyond {
		return nil, nil
	}
	if fold {
		translated = "(?i)" + translated
	}
	if t.dollar {
		tree, err := syntax.Parse(translated, syntax.Perl)
		if err != nil || !endsLines(tree, true) {
			return nil, nil
		}
		if strict, err = regexp.Compile(translated); err != nil {
			return nil, nil
		}
		translated = tree.String()
	}
	linear, err := regexp.Compile(translated)
	if err != nil {
		return nil, nil
	}
	return linear, strict
}

// endsLines gives every "$" its meaning in PCRE, the end or a line feed before
// it. That consumes the line feed, so ok is false where something may follow.
func endsLines(re *syntax.Regexp, tail bool) (ok bool) {
	switch re.Op {
	case syntax.OpEndText:
		if re.Flags&syntax.WasDollar == 0 {
			return true
		}
		end, err := syntax.Parse(`(?:\n?\z)`, syntax.Perl)
		*re = *end
		return tail && err == nil
	case syntax.OpConcat, syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		for i, sub := range re.Sub {
			last := re.Op == syntax.OpConcat && i == len(re.Sub)-1
			if !endsLines(sub, tail && last) {
				return false
			}
		}
		return true
	}
	for _, sub := range re.Sub {
		if !endsLines(sub, tail) {
			return false
		}
	}
	return true
}

// Match reports whether the pattern matches somewhere in s. The error says that
// it took too long.
func (p *Pattern) Match(s string) (bool, error) {
	if isASCII(s) {
		return p.match(s)
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = encode(*b, s)
	return p.match(view(*b))
}

func (p *Pattern) match(s string) (bool, error) {
	if p.linear != nil {
		return p.linear.MatchString(s), nil
	}
	return p.backtrack.MatchString(s)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// highByte is the character that a byte above 0x7F is matched as.
func highByte(b byte) rune { return 0xE000 + rune(b) }

// lastRune is the greatest character in any subject.
const lastRune = 0xE0FF

// namedGroup is the beginning of a group with a name. It is immutable.
var namedGroup = regexp.MustCompile(`^\(\?(?:P?<([A-Za-z_]\w*)>|'([A-Za-z_]\w*)')`)

// A translator rewrites a pattern for an engine: what means something else
// there, or nothing, is expressed in other words.
type translator struct {
	in        string
	backtrack bool // for the backtracking engine

	at     int
	out    strings.Builder
	stack  []int          // where the open groups begin in out
	groups int            // with a number, so far
	names  map[string]int // numbers of groups by name
	atom   int            // where the last atom begins in out
	multi  bool           // option m was seen
	spaces bool           // option x was seen

	dollar bool // there is a "$" that does not end each line
	beyond bool // Go's engine would not mean the same
}

func (t *translator) translate() string {
	for t.at < len(t.in) {
		c := t.in[t.at]
		switch {
		case c == '\\':
			t.begin()
			t.escape(false)
		case c == '[':
			t.begin()
			t.class()
		case c == '(':
			t.group()
		case c == ')':
			t.write(")")
			if n := len(t.stack); n > 0 {
				t.atom, t.stack = t.stack[n-1], t.stack[:n-1]
			}
			t.at++
		case c == '$' && !t.multi:
			t.begin()
			t.end()
			t.at++
		case strings.IndexByte("*+?{", c) >= 0:
			t.quantifier()
		case t.spaces && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			t.at++
		case t.spaces && c == '#':
			t.skipTo('\n')
		default:
			t.begin()
			t.literal(c)
			t.at++
		}
	}
	return t.out.String()
}

func (t *translator) write(s string) { t.out.WriteString(s) }

func (t *translator) begin() { t.atom = t.out.Len() }

// skipTo goes behind the next c, or to the end.
func (t *translator) skipTo(c byte) {
	n := strings.IndexByte(t.in[t.at:], c)
	if n < 0 {
		t.at = len(t.in)
		return
	}
	t.at += n + 1
}

// end writes the end of the subject, or of its last line.
func (t *translator) end() {
	if t.backtrack {
		t.write(`(?=\n?\z)`)
		return
	}
	t.dollar = true
	t.write("$")
}

// literal writes a byte of the pattern that stands for itself or is an operator
// in both languages.
func (t *translator) literal(c byte) {
	if c < 0x80 {
		t.out.WriteByte(c)
		return
	}
	t.out.WriteRune(highByte(c))
}

// group begins a group, or takes options and comments.
func (t *translator) group() {
	rest := t.in[t.at:]
	if strings.HasPrefix(rest, "(?#") {
		t.skipTo(')')
		return
	}
	if strings.HasPrefix(rest, "(?") {
		t.options(rest[2:])
	}
	t.begin()
	t.stack = append(t.stack, t.atom)
	m := namedGroup.FindStringSubmatch(rest)
	switch name, _, ended := strings.Cut(strings.TrimPrefix(rest, "(?P="), ")"); {
	case strings.HasPrefix(rest, "(?P=") && ended && t.backtrack:
		t.write("(?:")
		t.reference(name)
		t.at += len("(?P=") + len(name)
	case m != nil:
		t.groups++
		t.names[m[1]+m[2]] = t.groups
		t.numbered(m[0])
	case strings.HasPrefix(rest, "(?"):
		t.write("(?") // no quantifier
		t.at += len("(?")
	default:
		t.groups++
		t.numbered("(")
	}
}

// numbered begins a group, which begins with text. The backtracking engine counts
// those with names apart: each is told its number.
func (t *translator) numbered(text string) {
	t.at += len(text)
	if t.backtrack && strings.Contains(t.in, "(?") {
		text = fmt.Sprintf("(?<%d>", t.groups)
	}
	t.write(text)
}

// reference writes what the group of that name has matched.
func (t *translator) reference(name string) {
	if n := t.names[name]; n > 0 {
		name = strconv.Itoa(n)
	}
	t.write(`\k<` + name + ">")
}

// options notes the options that change what is to be translated. They are taken
// to hold from here on.
func (t *translator) options(s string) {
	for i := range len(s) {
		switch s[i] {
		case 'm':
			t.multi = true
		case 'x':
			t.spaces, t.beyond = true, true
		case 'i', 's', 'U', 'J', 'n':
		default:
			return
		}
	}
}

// quantifier copies a quantifier; a possessive one makes its atom an atomic
// group.
func (t *translator) quantifier() {
	q := t.in[t.at : t.at+1]
	if q == "{" {
		if end := strings.IndexByte(t.in[t.at:], '}'); isCount(t.in[t.at+1 : t.at+max(end, 1)]) {
			q = t.in[t.at : t.at+end+1]
		} else {
			t.begin()
			t.write(`\{`)
			t.at++
			return
		}
	}
	t.write(q)
	t.at += len(q)
	rest := t.in[t.at:]
	switch {
	case strings.HasPrefix(rest, "?"):
		t.write("?")
		t.at++
	case strings.HasPrefix(rest, "+"):
		t.at++
		t.beyond = true
		all := t.out.String()
		t.out.Reset()
		t.write(all[:t.atom] + "(?>" + all[t.atom:] + ")")
	}
}

// isCount reports that s is what may stand between the braces of a quantifier.
func isCount(s string) bool {
	from, to, _ := strings.Cut(s, ",")
	return from != "" && strings.Trim(from, "0123456789") == "" && strings.Trim(to, "0123456789") == ""
}

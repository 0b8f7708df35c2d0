package expr

import (
	"strings"

	"weir/internal/document"
	"weir/internal/plugin"
)

// A graphqlQuery is what the variables graphql_* tell of the first definition of
// a GraphQL document.
type graphqlQuery struct {
	operation  string // query, mutation or subscription; empty for a fragment
	name       string
	rootFields *document.Value
}

// graphqlVar is one of the variables; all are absent where there is no valid
// document.
func graphqlVar(of func(*graphqlQuery) value) Var {
	return Var{body: true, typed: func(c *plugin.Ctx, _ *[]byte) value {
		p := bodyOf(c)
		if !p.graphql {
			p.graphql = true
			p.query = parseGraphQL(graphqlText(c))
		}
		if p.query == nil {
			return value{}
		}
		return of(p.query)
	}}
}

// graphqlText is the document as APISIX looks for it: of a GET in the argument
// query, of a POST in the body, or in its member query where the content type is
// exactly application/json.
func graphqlText(c *plugin.Ctx) string {
	switch c.Request.Method {
	case "GET":
		var b []byte
		if v := argument(c, "query", &b); v.kind == text {
			return v.text
		}
	case "POST":
		limit := c.Limits.GraphQL
		if limit == 0 {
			limit = plugin.DefaultGraphQL
		}
		body := read(c, limit, "")
		if contentType(c) != "application/json" {
			return string(body)
		}
		doc, err := document.Parse(read(c, limit, ",[{"))
		if q := doc.Get("query"); err == nil && q.Is(document.String) {
			return q.Text
		}
	}
	return ""
}

// parseGraphQL reads an executable document (GraphQL specification, October
// 2021, §2.2) as far as the variables need it, and checks the syntax of the
// rest. nil: it is not valid, or empty.
func parseGraphQL(doc string) *graphqlQuery {
	p := &graphqlParser{text: strings.TrimPrefix(doc, "\ufeff")}
	p.next()
	var first *graphqlQuery
	for p.token != "" {
		q := p.definition()
		if p.failed {
			return nil
		}
		if first == nil {
			first = q
		}
	}
	if p.failed {
		return nil
	}
	return first
}

// maxGraphQLDepth bounds the nesting of selections, values and types.
const maxGraphQLDepth = 200

// A graphqlParser has one token ahead: a punctuator, a name, or "0" and "\"" for
// numbers and texts; empty at the end.
type graphqlParser struct {
	text   string
	token  string
	name   bool // the token is a name
	depth  int
	failed bool
}

func (p *graphqlParser) fail() {
	p.failed, p.token, p.name, p.text = true, "", false, ""
}

// next reads the next token. White space and commas do not count.
func (p *graphqlParser) next() {
	p.skipIgnored()
	p.name = false
	if p.text == "" {
		p.token = ""
		return
	}
	c := p.text[0]
	n := 1
	switch {
	case isNameByte(c, false):
		for n < len(p.text) && isNameByte(p.text[n], true) {
			n++
		}
		p.name = true
	case strings.IndexByte("!$&()[]{}:=@|", c) >= 0:
	case strings.HasPrefix(p.text, "..."):
		n = len("...")
	case c == '"':
		p.string()
		return
	case c == '-' || '0' <= c && c <= '9':
		for n < len(p.text) && (isNameByte(p.text[n], true) || strings.IndexByte("+-.", p.text[n]) >= 0) {
			n++
		}
		if _, ok := parseNumber(p.text[:n]); !ok {
			p.fail()
			return
		}
		p.token, p.text = "0", p.text[n:]
		return
	default:
		p.fail()
		return
	}
	p.token, p.text = p.text[:n], p.text[n:]
}

func (p *graphqlParser) skipIgnored() {
	for {
		p.text = strings.TrimLeft(p.text, " \t\r\n,")
		if !strings.HasPrefix(p.text, "#") {
			return
		}
		end := strings.IndexAny(p.text, "\r\n")
		if end < 0 {
			end = len(p.text)
		}
		p.text = p.text[end:]
	}
}

// string reads a text in quotes, or in three of them.
func (p *graphqlParser) string() {
	if rest, ok := strings.CutPrefix(p.text, `"""`); ok {
		for i := 0; i < len(rest); i++ {
			switch {
			case strings.HasPrefix(rest[i:], `\"""`):
				i += 3
			case strings.HasPrefix(rest[i:], `"""`):
				p.token, p.text = `"`, rest[i+3:]
				return
			}
		}
		p.fail()
		return
	}
	for i := 1; i < len(p.text); i++ {
		switch p.text[i] {
		case '\\':
			i++
		case '"':
			p.token, p.text = `"`, p.text[i+1:]
			return
		case '\n', '\r':
			p.fail()
			return
		}
	}
	p.fail()
}

// accept consumes the token if it is s.
func (p *graphqlParser) accept(s string) bool {
	if p.token != s || s == "" {
		return false
	}
	p.next()
	return true
}

func (p *graphqlParser) expect(s string) {
	if !p.accept(s) {
		p.fail()
	}
}

func (p *graphqlParser) takeName() string {
	s := p.token
	if !p.name {
		p.fail()
		return ""
	}
	p.next()
	return s
}

// enter counts a level of nesting.
func (p *graphqlParser) enter() (leave func()) {
	if p.depth++; p.depth > maxGraphQLDepth {
		p.fail()
	}
	return func() { p.depth-- }
}

func (p *graphqlParser) definition() *graphqlQuery {
	q := &graphqlQuery{rootFields: &document.Value{Kind: document.Array}}
	switch p.token {
	case "{":
		q.operation = "query"
	case "query", "mutation", "subscription":
		q.operation = p.takeName()
		if p.name {
			q.name = p.takeName()
		}
		if p.accept("(") {
			for ok := true; ok; ok = !p.failed && !p.accept(")") {
				p.variable()
			}
		}
		p.directives()
	case "fragment":
		p.next()
		q.name = p.takeName()
		p.expect("on")
		p.takeName()
		p.directives()
	default:
		p.fail()
	}
	p.selections(q.rootFields)
	return q
}

func (p *graphqlParser) variable() {
	p.expect("$")
	p.takeName()
	p.expect(":")
	p.typeReference()
	if p.accept("=") {
		p.value()
	}
	p.directives()
}

func (p *graphqlParser) typeReference() {
	defer p.enter()()
	if p.accept("[") {
		p.typeReference()
		p.expect("]")
	} else {
		p.takeName()
	}
	p.accept("!")
}

func (p *graphqlParser) directives() {
	for p.accept("@") {
		p.takeName()
		p.arguments()
	}
}

func (p *graphqlParser) arguments() {
	if !p.accept("(") {
		return
	}
	for ok := true; ok; ok = !p.failed && !p.accept(")") {
		p.takeName()
		p.expect(":")
		p.value()
	}
}

func (p *graphqlParser) value() {
	defer p.enter()()
	switch {
	case p.accept("$"):
		p.takeName()
	case p.accept("["):
		for !p.failed && !p.accept("]") {
			p.value()
		}
	case p.accept("{"):
		for !p.failed && !p.accept("}") {
			p.takeName()
			p.expect(":")
			p.value()
		}
	case p.name, p.token == "0", p.token == `"`:
		p.next()
	default:
		p.fail()
	}
}

// selections reads a selection set and adds the names of its fields and
// fragments to fields, if that is not nil.
func (p *graphqlParser) selections(fields *document.Value) {
	defer p.enter()()
	p.expect("{")
	for !p.failed && !p.accept("}") {
		name := ""
		if p.accept("...") {
			name = p.spread()
		} else {
			name = p.field()
		}
		if fields != nil && name != "" {
			fields.Items = append(fields.Items, document.NewString(name))
		}
	}
}

func (p *graphqlParser) field() string {
	name := p.takeName()
	if p.accept(":") {
		name = p.takeName() // the one before is an alias
	}
	p.arguments()
	p.directives()
	if p.token == "{" {
		p.selections(nil)
	}
	return name
}

// spread reads what follows "...": the name of a fragment, or one written there.
func (p *graphqlParser) spread() string {
	if p.name && p.token != "on" {
		name := p.takeName()
		p.directives()
		return name
	}
	if p.accept("on") {
		p.takeName()
	}
	p.directives()
	p.selections(nil)
	return ""
}
